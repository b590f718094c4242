package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/outbox"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// moveLockTimeout is how long a move to a log waits for a lock.
const moveLockTimeout = 400 * time.Millisecond

// Sequence implements [engine.Outbox]. It moves the rows of each log in a separate transaction.
func (s *Store) Sequence(ctx context.Context, h engine.ShardFence, limit int, check func(context.Context, store.Outgoing) (fault, err error)) (engine.Sequenced, error) {
	if h.Shard.Topic != engine.OutboxTopic {
		return engine.Sequenced{}, fmt.Errorf("%w: %v is not the outbox", engine.ErrFenced, h.Shard)
	}
	m := outboxDB{s, &h}
	return s.outbox.Step(ctx, m, h.Fence, limit, func(ctx context.Context, rows []outbox.Row) (outbox.Settled, error) {
		return s.outbox.Settle(ctx, m, rows, check)
	})
}

// Rejected implements [engine.Outbox].
func (s *Store) Rejected(ctx context.Context, after int64, limit int) ([]operator.Rejected, error) {
	return s.outbox.Rejected(ctx, outboxDB{s: s}, after, limit)
}

// PutBack implements [engine.Outbox].
func (s *Store) PutBack(ctx context.Context, id int64) (bool, error) {
	return s.outbox.PutBack(ctx, outboxDB{s: s}, id)
}

// Drop implements [engine.Outbox].
func (s *Store) Drop(ctx context.Context, id int64) (bool, error) {
	return s.outbox.Drop(ctx, outboxDB{s: s}, id)
}

// An outboxDB is an [outbox.Mover]. Its writes check that h is current, unless h is nil.
type outboxDB struct {
	s *Store
	h *engine.ShardFence
}

func (d outboxDB) Read(ctx context.Context, f func(pgx.Rows) error, sql string, args ...any) error {
	return classify(d.s.callWithRetry(ctx, func(ctx context.Context) error {
		rows, err := d.s.pool.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		return f(rows)
	}))
}

func (d outboxDB) Write(ctx context.Context, sql string, args ...any) (affected int64, err error) {
	err = d.s.write(ctx, func(b *pgx.Batch) {
		d.s.queueFenceCheck(b, d.h)
		b.Queue(sql, args...).Exec(func(done pgconn.CommandTag) error {
			affected = done.RowsAffected()
			return nil
		})
	})
	return affected, err
}

// Move implements [outbox.Mover]. It appends and deletes rows in one transaction that checks the fence. The transaction
// also deletes a row with an id that is already retained with different data.
func (d outboxDB) Move(ctx context.Context, log string, rows []outbox.Row) ([]error, error) {
	l, err := d.s.findLog(ctx, log)
	if err != nil {
		return nil, err
	}
	group, ids := make([]store.Outgoing, len(rows)), make([]int64, len(rows))
	for i := range rows {
		group[i], ids[i] = rows[i].Outgoing, rows[i].ID()
	}
	done, err := d.s.appendGroup(ctx, l, group, d.h, func(b *pgx.Batch) {
		b.Queue(d.s.qualify(`DELETE FROM @.outbox WHERE id = ANY ($1)`), ids)
	})
	for i := range done {
		if done[i].Err != nil {
			d.s.options.Logger.Error("mcp events: an event emitted in a transaction was dropped", "log", l.name, "eventId", group[i].Entry.EventID, "error", done[i].Err)
		}
	}
	return nil, err
}

// findLog returns the log with the given name, which must have been opened by a server. The owner of the outbox also
// moves occurrences of event types that it does not serve.
func (s *Store) findLog(ctx context.Context, name string) (*Log, error) {
	s.mu.Lock()
	l := s.logs[name]
	s.mu.Unlock()
	if l != nil {
		return l, nil
	}
	all, err := collect(ctx, s, func(row pgx.CollectableRow) (*Log, error) {
		l := &Log{s: s, name: name}
		return l, row.Scan(&l.id)
	}, `SELECT id FROM @.logs WHERE name = $1`, name)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("log %q: %w", name, engine.ErrNoLog)
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// isDataError reports whether the server rejected the values rather than the statement, because of a data exception, a
// constraint or a limit.
func isDataError(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "22") || strings.HasPrefix(pg.Code, "23") || strings.HasPrefix(pg.Code, "54"))
}

// AppendGroup implements [engine.Shared].
func (s *Store) AppendGroup(ctx context.Context, log string, group []store.Outgoing) ([]engine.Appended, error) {
	l, err := s.findLog(ctx, log)
	if err != nil {
		return nil, err
	}
	return s.appendGroup(ctx, l, group, nil, func(*pgx.Batch) {})
}

// appendGroup appends to a log, in one transaction with the statements queued by after. The transaction checks that h is
// current, unless h is nil.
func (s *Store) appendGroup(ctx context.Context, l *Log, group []store.Outgoing, h *engine.ShardFence, after func(b *pgx.Batch)) ([]engine.Appended, error) {
	in := newInsert(len(group))
	for i := range group {
		r, err := newRow(&group[i].Entry)
		if err != nil {
			return nil, err
		}
		in.add(&r, group[i].Once, group[i].Above)
	}
	err := s.callWithRetry(ctx, func(ctx context.Context) error {
		b := &pgx.Batch{}
		generation, timeline := s.currentIncarnation()
		s.queueBeginIn(b, generation, timeline, moveLockTimeout.String())
		s.queueFenceCheck(b, h)
		l.queueInsert(b, in, func() {})
		after(b)
		return s.pool.SendBatch(ctx, b).Close()
	})
	if isDataError(err) {
		return nil, fmt.Errorf("%w: %w", engine.ErrRefused, err)
	}
	if err != nil {
		return nil, wrapUncertain(err)
	}
	done := make([]engine.Appended, len(group))
	var own []store.Entry
	for i, r := range in.results {
		done[i] = engine.Appended{Position: r.position, Fresh: r.fresh}
		if r.fresh {
			e := group[i].Entry
			e.Position = r.position
			own = append(own, e)
		} else if err := store.Repeats(r.position, r.stands, group[i].Entry.Data); errors.Is(err, events.ErrIDReused) {
			done[i].Err = err
		}
	}
	s.tail.markAppended(l.id)
	s.mu.Lock()
	here := s.logs[l.name] == l
	s.mu.Unlock()
	if !here || len(own) == 0 {
		return done, nil // no reader in this process
	}
	ctx, cancel := context.WithTimeout(ctx, moveLockTimeout)
	defer cancel()
	if err := l.advance(ctx, in.highestPosition(), own); err != nil {
		s.tail.handleNotification(" " + allLogs) // the entries are committed; the tail delivers them
	}
	return done, nil
}
