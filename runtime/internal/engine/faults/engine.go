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

// OpenLog implements [engine.Engine].
func (e *Engine) OpenLog(ctx context.Context, name string, o store.LogOptions) (engine.Log, error) {
	if appended := o.Appended; appended != nil {
		o.Appended = func(entries []store.Entry) {
			if !e.hasCrashed() {
				appended(entries)
			}
		}
	}
	return do(e, Call{Op: "OpenLog " + name}, func() (engine.Log, error) {
		l, err := e.inner.OpenLog(ctx, name, o)
		if err != nil {
			return nil, err
		}
		return &log{l, e, name}, nil
	})
}

// A log adds faults to a log.
type log struct {
	inner engine.Log
	e     *Engine
	name  string
}

// Append implements [engine.Log].
func (l *log) Append(ctx context.Context, group ...engine.Append) ([]engine.Appended, error) {
	return do(l.e, Call{Op: "Append " + l.name, writes: true}, func() ([]engine.Appended, error) { return l.inner.Append(ctx, group...) })
}

// Read implements [engine.Log].
func (l *log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	return do(l.e, Call{Op: "Read " + l.name}, func() (store.Batch, error) { return l.inner.Read(ctx, after, limit) })
}

// Bounds implements [engine.Log].
func (l *log) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	type bounds struct{ oldest, head store.Position }
	b, err := do(l.e, Call{Op: "Bounds " + l.name}, func() (b bounds, err error) {
		b.oldest, b.head, err = l.inner.Bounds(ctx)
		return b, err
	})
	return b.oldest, b.head, err
}

// CatchUp implements [engine.Log].
func (l *log) CatchUp(ctx context.Context, p store.Position) (store.Position, error) {
	return do(l.e, Call{Op: "CatchUp " + l.name}, func() (store.Position, error) { return l.inner.CatchUp(ctx, p) })
}

// Seen implements [engine.Log].
func (l *log) Seen() time.Time { return l.inner.Seen() }

// Proof implements [engine.Log].
func (l *log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	return do(l.e, Call{Op: "Proof " + l.name}, func() (uint32, error) { return l.inner.Proof(ctx, p) })
}

// Epoch implements [engine.Log].
func (l *log) Epoch() uint64 { return l.inner.Epoch() }
