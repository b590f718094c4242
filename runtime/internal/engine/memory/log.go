package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/memlog"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/recent"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A log is a log that one process has opened in one life. Each append calls the Appended of all processes in the step
// that makes its entries visible, so a log has always read everything.
type log struct {
	e      *Engine
	life   uint64
	shared *memlog.Log

	mu   sync.Mutex
	seen time.Time
}

// OpenLog implements [engine.Engine]. Only an exclusive engine supports MaxBytes.
func (e *Engine) OpenLog(ctx context.Context, name string, o store.LogOptions) (engine.Log, error) {
	if o.MaxBytes > 0 && !e.db.exclusive {
		return nil, fmt.Errorf("memory: log %q: MaxBytes is for stores of one process", name)
	}
	l := &log{e: e, seen: time.Now()}
	err := e.doEntered(ctx, func(db *DB) error {
		l.life = e.life
		if l.shared = db.logs[name]; l.shared == nil {
			l.shared = memlog.New(store.LogOptions{})
			db.logs[name] = l.shared
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if appended := o.Appended; appended != nil {
		o.Appended = func(entries []store.Entry) {
			if l.life == e.db.life.Load() {
				appended(entries)
			}
		}
	}
	l.shared.Configure(e, o)
	if e.closed.Load() { // since the step
		l.shared.Leave(e)
		return nil, store.ErrClosed
	}
	return l, nil
}

// usable returns the reason for which the log can no longer be used, or nil.
func (l *log) usable(ctx context.Context) error {
	switch {
	case l.e.closed.Load():
		return store.ErrClosed
	case l.life != l.e.db.life.Load():
		return engine.ErrNewLife
	}
	return ctx.Err()
}

// Append implements [engine.Log].
func (l *log) Append(ctx context.Context, group ...engine.Append) ([]engine.Appended, error) {
	if err := engine.CheckGroup(group); err != nil {
		return nil, err
	}
	if err := l.usable(ctx); err != nil {
		return nil, err
	}
	return l.shared.Append(group...)
}

// Read implements [engine.Log]. An engine of several processes bounds the bytes of a batch, as durable ones do.
func (l *log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	if err := l.usable(ctx); err != nil {
		return store.Batch{}, err
	}
	b, err := l.shared.Read(after, limit)
	if l.e.db.exclusive {
		return b, err
	}
	size := 0
	for i := range b.Entries {
		if size += recent.Size(&b.Entries[i]); i > 0 && size > recent.Bytes {
			b.Entries = b.Entries[:i:i]
			break
		}
	}
	return b, err
}

// Bounds implements [engine.Log].
func (l *log) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	if err := l.usable(ctx); err != nil {
		return 0, 0, err
	}
	oldest, head = l.shared.Bounds()
	return oldest, head, nil
}

// CatchUp implements [engine.Log].
func (l *log) CatchUp(ctx context.Context, _ store.Position) (store.Position, error) {
	_, head, err := l.Bounds(ctx)
	return head, err
}

// Seen implements [engine.Log].
func (l *log) Seen() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.usable(context.Background()) == nil {
		l.seen = now
	}
	return l.seen
}

// Proof implements [engine.Log].
func (l *log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	if err := l.usable(ctx); err != nil {
		return 0, err
	}
	return l.shared.Proof(p)
}

// Epoch implements [engine.Log].
func (l *log) Epoch() uint64 { return max(l.shared.Epoch()^l.life, 1) }
