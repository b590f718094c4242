package memcluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// An outbox holds the rows of committed transactions and the rejected rows, both ordered by ID.
type outbox struct {
	last     int64
	rows     []row
	rejected []rejectedRow
}

// A row is an occurrence in the outbox.
type row struct {
	id  int64
	out store.Outgoing
}

// A rejectedRow is a row that was rejected.
type rejectedRow struct {
	row
	at     time.Time
	reason string
}

// A Transaction is an author's transaction.
type Transaction struct {
	s    *Store
	rows []row
}

// Begin begins a transaction.
func (s *Store) Begin() *Transaction { return &Transaction{s: s} }

// Emit adds the occurrence to the outbox when the transaction commits.
func (t *Transaction) Emit(p store.Prepared) error {
	return t.s.do(context.Background(), "Emit", func(c *Cluster) error {
		c.outbox.last++
		t.rows = append(t.rows, row{c.outbox.last, p.Outgoing()})
		return nil
	})
}

// Commit makes the occurrences visible.
func (t *Transaction) Commit() error {
	return t.s.do(context.Background(), "Commit", func(c *Cluster) error {
		c.outbox.put(t.rows)
		return nil
	})
}

// Rollback discards the occurrences.
func (t *Transaction) Rollback() error {
	t.rows = nil
	return nil
}

func (o *outbox) put(rows []row) {
	o.rows = append(o.rows, rows...)
	sort.SliceStable(o.rows, func(i, j int) bool { return o.rows[i].id < o.rows[j].id })
}

// Sequence implements [engine.Outbox]. It calls check between two steps, so check can call the store.
func (s *Store) Sequence(ctx context.Context, h engine.ShardFence, limit int, check func(context.Context, store.Outgoing) (fault, err error)) (engine.Sequenced, error) {
	if h.Shard.Topic != engine.OutboxTopic {
		return engine.Sequenced{}, engine.ErrFenced
	}
	found, err := query(ctx, s, "Sequence", func(c *Cluster) ([]verdict, error) {
		if err := c.checkFence(h); err != nil {
			return nil, err
		}
		var found []verdict
		for _, r := range c.outbox.rows {
			found = append(found, verdict{row: r, fault: c.checkLog(r.out.Log)})
		}
		return found, nil
	})
	if err != nil {
		return engine.Sequenced{}, err
	}
	waits := map[string]bool{} // logs whose next occurrence check could not decide
	var judged []verdict
	more := false
	for _, v := range found {
		if waits[v.out.Log] {
			continue
		}
		if len(judged) == limit {
			more = true
			break
		}
		if v.fault == nil {
			var err error
			if v.fault, err = check(ctx, v.out); err != nil {
				waits[v.out.Log] = true
				continue
			}
		}
		judged = append(judged, v)
	}
	done, err := query(ctx, s, "Sequence", func(c *Cluster) (engine.Sequenced, error) {
		if err := c.checkFence(h); err != nil {
			return engine.Sequenced{}, err
		}
		done := engine.Sequenced{Found: len(found), More: more}
		for _, v := range judged {
			if err := c.settle(ctx, v, &done); err != nil {
				return done, err
			}
		}
		return done, nil
	})
	s.mu.Lock()
	logs := s.openLogs()
	s.mu.Unlock()
	for _, l := range logs { // the appending store sees it immediately
		l.deliver(0)
	}
	return done, err
}

// A verdict is a row and its fault. The fault is nil if the row can be moved.
type verdict struct {
	row
	fault error
}

// checkLog returns an error if occurrences cannot be moved to the log.
func (c *Cluster) checkLog(log string) error {
	switch {
	case strings.HasPrefix(log, "/"):
		return fmt.Errorf("the log %s is internal to the servers", log)
	case c.logs[log] == nil:
		return errors.New("no server has opened its log")
	}
	return nil
}

// settle moves the row to its log or rejects it. It does nothing if the row is no longer in the outbox.
func (c *Cluster) settle(ctx context.Context, v verdict, done *engine.Sequenced) error {
	i := slices.IndexFunc(c.outbox.rows, func(r row) bool { return r.id == v.id })
	if i < 0 {
		return nil
	}
	if v.fault == nil {
		of := c.logs[v.out.Log] // checkLog has verified that it exists
		var above *store.Position
		if v.out.Once {
			above = &v.out.Above
		}
		a, err := of.append(ctx, v.out.Entry, above)
		switch {
		case a.fresh:
			of.notifyOthers(nil)
		case errors.Is(err, events.ErrIDReused): // the existing entry counts
		case err != nil:
			return err
		}
	} else {
		c.outbox.rejected = append(c.outbox.rejected, rejectedRow{v.row, time.Now(), v.fault.Error()})
		done.Rejected++
	}
	c.outbox.rows = slices.Delete(c.outbox.rows, i, i+1)
	return nil
}

// Rejected implements [engine.Outbox].
func (s *Store) Rejected(ctx context.Context, after int64, limit int) ([]operator.Rejected, error) {
	return query(ctx, s, "Rejected", func(c *Cluster) (found []operator.Rejected, err error) {
		for _, r := range c.outbox.rejected {
			if r.id > after && len(found) < limit {
				e := &r.out.Entry
				found = append(found, operator.Rejected{ID: r.id, At: r.at, Reason: r.reason, Log: r.out.Log, EventID: e.EventID, Bytes: int64(len(e.Data) + len(e.Meta))})
			}
		}
		return found, nil
	})
}

// PutBack implements [engine.Outbox].
func (s *Store) PutBack(ctx context.Context, id int64) (found bool, err error) {
	return query(ctx, s, "PutBack", func(c *Cluster) (bool, error) {
		r, found := c.outbox.take(id)
		if found {
			c.outbox.last++
			c.outbox.put([]row{{c.outbox.last, r.out}})
		}
		return found, nil
	})
}

// Drop implements [engine.Outbox].
func (s *Store) Drop(ctx context.Context, id int64) (found bool, err error) {
	return query(ctx, s, "Drop", func(c *Cluster) (bool, error) {
		_, found := c.outbox.take(id)
		return found, nil
	})
}

func (o *outbox) take(id int64) (r rejectedRow, found bool) {
	i := slices.IndexFunc(o.rejected, func(r rejectedRow) bool { return r.id == id })
	if i < 0 {
		return r, false
	}
	r = o.rejected[i]
	o.rejected = slices.Delete(o.rejected, i, i+1)
	return r, true
}
