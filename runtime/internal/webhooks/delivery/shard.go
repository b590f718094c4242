package delivery

import (
	"context"
	"log/slog"
	"maps"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Shard is a group of an engine's subscriptions that can move to another process independently of other shards
// (REP-6).
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
	// Store stores the shard's progress under the owner's lease. It is required. If a write returns engine.ErrFenced,
	// the engine drops the shard as [Shard.Drop] does (REP-7).
	Store engine.Owned
	// Undivided reports whether no other shard uses the same logs. The marks are then stored with every write.
	Undivided bool
	// May reports whether an attempt may start now. The engine calls it before every attempt. While it returns false,
	// the engine keeps the occurrences and sends nothing (REP-8). It must not call the engine.
	May func() bool
	// Fenced, if non-nil, is called after a write has returned engine.ErrFenced.
	Fenced func()
}

const (
	// recheckPause is the delay before May is called again after it has returned false.
	recheckPause = 250 * time.Millisecond
	// markInterval is the interval at which a log's mark is stored.
	markInterval = time.Second
	// rareMarkInterval replaces markInterval in shards with up to fewHandles subscriptions. A shorter interval causes
	// more writes per log and shard. A longer interval causes more entries to be scanned after a crash.
	rareMarkInterval = 5 * time.Second
	fewHandles       = 64
)

// NewShard creates an empty shard.
func (e *Engine) NewShard(o ShardOptions) *Shard {
	s := &Shard{e: e, o: o, flush: make(chan struct{}, 1), handles: map[*Handle]struct{}{}, logs: map[*Log]struct{}{}}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.shards[s] = struct{}{}
	return s
}

// isMarkDue reports whether the log's mark must be stored now. e.mu must be held.
func (s *Shard) isMarkDue(l *Log, now time.Time) bool {
	if s.o.Undivided {
		return true
	}
	every := markInterval
	if len(s.handles) <= fewHandles {
		every = rareMarkInterval
	}
	return now.Sub(l.marked) >= every
}

// canMove reports whether another process can own the shard later. This is true of all shards except e.whole.
func (s *Shard) canMove() bool { return s != s.e.whole }

// endTurn records the end of a turn. e.mu must be held.
func (s *Shard) endTurn() {
	if s.busy--; s.busy == 0 && s.idle != nil {
		close(s.idle)
		s.idle = nil
	}
}

// Drain stops new attempts, waits for attempts in flight, stores progress and removes the subscriptions. Another
// process can then continue the deliveries without duplicates (REP-9). If ctx is done first, Drain cancels the attempts
// and returns the context's error. The engine still sends pending terminated envelopes, because no other process owns
// the ended subscriptions.
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
	err := finishAttempts(ctx, idle, s.cancelAttempts, func(ctx context.Context) error { return s.save(ctx, true) })
	s.close(true)
	return err
}

// cancelAttempts cancels all attempts in flight.
func (s *Shard) cancelAttempts() {
	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	for h := range s.handles {
		h.cancel()
	}
}

// Drop removes the subscriptions immediately, because another process might already own them. It cancels the attempts
// in flight and ignores their results.
func (s *Shard) Drop() { s.close(false) }

// close removes the subscriptions. If sendEnvelopes is set, pending envelopes of ended subscriptions are still sent.
func (s *Shard) close(sendEnvelopes bool) {
	e := s.e
	e.mu.Lock()
	defer e.unlock()
	s.closing, s.closed = true, true
	delete(e.shards, s)
	for h := range s.handles {
		if sendEnvelopes && h.hasEnded() && len(h.controls) > 0 {
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

// handleFenced drops the shard after a fenced write.
func (s *Shard) handleFenced() {
	s.e.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "webhook deliveries of a shard stop: it has another owner")
	s.Drop()
	if s.o.Fenced != nil {
		s.o.Fenced()
	}
}
