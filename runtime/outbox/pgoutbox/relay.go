package pgoutbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/internal/pglock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/outbox"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

const (
	// hangTimeout is how long PostgreSQL waits for a relay that hangs before ending its transaction, so that another
	// relay can move occurrences.
	hangTimeout = 30 * time.Second
	// moveTimeout is the timeout of an append to one log, and moveAllTimeout is the timeout of all appends in a step.
	// Both are well below hangTimeout. If an append takes longer, it is retried separately a second later, and the log
	// recognizes the entries that were already appended.
	moveTimeout    = 2 * time.Second
	moveAllTimeout = 20 * time.Second
)

// A relay moves committed occurrences to the logs of a store.
type relay struct {
	db
	box  *Outbox
	into engine.Shared
}

// errBusy indicates that another process is moving occurrences.
var errBusy = errors.New("another process is relaying")

// Sequence implements [engine.Outbox]. It first reads rows. Then, under a separate lock, it begins a transaction in the
// outbox's database, appends the rows to the logs, deletes them and commits. If two processes both consider themselves
// the owner, one moves the rows and the other rereads its rows.
func (r *relay) Sequence(ctx context.Context, h engine.ShardFence, limit int, check func(context.Context, store.Outgoing) (fault, err error)) (engine.Sequenced, error) {
	if h.Shard.Topic != engine.OutboxTopic {
		return engine.Sequenced{}, fmt.Errorf("%w: %v is not the outbox", engine.ErrFenced, h.Shard)
	}
	done, err := r.box.table.Step(ctx, r, h.Fence, limit, func(ctx context.Context, rows []outbox.Row) (settled outbox.Settled, err error) {
		if err := r.checkCurrent(ctx, h); err != nil {
			return settled, err
		}
		err = pgx.BeginFunc(ctx, r.box.pool, func(tx pgx.Tx) error {
			if rows, err = r.claimRows(ctx, tx, rows); err != nil {
				return err
			}
			m := &mover{db: db{tx}, into: r.into, until: time.Now().Add(moveAllTimeout)}
			if settled, err = r.box.table.Settle(ctx, m, rows, check); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, r.box.qualify(`DELETE FROM @.outbox WHERE id = ANY ($1)`), m.moved)
			return err
		})
		return settled, err
	})
	if errors.Is(err, errBusy) {
		return engine.Sequenced{Found: done.Found}, nil
	}
	return done, err
}

// checkCurrent returns ErrFenced if the fence is not current.
func (r *relay) checkCurrent(ctx context.Context, h engine.ShardFence) error {
	c, err := r.into.Cluster(ctx)
	if err != nil {
		return err
	}
	leased := slices.ContainsFunc(c.Replicas, func(r engine.Replica) bool { return r.Fence == h.Fence })
	if !leased || !slices.Contains(c.Shards, h) {
		return fmt.Errorf("%w: %v", engine.ErrFenced, h.Shard)
	}
	return nil
}

// claimRows acquires the lock and returns the rows that are still in the outbox.
func (r *relay) claimRows(ctx context.Context, tx pgx.Tx, rows []outbox.Row) (here []outbox.Row, err error) {
	ids := make([]int64, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID()
	}
	var locked bool
	var there []int64
	b := &pgx.Batch{}
	b.Queue(`SELECT set_config('idle_in_transaction_session_timeout', $1, true)`, fmt.Sprint(r.box.still.Milliseconds()))
	b.Queue(`SELECT pg_try_advisory_xact_lock($1)`, pglock.OutboxRelay(r.box.name)).QueryRow(func(row pgx.Row) error { return row.Scan(&locked) })
	b.Queue(r.box.qualify(`SELECT id FROM @.outbox WHERE id = ANY ($1)`), ids).Query(func(rows pgx.Rows) (err error) {
		there, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	if !locked {
		return nil, errBusy
	}
	left := make(map[int64]bool, len(there))
	for _, id := range there {
		left[id] = true
	}
	for i := range rows {
		if left[rows[i].ID()] {
			here = append(here, rows[i])
		}
	}
	return here, nil
}

// A mover moves rows within a relay's transaction.
type mover struct {
	db
	into  engine.Shared
	until time.Time

	mu    sync.Mutex
	moved []int64 // ids of rows
}

// Move implements [outbox.Mover]. It sets Once on all rows, including rows with generated ids, so the log recognizes
// rows that were appended before a crash.
func (m *mover) Move(ctx context.Context, log string, rows []outbox.Row) (faults []error, err error) {
	group, ids := make([]store.Outgoing, len(rows)), make([]int64, 0, len(rows))
	for i := range rows {
		group[i] = rows[i].Outgoing
		group[i].Once = true
	}
	ctx, cancel := context.WithDeadline(ctx, m.until)
	defer cancel()
	ctx, end := context.WithTimeout(ctx, moveTimeout)
	defer end()
	done, err := m.into.AppendGroup(ctx, log, group)
	if err != nil {
		return nil, err
	}
	faults = make([]error, len(rows))
	for i := range done {
		if faults[i] = done[i].Err; faults[i] == nil {
			ids = append(ids, rows[i].ID())
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moved = append(m.moved, ids...)
	return faults, nil
}

// Rejected implements [engine.Outbox].
func (r *relay) Rejected(ctx context.Context, after int64, limit int) ([]operator.Rejected, error) {
	return r.box.table.Rejected(ctx, r, after, limit)
}

// PutBack implements [engine.Outbox].
func (r *relay) PutBack(ctx context.Context, id int64) (bool, error) {
	return r.box.table.PutBack(ctx, r, id)
}

// Drop implements [engine.Outbox].
func (r *relay) Drop(ctx context.Context, id int64) (bool, error) {
	return r.box.table.Drop(ctx, r, id)
}

// A db is an [outbox.DB] that uses a pool or a transaction.
type db struct {
	conn interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
		Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	}
}

func (d db) Read(ctx context.Context, f func(pgx.Rows) error, sql string, args ...any) error {
	rows, err := d.conn.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	return f(rows)
}

func (d db) Write(ctx context.Context, sql string, args ...any) (int64, error) {
	done, err := d.conn.Exec(ctx, sql, args...)
	return done.RowsAffected(), err
}
