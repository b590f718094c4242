package postgres

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

const outboxColumns = "(log, event_id, timestamp, data, meta, targets, once, above) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"

// EmitPgx puts a prepared occurrence into the author's transaction: it is appended after the commit,
// and never when that does not happen. The transaction takes a row of its own and no lock that
// another one waits for. Occurrences of one transaction keep their order; what a transaction emits
// that began after another's commit comes after the other's. See REP-20.
//
// The transaction is one of the same database; the role needs USAGE on the schema and its sequences
// and INSERT on its outbox. An id that turns out to be retained with other data (OCC-5) is found when
// the occurrence is moved: it is logged there and dropped.
func (s *Store) EmitPgx(ctx context.Context, tx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, p store.Prepared) error {
	args, err := outboxArgs(p)
	if err != nil || args == nil {
		return err
	}
	// Sent unnamed, whatever the author's connection does by default.
	if _, err := tx.Exec(ctx, s.in(`INSERT INTO @.outbox `+outboxColumns), append([]any{pgx.QueryExecModeExec}, args...)...); err != nil {
		return fmt.Errorf("emit in transaction: %w", classify(err))
	}
	return nil
}

// EmitSQL is [Store.EmitPgx] for a transaction of database/sql, by any driver for PostgreSQL that takes
// $1.
func (s *Store) EmitSQL(ctx context.Context, tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}, p store.Prepared) error {
	args, err := outboxArgs(p)
	if err != nil || args == nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, s.in(`INSERT INTO @.outbox `+outboxColumns), args...); err != nil {
		return fmt.Errorf("emit in transaction: %w", classify(err))
	}
	return nil
}

// outboxArgs returns nil for an occurrence that is for nobody.
func outboxArgs(p store.Prepared) ([]any, error) {
	o := p.Outgoing()
	if o.Entry.ForNobody() {
		return nil, nil
	}
	if o.Log == "" || len(o.Log) > maxName {
		return nil, fmt.Errorf("emit in transaction: the name of its log has 1 to %d bytes, this one %d", maxName, len(o.Log))
	}
	r, err := newRow(&o.Entry)
	if err != nil {
		return nil, err
	}
	return []any{o.Log, r.id, r.timestamp, r.data, r.meta, r.targets, o.Once, int64(min(o.Above, 1<<63-1))}, nil
}

// An outboxRow is an occurrence that waits.
type outboxRow struct {
	id    int64
	log   string
	entry store.Entry
	once  bool
	above store.Position
}

// Sequence implements [store.Outbox]. It looks at all rows that are visible, never only beyond the
// last that it saw: a transaction that began earlier may commit later, with lower ids. Each log's rows
// are a step of their own.
func (s *Store) Sequence(ctx context.Context, h store.Hold, limit int) (more bool, err error) {
	if h.Shard.Topic != store.OutboxTopic {
		return false, fmt.Errorf("%w: %v is not the outbox", store.ErrFenced, h.Shard)
	}
	limit = min(max(limit, 1), groupMax)
	rows, err := s.outbox(ctx, limit)
	if err != nil {
		return false, err
	}
	more = len(rows) == limit
	for len(rows) > 0 {
		log := rows[0].log
		mine := slices.Collect(func(yield func(outboxRow) bool) {
			for _, r := range rows {
				if r.log == log && !yield(r) {
					return
				}
			}
		})
		rows = slices.DeleteFunc(rows, func(r outboxRow) bool { return r.log == log })
		for len(mine) > 0 {
			n := distinct(mine)
			if err := s.move(ctx, h, mine[:n]); err != nil {
				return more, err
			}
			mine = mine[n:]
		}
	}
	return more, nil
}

// distinct is how many rows from the first on can be appended in one statement: until an id comes
// again that must not stand twice, or they become large.
func distinct(rows []outboxRow) int {
	seen, size := make(map[int64]bool, len(rows)), 0
	for i, r := range rows {
		k := idHash([]byte(r.entry.EventID), audience(r.entry.Targets))
		size += len(r.entry.Data) + len(r.entry.Meta)
		if i > 0 && (r.once && seen[k] || size > groupBytes) {
			return i
		}
		seen[k] = true
	}
	return len(rows)
}

func (s *Store) outbox(ctx context.Context, limit int) (all []outboxRow, err error) {
	err = s.query(ctx, func(row pgx.CollectableRow) error {
		var r outboxRow
		var id, data, meta, targets []byte
		var timestamp string
		var above int64
		if err := row.Scan(&r.id, &r.log, &id, &timestamp, &data, &meta, &targets, &r.once, &above); err != nil {
			return err
		}
		r.entry = store.Entry{EventID: string(id), Data: data, Meta: meta}
		r.above = store.Position(above)
		at, err := events.ParseTime(timestamp)
		if err == nil && targets != nil {
			err = json.Unmarshal(targets, &r.entry.Targets)
		}
		if err != nil {
			return fmt.Errorf("%w: row %d of the outbox: %w", ErrCorrupt, r.id, err)
		}
		r.entry.Timestamp = at
		all = append(all, r)
		return nil
	}, `SELECT id, log, event_id, timestamp, data, meta, targets, once, above FROM @.outbox ORDER BY id LIMIT $1`, int64(limit))
	if err != nil {
		return nil, err
	}
	return all, nil
}

// move appends rows of one log and deletes them, in one step under the hold.
func (s *Store) move(ctx context.Context, h store.Hold, rows []outboxRow) error {
	l, err := s.logFor(ctx, rows[0].log)
	if err != nil {
		return err
	}
	in, ids := newInsert(len(rows)), make([]int64, len(rows))
	for i := range rows {
		r, err := newRow(&rows[i].entry)
		if err != nil {
			return err
		}
		in.add(&r, rows[i].once, rows[i].above)
		ids[i] = rows[i].id
	}
	err = s.attempt(ctx, func(ctx context.Context) error {
		b := &pgx.Batch{}
		generation, timeline := s.life()
		s.begunIn(b, generation, timeline)
		s.held(b, h)
		l.queueInsert(b, in)
		b.Queue(s.in(`DELETE FROM @.outbox WHERE id = ANY ($1)`), ids)
		return s.pool.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return uncertain(err)
	}
	var own []store.Entry
	for i, r := range in.results {
		if r.fresh {
			rows[i].entry.Position = r.position
			own = append(own, rows[i].entry)
		} else if err := store.Repeats(r.position, r.stands, rows[i].entry.Data); errors.Is(err, events.ErrIDReused) {
			s.options.Logger.Error("mcp events: an occurrence of a transaction was dropped", "log", l.name, "eventId", rows[i].entry.EventID, "error", err)
		}
	}
	s.tail.mark(l.id)
	s.mu.Lock()
	here := s.logs[l.name] == l
	s.mu.Unlock()
	if !here || len(own) == 0 {
		return nil // nobody of this process reads it
	}
	if err := l.advance(ctx, in.highest(), own); err != nil {
		s.tail.hear(" " + everything) // it is moved; the tail tells of it
	}
	return nil
}

// logFor returns the log of that name, also when this process has not opened it: an owner of the outbox
// moves what others emit, of types that it need not know.
func (s *Store) logFor(ctx context.Context, name string) (*Log, error) {
	s.mu.Lock()
	l := s.logs[name]
	s.mu.Unlock()
	if l != nil {
		return l, nil
	}
	l = &Log{s: s, name: name}
	err := s.write(ctx, func(b *pgx.Batch) {
		b.Queue(s.in(`INSERT INTO @.logs (name, epoch, max_age, max_count) VALUES ($1, $2, 0, 0) ON CONFLICT DO NOTHING`), name, newEpoch())
		b.Queue(s.in(`SELECT id FROM @.logs WHERE name = $1`), name).QueryRow(func(row pgx.Row) error { return row.Scan(&l.id) })
	})
	return l, err
}
