package sqlite

import (
	"context"
	"time"
)

// sweep deletes, step by step, the records and tombstones whose time has come.
func (e *storeEngine) sweep(ctx context.Context) error {
	for {
		if more, err := e.sweepSome(ctx); !more || err != nil {
			return err
		}
	}
}

// sweepSome deletes up to sweepStep records and tombstones, the oldest first, and reports whether there may be more.
func (e *storeEngine) sweepSome(ctx context.Context) (more bool, err error) {
	now := time.Now()
	due, err := e.s.first(ctx, "SELECT 1 FROM records WHERE gone < ? LIMIT 1", []any{now.UnixMilli()}, new(int))
	if err != nil || !due { // most turns write nothing
		return false, err
	}
	err = e.s.writer.doRows(ctx, sweepStep, func(ctx context.Context, w *session) error {
		more, err = e.deleteDue(ctx, w, now)
		return err
	}, e.landed)
	return more, err
}

// deleteDue deletes up to sweepStep rows that are due in the writer's transaction. A record leaves a tombstone unless it
// was written once.
func (e *storeEngine) deleteDue(ctx context.Context, w *session, now time.Time) (more bool, err error) {
	if err := e.join(ctx, w); err != nil {
		return false, err
	}
	keys, err := collect[string](ctx, w, "SELECT key FROM records WHERE gone < ? ORDER BY gone LIMIT ?", now.UnixMilli(), sweepStep)
	if err != nil {
		return false, err
	}
	revision := newNumber()
	for _, k := range keys {
		r := recordRow{key: k, revision: revision}
		if err := r.bury(ctx, w, now, deleteIfDead); err != nil {
			return false, err
		}
	}
	return len(keys) == sweepStep, nil
}
