package ledger

import (
	"bytes"
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A sourceRecord is the value of src.
type sourceRecord struct {
	Cursor []byte `json:"cursor"`
}

// Bytes implements [store.Value].
func (s *sourceRecord) Bytes() []byte { return encode(s) }

func sourceKey(source string) string { return join(familySource, hash(source)) }

// A chunk is the value of que: occurrences that follow each other in a queue.
type chunk struct {
	Bodies [][]byte `json:"bodies"`
}

// Bytes implements [store.Value].
func (c *chunk) Bytes() []byte { return encode(c) }

const (
	// chunkSize bounds the bodies of a chunk that has several.
	chunkSize = 64 << 10
	// maxBody bounds a body. Base64 makes four bytes of three.
	maxBody = (store.MaxValue - 4<<10) / 4 * 3
	// maxQueues bounds the queues of an Intake: their schedules and the source are read at one moment.
	maxQueues = store.MaxGet - 1
)

func (s *scheduleRecord) prefix() string { return join(familyQueue, ordinal(s.Queue)) + "/" }

// push appends bodies to the queue and returns how many of the oldest ones it drops, and the writes of new chunks.
func (s *scheduleRecord) push(bodies [][]byte, limit int) (dropped int, writes []store.Write) {
	s.Last += uint64(len(bodies))
	if over := s.Last - s.Done; limit > 0 && over > uint64(limit) {
		dropped = int(over) - limit
		s.Done += uint64(dropped)
	}
	bodies = bodies[max(0, len(bodies)-int(s.Last-s.Done)):] // the others are dropped already
	for size, from, i := 0, 0, 0; i < len(bodies); i++ {
		size += len(bodies[i]) + listed
		if i+1 < len(bodies) && size+len(bodies[i+1])+listed <= chunkSize {
			continue
		}
		last := s.Last - uint64(len(bodies)-1-i)
		writes = append(writes, store.Write{Key: s.prefix() + ordinal(last), Value: &chunk{bodies[from : i+1]}, Once: true})
		size, from = 0, i+1
	}
	return dropped, writes
}

// Intake implements [domain.Schedules]. It is one commit, for up to 399 schedules. It returns an error that matches
// [ErrTooLarge] for an occurrence that is larger than the store can hold.
func (s *Schedules) Intake(ctx context.Context, in domain.Intake) (dropped map[string]int, err error) {
	queued, keys, err := group(in.Items)
	if err != nil {
		return nil, fmt.Errorf("queueing occurrences: %w", err)
	}
	if in.Source != "" {
		keys = append(keys, sourceKey(in.Source))
	}
	if len(keys) == 0 {
		return nil, ctx.Err()
	}
	source := &sourceRecord{[]byte(in.Cursor)}
	if err := fits("the cursor of a source", len(in.Cursor), source); err != nil {
		return nil, err
	}
	var trimmed []*scheduleRecord
	_, err = s.change(ctx, keys, func(r reading) (*store.Commit, error) {
		dropped, trimmed = nil, nil
		c := &store.Commit{}
		for _, q := range queued {
			old, err := decode[scheduleRecord](r.of(q.key))
			if err != nil && !s.l.passOver(q.key, err) {
				return nil, err
			}
			if !old.exists() {
				continue
			}
			next := *old
			n, chunks := next.push(q.bodies, in.Limit)
			c.Writes = append(append(c.Writes, r.write(q.key, &next)), chunks...)
			if n > 0 {
				if dropped == nil {
					dropped = map[string]int{}
				}
				dropped[q.schedule] = n
				trimmed = append(trimmed, &next)
			}
		}
		if in.Source != "" {
			c.Writes = append(c.Writes, r.write(sourceKey(in.Source), source))
		}
		if len(c.Writes) == 0 {
			return nil, nil
		}
		return c, nil
	})
	if err != nil {
		return nil, fmt.Errorf("queueing occurrences: %w", err)
	}
	for _, q := range trimmed {
		s.tidy(ctx, q)
	}
	return dropped, nil
}

// Occurrences for one queue, in order.
type occurrences struct {
	schedule, key string
	bodies        [][]byte
}

// group returns the items by schedule, and the keys of the schedules.
func group(items []domain.Queued) (by []*occurrences, keys []string, err error) {
	at := map[string]*occurrences{}
	for i, item := range items {
		if n := len(item.Body); n > maxBody {
			return nil, nil, fmt.Errorf("%w: item %d has %d bytes; %d are the most", ErrTooLarge, i, n, maxBody)
		}
		q := at[item.Schedule]
		if q == nil {
			if len(item.Schedule) == 0 || len(item.Schedule) > maxScheduleID {
				continue // no schedule can have this ID
			}
			q = &occurrences{schedule: item.Schedule, key: scheduleKey(item.Schedule)}
			at[item.Schedule] = q
			by, keys = append(by, q), append(keys, q.key)
		}
		q.bodies = append(q.bodies, bytes.Clone(item.Body))
	}
	if len(by) > maxQueues {
		return nil, nil, fmt.Errorf("%w: the items are for %d schedules; %d are the most", ErrTooLarge, len(by), maxQueues)
	}
	return by, keys, nil
}

// tidy deletes the chunks of a queue that are done. A failure leaves them for the next time.
func (s *Schedules) tidy(ctx context.Context, q *scheduleRecord) {
	if err := s.deleteDone(ctx, q); err != nil {
		s.l.log.Debug("mcp events: deleting occurrences that were settled failed", "queue", q.prefix(), "error", err)
	}
}

func (s *Schedules) deleteDone(ctx context.Context, q *scheduleRecord) error {
	var deletions []store.Write
	err := s.l.above(ctx, q.prefix(), 0, scanPage, func(last uint64, r store.Record) error {
		if last > q.Done {
			return errEnough
		}
		deletions = append(deletions, store.Write{Key: r.Key, On: r.Revision, Once: true})
		return nil
	})
	if err != nil {
		return err
	}
	return s.l.deleteAll(ctx, deletions)
}

// Queue implements [domain.Schedules]. It leaves out and logs occurrences that cannot be read.
func (s *Schedules) Queue(ctx context.Context, id string, after uint64, limit int) (queue []domain.Queued, err error) {
	q, err := s.queue(ctx, id)
	if err != nil || !q.exists() || limit <= 0 {
		return nil, err
	}
	after = max(after, q.Done)
	err = s.l.above(ctx, q.prefix(), after, limit, func(last uint64, r store.Record) error {
		c, err := decode[chunk](r)
		if err != nil {
			if s.l.passOver(r.Key, err) {
				return nil
			}
			return err
		}
		for i, body := range c.Bodies {
			n := last - uint64(len(c.Bodies)-1-i)
			if n <= after {
				continue
			}
			if queue = append(queue, domain.Queued{Schedule: id, Sequence: n, Body: bytes.Clone(body)}); len(queue) == limit {
				return errEnough
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the queue of schedule %q: %w", id, err)
	}
	return queue, nil
}

// queue returns the record of a schedule, or nil if it does not exist.
func (s *Schedules) queue(ctx context.Context, id string) (*scheduleRecord, error) {
	if len(id) == 0 || len(id) > maxScheduleID {
		return nil, ctx.Err()
	}
	found, err := s.l.e.Get(ctx, store.Latest, scheduleKey(id))
	if err != nil {
		return nil, fmt.Errorf("reading schedule %q: %w", id, err)
	}
	return decode[scheduleRecord](found[0])
}

// CountQueued implements [domain.Schedules].
func (s *Schedules) CountQueued(ctx context.Context, id string) (int, error) {
	q, err := s.queue(ctx, id)
	if err != nil || !q.exists() {
		return 0, err
	}
	return int(q.Last - q.Done), nil
}

// IntakeCursor implements [domain.Schedules].
func (s *Schedules) IntakeCursor(ctx context.Context, source string) (cursor string, ok bool, err error) {
	found, err := s.l.e.Get(ctx, store.Latest, sourceKey(source))
	if err == nil {
		var record *sourceRecord
		if record, err = decode[sourceRecord](found[0]); record != nil {
			return string(record.Cursor), true, nil
		}
	}
	if err != nil {
		return "", false, fmt.Errorf("reading the cursor of source %q: %w", source, err)
	}
	return "", false, nil
}

// ForgetIntake implements [domain.Schedules].
func (s *Schedules) ForgetIntake(ctx context.Context, source string) error {
	key := sourceKey(source)
	if _, err := s.change(ctx, []string{key}, deletion(key)); err != nil {
		return fmt.Errorf("deleting the cursor of source %q: %w", source, err)
	}
	return nil
}
