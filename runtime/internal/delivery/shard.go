package delivery

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Shard is a part of an engine's subscriptions that moves between processes as a whole, independently of other
// shards (REP-6).
type Shard struct {
	e *Engine
	o ShardOptions

	flush chan struct{} // capacity 1, full during a write: a caller whose context ends does not wait for a slow store

	// Guarded by e.mu.
	handles map[*Handle]struct{}
	dirty   []*Handle // handles whose progress or state differs from the record
	logs    map[*Log]struct{}
	busy    int  // running turns
	closing bool // no new turns start
	closed  bool // results are ignored
	idle    chan struct{}
}

// ShardOptions configures a [Shard].
type ShardOptions struct {
	// Store stores the shard's progress under the owner's lease; it is required. A write that returns
	// engine.ErrFenced ends the shard as [Shard.Drop] does (REP-7).
	Store engine.Owned
	// Undivided reports whether the logs have no other shard. The marks are then stored with every write.
	Undivided bool
	// May reports whether an attempt may start now; it is called before every attempt. While it returns false,
	// nothing is sent and occurrences are kept (REP-8). It must not call the engine.
	May func() bool
	// Fenced is called after a write was fenced.
	Fenced func()
}

const (
	// closedGate is the pause before May is called again after it returned false.
	closedGate = 250 * time.Millisecond
	// markEvery is the interval at which a log's mark is stored, markRarely the interval for a log with up to
	// fewHandles subscriptions. A shorter interval costs more writes for every log and shard, a longer one a longer
	// scan after a crash.
	markEvery  = time.Second
	markRarely = 5 * time.Second
	fewHandles = 64
)

// NewShard creates an empty shard.
func (e *Engine) NewShard(o ShardOptions) *Shard {
	s := &Shard{e: e, o: o, flush: make(chan struct{}, 1), handles: map[*Handle]struct{}{}, logs: map[*Log]struct{}{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shards[s] = struct{}{}
	return s
}

// markDue reports whether it is time to store the log's mark. e.mu must be held.
func (s *Shard) markDue(l *Log, now time.Time) bool {
	if s.o.Undivided {
		return true
	}
	every := markEvery
	if len(s.handles) <= fewHandles {
		every = markRarely
	}
	return now.Sub(l.marked) >= every
}

// owned reports whether another process may own the shard next.
func (s *Shard) owned() bool { return s != s.e.whole }

// end records the end of a turn. e.mu must be held.
func (s *Shard) end() {
	if s.busy--; s.busy == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Drain starts no new attempts, waits for attempts in flight, stores progress and removes the subscriptions, so
// that another process continues from there without duplicates (REP-9). If ctx ends first, Drain cancels the
// attempts and returns the context's error. Terminated envelopes stay with the engine, because no other process
// owns the ended subscriptions.
func (s *Shard) Drain(ctx context.Context) error {
	e := s.e
	e.mu.Lock()
	s.closing = true
	e.touchFeeds(maps.Keys(s.handles))
	idle := make(chan struct{})
	if s.busy == 0 {
		close(idle)
	} else {
		s.idle = idle
	}
	e.mu.Unlock()
	err := conclude(ctx, idle, s.cutOff, func(ctx context.Context) error { return s.save(ctx, true) })
	s.close(true)
	return err
}

// cutOff cancels all attempts in flight.
func (s *Shard) cutOff() {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	for h := range s.handles {
		h.cancel()
	}
}

// Drop removes the subscriptions immediately, because another process may own them. Attempts in flight are canceled
// and their results ignored.
func (s *Shard) Drop() { s.close(false) }

// close removes the subscriptions. With farewells, the envelopes of ended subscriptions are still sent.
func (s *Shard) close(farewells bool) {
	e := s.e
	e.mu.Lock()
	defer e.unlock()
	s.closing, s.closed = true, true
	delete(e.shards, s)
	for h := range s.handles {
		if farewells && h.gone() && len(h.controls) > 0 {
			delete(s.handles, h)
			h.shard = e.whole
			e.whole.handles[h] = struct{}{}
			e.scheduleNow(h)
			continue
		}
		h.end()
		h.release()
	}
	s.dirty = nil
	clear(s.logs)
}

// fenced handles a fenced write.
func (s *Shard) fenced() {
	s.e.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "webhook deliveries of a shard stop: it has another owner")
	s.Drop()
	if s.o.Fenced != nil {
		s.o.Fenced()
	}
}
