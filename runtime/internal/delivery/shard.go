package delivery

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Shard is a part of an engine's subscriptions that is taken up and given away as a whole while the
// others go on: what one of several processes owns for a time (REP-6).
type Shard struct {
	e *Engine
	o ShardOptions

	flush chan struct{} // held during one writing; not a mutex, because a store may take long

	// Under e.mu.
	handles map[*Handle]struct{}
	dirty   []*Handle // whose progress or state is not what is stored
	logs    map[*Log]struct{}
	busy    int  // turns under way
	closing bool // nothing begins any more
	closed  bool // nothing counts any more
	idle    chan struct{}
}

// ShardOptions describe the owner of a [Shard].
type ShardOptions struct {
	// Store keeps the shard's progress; it is the owner's, and required. A write that meets engine.ErrFenced ends the
	// shard as [Shard.Drop] does (REP-7).
	Store engine.Owned
	// Undivided tells that its logs have no other shard, so that how far they were offered is stored with
	// every writing.
	Undivided bool
	// May is asked before every attempt whether one may begin now; while it says no nothing is sent
	// and all is kept (REP-8). It may not call the engine.
	May func() bool
	// Fenced is told that a write was fenced.
	Fenced func()
}

const (
	// closedGate is how long an attempt that may not begin waits before it asks again.
	closedGate = 250 * time.Millisecond
	// markEvery is how often it is stored how far a log was offered to a shard, markRarely how often
	// for one of up to fewHandles subscriptions. A shorter time would cost every log a write for each
	// shard, a longer one a longer search when somebody goes on after a crash.
	markEvery  = time.Second
	markRarely = 5 * time.Second
	fewHandles = 64
)

// NewShard makes an empty shard.
func (e *Engine) NewShard(o ShardOptions) *Shard {
	s := &Shard{e: e, o: o, flush: make(chan struct{}, 1), handles: map[*Handle]struct{}{}, logs: map[*Log]struct{}{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shards[s] = struct{}{}
	return s
}

// markDue reports whether it is time to store how far the log was offered; e.mu is held.
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

// owned tells that another process may own it next.
func (s *Shard) owned() bool { return s != s.e.whole }

// end notes the end of a turn; e.mu is held.
func (s *Shard) end() {
	if s.busy--; s.busy == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Drain begins nothing any more, lets attempts under way finish, stores progress and forgets the
// subscriptions, so that another process goes on where this one stopped and repeats nothing (REP-9).
// When ctx ends first, attempts are cut off and its error is returned. Envelopes that tell of an end
// stay with the engine: what they are about is nobody's any more.
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

// cutOff cancels everything that is under way.
func (s *Shard) cutOff() {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	for h := range s.handles {
		h.cancel()
	}
}

// Drop forgets the subscriptions at once: somebody else may own them. Attempts under way are cut off
// and count for nothing.
func (s *Shard) Drop() { s.close(false) }

// close forgets everything; with farewells the envelopes of ended subscriptions are still sent.
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

// fenced is what a write comes to that was fenced.
func (s *Shard) fenced() {
	s.e.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "webhook deliveries of a shard stop: it has another owner")
	s.Drop()
	if s.o.Fenced != nil {
		s.o.Fenced()
	}
}
