package faults

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Lag delays the entries of other processes: a log passes them to Appended after d, or earlier when the process appends
// to the log or calls CatchUp. If d is negative, the log waits for these calls, as one whose notifications are lost.
// Read and Bounds show what was passed. 0 ends the lag. It concerns the named logs, or all logs if none is named.
func (e *Engine) Lag(d time.Duration, names ...string) {
	e.mu.Lock()
	if len(names) == 0 {
		clear(e.lag)
		e.lag[""] = d
	}
	for _, name := range names {
		e.lag[name] = d
	}
	var logs []*log
	for name, l := range e.logs {
		if len(names) == 0 || slices.Contains(names, name) {
			logs = append(logs, l)
		}
	}
	e.mu.Unlock()
	if d >= 0 {
		for _, l := range logs {
			l.flush()
		}
	}
}

// lagging returns the lag of a log.
func (e *Engine) lagging(name string) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d, ok := e.lag[name]; ok {
		return d
	}
	return e.lag[""]
}

// OpenLog implements [engine.Engine].
func (e *Engine) OpenLog(ctx context.Context, name string, o store.LogOptions) (engine.Log, error) {
	return do(e, Call{Op: "OpenLog " + name}, func() (engine.Log, error) {
		l := &log{e: e, name: name, appended: o.Appended, looked: time.Now()}
		o.Appended = l.arrive
		inner, err := e.inner.OpenLog(ctx, name, o)
		if err != nil {
			return nil, err
		}
		l.inner = inner
		e.mu.Lock()
		defer e.mu.Unlock()
		e.logs[name] = l
		return l, nil
	})
}

// A log adds faults to a log.
type log struct {
	e        *Engine
	name     string
	appended func([]store.Entry)
	inner    engine.Log

	mu      sync.Mutex    // held while appended is called, so that it gets entries in order
	pending []store.Entry // not passed to appended
	since   time.Time     // when the first one arrived
	timer   *time.Timer   // flushes; nil if nothing is pending, or nothing but a call of the process flushes
	looked  time.Time     // last call of the process that flushed
}

// arrive gets entries in the step that appends them.
func (l *log) arrive(entries []store.Entry) {
	lag := l.e.lagging(l.name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) == 0 {
		l.since = time.Now()
		if lag > 0 {
			l.timer = time.AfterFunc(lag, l.flush)
		}
	}
	l.pending = append(l.pending, entries...)
	if lag == 0 {
		l.pass()
	}
}

// flush passes pending entries to the process.
func (l *log) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass()
}

func (l *log) pass() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if len(l.pending) > 0 && l.appended != nil && !l.e.hasCrashed() {
		l.appended(l.pending)
	}
	l.pending = nil
}

// look flushes after the process has read the store, at a time.
func (l *log) look(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass()
	l.looked = at
}

// known returns the last position up to head that was passed to the process.
func (l *log) known(head store.Position) store.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) > 0 {
		return min(head, l.pending[0].Position-1)
	}
	return head
}

// Append implements [engine.Log].
func (l *log) Append(ctx context.Context, group ...engine.Append) ([]engine.Appended, error) {
	return do(l.e, Call{Op: "Append " + l.name, writes: true}, func() ([]engine.Appended, error) {
		began := time.Now()
		done, err := l.inner.Append(ctx, group...)
		if err == nil {
			l.look(began)
		}
		return done, err
	})
}

// Read implements [engine.Log].
func (l *log) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	return do(l.e, Call{Op: "Read " + l.name}, func() (store.Batch, error) {
		b, err := l.inner.Read(ctx, after, limit)
		known := l.known(b.Head)
		b.Head, b.Oldest = known, min(b.Oldest, known+1)
		b.Entries = b.Entries[:sort.Search(len(b.Entries), func(i int) bool { return b.Entries[i].Position > known })]
		return b, err
	})
}

// Bounds implements [engine.Log].
func (l *log) Bounds(ctx context.Context) (oldest, head store.Position, err error) {
	type bounds struct{ oldest, head store.Position }
	b, err := do(l.e, Call{Op: "Bounds " + l.name}, func() (bounds, error) {
		oldest, head, err := l.inner.Bounds(ctx)
		known := l.known(head)
		return bounds{min(oldest, known+1), known}, err
	})
	return b.oldest, b.head, err
}

// CatchUp implements [engine.Log].
func (l *log) CatchUp(ctx context.Context, p store.Position) (store.Position, error) {
	return do(l.e, Call{Op: "CatchUp " + l.name}, func() (store.Position, error) {
		began := time.Now()
		head, err := l.inner.CatchUp(ctx, p)
		if err == nil {
			l.look(began)
		}
		return head, err
	})
}

// Seen implements [engine.Log].
func (l *log) Seen() time.Time {
	lag := l.e.lagging(l.name)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case lag < 0:
		return l.looked
	case len(l.pending) > 0:
		return l.since
	}
	return l.inner.Seen()
}

// Proof implements [engine.Log].
func (l *log) Proof(ctx context.Context, p store.Position) (uint32, error) {
	return do(l.e, Call{Op: "Proof " + l.name}, func() (uint32, error) { return l.inner.Proof(ctx, p) })
}

// Epoch implements [engine.Log].
func (l *log) Epoch() uint64 { return l.inner.Epoch() }
