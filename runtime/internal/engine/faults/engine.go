package faults

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Get implements [store.Records].
func (e *Engine) Get(ctx context.Context, c store.Consistency, keys ...string) ([]store.Record, error) {
	return do(e, Call{Op: "Get"}, func() ([]store.Record, error) { return e.inner.Get(ctx, c, keys...) })
}

// Scan implements [store.Records].
func (e *Engine) Scan(ctx context.Context, prefix, after string, limit int) ([]store.Record, error) {
	return do(e, Call{Op: "Scan"}, func() ([]store.Record, error) { return e.inner.Scan(ctx, prefix, after, limit) })
}

// Commit implements [store.Records].
func (e *Engine) Commit(ctx context.Context, c *store.Commit) ([]uint64, error) {
	return do(e, Call{Op: "Commit", Commit: c, writes: true}, func() ([]uint64, error) { return e.inner.Commit(ctx, c) })
}

// Changes implements [engine.Engine].
func (e *Engine) Changes(ctx context.Context, since engine.Mark, wait time.Duration) (engine.Changed, error) {
	return do(e, Call{Op: "Changes"}, func() (engine.Changed, error) { return e.inner.Changes(ctx, since, wait) })
}

// Clock implements [engine.Engine]. See [Engine.Skew].
func (e *Engine) Clock(ctx context.Context) (time.Time, error) {
	return do(e, Call{Op: "Clock"}, func() (time.Time, error) {
		now, err := e.inner.Clock(ctx)
		if err != nil {
			return now, err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if now = now.Add(e.skew); now.After(e.latest) {
			e.latest = now
		}
		return e.latest, nil
	})
}

// Enter implements [engine.Engine].
func (e *Engine) Enter(ctx context.Context) (life uint64, err error) {
	return do(e, Call{Op: "Enter"}, func() (uint64, error) { return e.inner.Enter(ctx) })
}

// NewLife implements [engine.Engine].
func (e *Engine) NewLife(ctx context.Context) error {
	_, err := do(e, Call{Op: "NewLife", writes: true}, func() (struct{}, error) { return struct{}{}, e.inner.NewLife(ctx) })
	return err
}

// Exclusive implements [engine.Engine].
func (e *Engine) Exclusive() bool { return e.inner.Exclusive() }

// Ping implements [engine.Engine].
func (e *Engine) Ping(ctx context.Context) error {
	_, err := do(e, Call{Op: "Ping"}, func() (struct{}, error) { return struct{}{}, e.inner.Ping(ctx) })
	return err
}

// Close implements [engine.Engine]. It has no faults, so that a test can close the engine of a crashed process.
func (e *Engine) Close() error { return e.inner.Close() }
