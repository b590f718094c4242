package ledger

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/scalar"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Schedules stores the schedules of MCPE with their queues, and how far their sources were read; see [domain.Schedules].
// It changes them only as long as it holds the shard of MCPE, and otherwise returns an error that matches [ErrFenced].
// Any process reads them.
//
// The queue of a schedule has the sequences after Done, up to Last. Its occurrences are in records with several each, under
// the latest sequence of each record. An occurrence leaves the queue when Done is stored; its record is deleted afterwards.
type Schedules struct {
	l    *Ledger
	hold Hold
}

var _ domain.Schedules = (*Schedules)(nil)

// Schedules returns the schedules of MCPE for the process that holds its shard.
func (l *Ledger) Schedules(h Hold) *Schedules { return &Schedules{l, h} }

// A scheduleRecord is the value of sch.
type scheduleRecord struct {
	Owner []byte `json:"owner,omitempty"`
	// NextRun is in Unix nanoseconds; 0 means never.
	NextRun int64  `json:"nextRun,omitempty"`
	Record  []byte `json:"record,omitempty"`
	// Queue is a random number for the keys of the queue. A schedule that was deleted and put again has another one.
	Queue uint64 `json:"queue"`
	Done  uint64 `json:"done,omitempty"`
	Last  uint64 `json:"last,omitempty"`
	// Deleted means that the schedule does not exist any more, and the records of its queue are being deleted.
	Deleted bool `json:"deleted,omitempty"`
}

// Bytes implements [store.Value].
func (s *scheduleRecord) Bytes() []byte { return encode(s) }

// exists reports whether there is a schedule.
func (s *scheduleRecord) exists() bool { return s != nil && !s.Deleted }

// with returns the record of a schedule with the queue of s.
func (s *scheduleRecord) with(v *domain.Schedule) *scheduleRecord {
	return &scheduleRecord{Owner: []byte(v.Owner), NextRun: scalar.Nanos(v.NextRun), Record: bytes.Clone(v.Record), Queue: s.Queue, Done: s.Done, Last: s.Last}
}

// maxScheduleID bounds the ID of a schedule, which the key contains in hexadecimal, so that the keys have the order of the
// IDs.
const maxScheduleID = 150

const schedulePrefix = familySchedule + "/"

func scheduleKey(id string) string { return schedulePrefix + hex.EncodeToString([]byte(id)) }

// checkSchedule returns an error if the store cannot hold a schedule.
func checkSchedule(v *domain.Schedule) error {
	if n := len(v.ID); n == 0 || n > maxScheduleID {
		return fmt.Errorf("%w: the ID of schedule %.40q… has %d bytes; use 1 to %d", ErrName, v.ID, n, maxScheduleID)
	}
	return fits("a schedule", len(v.Owner)+len(v.Record), (&scheduleRecord{}).with(v))
}

// change is [Ledger.change] with a guard of the hold.
func (s *Schedules) change(ctx context.Context, keys []string, do step) ([]uint64, error) {
	revisions, err := s.l.change(ctx, keys, func(r reading) (*store.Commit, error) {
		c, err := do(r)
		if c != nil {
			c.Guards = append(c.Guards, s.hold.Guard())
		}
		return c, err
	})
	return revisions, s.hold.fenced(err)
}

// PutSchedule implements [domain.Schedules]. It also replaces a schedule that cannot be read, with an empty queue.
func (s *Schedules) PutSchedule(ctx context.Context, v domain.Schedule) error {
	err := checkSchedule(&v)
	if err == nil {
		key := scheduleKey(v.ID)
		_, err = s.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
			old, err := decode[scheduleRecord](r.of(key))
			if err != nil && unreadable(err) == "" {
				return nil, err
			}
			if old == nil {
				old = &scheduleRecord{Queue: rand.Uint64()}
			}
			return &store.Commit{Writes: []store.Write{r.write(key, old.with(&v))}}, nil
		})
	}
	if err != nil {
		return fmt.Errorf("storing schedule %q: %w", v.ID, err)
	}
	return nil
}

// DeleteSchedule implements [domain.Schedules]. It also deletes a schedule that cannot be read.
func (s *Schedules) DeleteSchedule(ctx context.Context, id string) error {
	key := scheduleKey(id)
	_, err := s.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
		old, err := decode[scheduleRecord](r.of(key))
		switch {
		case err != nil && unreadable(err) == "":
			return nil, err
		case err != nil:
			return &store.Commit{Writes: []store.Write{r.write(key, nil)}}, nil
		case !old.exists():
			return nil, nil
		}
		return &store.Commit{Writes: []store.Write{r.write(key, &scheduleRecord{Queue: old.Queue, Done: old.Last, Last: old.Last, Deleted: true})}}, nil
	})
	if err != nil {
		return fmt.Errorf("deleting schedule %q: %w", id, err)
	}
	s.finish(ctx, key)
	return nil
}

// finish deletes the records of a schedule that was deleted. A failure leaves them for the next [Schedules.Schedules].
func (s *Schedules) finish(ctx context.Context, key string) {
	found, err := s.l.e.Get(ctx, store.Latest, key)
	if err == nil {
		var old *scheduleRecord
		if old, err = decode[scheduleRecord](found[0]); old != nil && old.Deleted {
			if err = s.deleteDone(ctx, old); err == nil {
				err = s.l.delete(ctx, key, found[0].Revision)
			}
		}
	}
	if err != nil {
		s.l.log.Debug("mcp events: deleting the queue of a schedule failed", "key", key, "error", err)
	}
}

// Schedules implements [domain.Schedules]. It leaves out and logs schedules that cannot be read, and completes deletions
// that were interrupted.
func (s *Schedules) Schedules(ctx context.Context, after string, limit int) (all []domain.Schedule, err error) {
	at := ""
	if after != "" {
		at = scheduleKey(after)
	}
	for len(all) < limit {
		page, err := s.l.e.Scan(ctx, schedulePrefix, at, min(limit-len(all), scanPage))
		if err != nil {
			return nil, fmt.Errorf("reading schedules: %w", err)
		}
		if len(page) == 0 {
			break
		}
		for _, r := range page {
			at = r.Key
			v, deleted, err := schedule(r)
			switch {
			case err != nil && !s.l.passOver(r.Key, err):
				return nil, fmt.Errorf("reading schedules: %w", err)
			case deleted:
				s.finish(ctx, r.Key)
			case err == nil:
				all = append(all, v)
			}
		}
	}
	return all, ctx.Err()
}

// schedule returns the schedule of a record, or that it was deleted.
func schedule(r store.Record) (v domain.Schedule, deleted bool, err error) {
	record, err := decode[scheduleRecord](r)
	if err != nil || record.Deleted {
		return v, err == nil, err
	}
	id, err := hex.DecodeString(strings.TrimPrefix(r.Key, schedulePrefix))
	if err != nil {
		return v, false, fmt.Errorf("%w: the ID in %s: %w", ErrDamaged, r.Key, err)
	}
	return domain.Schedule{ID: string(id), Owner: string(record.Owner), NextRun: scalar.Time(record.NextRun), Record: bytes.Clone(record.Record)}, false, nil
}

// Settle implements [domain.Schedules].
func (s *Schedules) Settle(ctx context.Context, v domain.Schedule, upTo uint64) error {
	err := checkSchedule(&v)
	if err == nil {
		var settled *scheduleRecord
		key := scheduleKey(v.ID)
		_, err = s.change(ctx, []string{key}, func(r reading) (*store.Commit, error) {
			settled = nil
			old, err := decode[scheduleRecord](r.of(key))
			if err != nil || !old.exists() {
				return nil, err
			}
			settled = old.with(&v)
			settled.Done = max(old.Done, min(upTo, old.Last))
			return &store.Commit{Writes: []store.Write{r.write(key, settled)}}, nil
		})
		if err == nil && settled != nil {
			s.tidy(ctx, settled)
		}
	}
	if err != nil {
		return fmt.Errorf("settling the queue of schedule %q: %w", v.ID, err)
	}
	return nil
}
