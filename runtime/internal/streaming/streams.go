// Package streaming serves events/stream: it decides what a stream writes, when, and when it ends. A stream reads its
// event type's log, or a feed of its check, in a [topic.Loop], and writes to a [port.Carrier]; a [Follower] reads in the
// same way for adapters. The server makes the checks of a request and fills in a [Request]. It makes no promise of
// compatibility.
//
// Start at [Streams.Open] and [Stream.Run].
package streaming

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/lease"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Options configures [Streams].
type Options struct {
	Members *lease.Members
	// Refused calls the author's hooks for a live subscription and returns their refusal, or nil (AUTH-2).
	Refused func(ctx context.Context, principal string, a eventtype.Arguments) *events.Error
	// Wrote receives the number of written frames and how many of them are occurrences.
	Wrote func(ctx context.Context, et eventtype.Type, frames, occurrences int)
	// Heartbeat is the interval of heartbeats, and Reauthorize the interval of calls of Refused; 0 or less for
	// never.
	Heartbeat, Reauthorize time.Duration
	// MaxStreams bounds the streams of a principal; 0 or less means unbounded (PUSH-10).
	MaxStreams int
	Log        *fault.Log
}

// Streams holds the open streams and followers of a server.
type Streams struct {
	o       Options
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	all      map[uint64]*Stream // by number
	numbered uint64             // number of streams opened so far
	counts   map[count]int
}

// A count is the key of a principal's stream count, for one event type or, if event is "", for all.
type count struct{ principal, event string }

// New creates the Streams of a server.
func New(o Options) *Streams {
	return &Streams{o: o, all: map[uint64]*Stream{}, counts: map[count]int{}}
}

// A Request is one events/stream after all checks.
type Request struct {
	Type eventtype.Type
	Sub  eventtype.Subscription
	Args eventtype.Arguments
	// Replay selects the start, and Head is the head of the log when the request arrived (PUSH-1).
	Replay topic.Replay
	Head   store.Position
	// Max bounds the streams of the principal to the type; 0 or less means unbounded (PUSH-10).
	Max int
	// ID is the request's id as JSON, Stateless its era, and Expires the expiry of the caller's token, or zero.
	ID        json.RawMessage
	Stateless bool
	Dialect   wire.Dialect
	Expires   time.Time
}

// Open opens a stream: it calls the author's hooks and determines the start. After an error it leaves nothing
// behind.
func (s *Streams) Open(ctx context.Context, r Request) (*Stream, error) {
	st := s.stream(&r)
	st.counted = true
	if err := s.count(r.Sub, r.Max); err != nil {
		return nil, err
	}
	return st, s.admit(ctx, st, func() store.Position { return r.Head }, r.Replay)
}

func (s *Streams) stream(r *Request) *Stream {
	if len(r.ID) == 0 {
		r.ID = json.RawMessage("null") // not a request, but frames must be valid
	}
	return &Stream{of: s, et: r.Type, sub: r.Sub, args: r.Args, id: r.ID, tail: frame.Tail(r.ID), stateless: r.Stateless,
		dialect: r.Dialect, expires: r.Expires, wake: topic.NewWake()}
}

// admit is Open without the count. It calls head after the hooks.
func (s *Streams) admit(ctx context.Context, st *Stream, head func() store.Position, w topic.Replay) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		st.uncount()
		return fault.ErrShuttingDown
	}
	s.running.Add(1)
	s.numbered++
	st.number, st.since = s.numbered, time.Now()
	s.all[st.number] = st
	s.mu.Unlock()
	if err := s.o.Members.Join(ctx, st.sub, st.args); err != nil {
		st.release(false)
		return fault.Typed(err)
	}
	if err := st.position(ctx, st.args, head(), w); err != nil {
		st.release(true)
		return err
	}
	return nil
}

// count counts a stream against the principal's caps (PUSH-10).
func (s *Streams) count(sub eventtype.Subscription, most int) error {
	all, one := count{principal: sub.Principal}, count{sub.Principal, sub.Event}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.o.MaxStreams; n > 0 && s.counts[all] >= n {
		return fault.Exhausted("streams", n)
	}
	if most > 0 && s.counts[one] >= most {
		return fault.Exhausted("streams", most)
	}
	s.counts[all]++
	s.counts[one]++
	return nil
}

func (st *Stream) uncount() {
	if !st.counted {
		return
	}
	s := st.of
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range []count{{principal: st.sub.Principal}, {st.sub.Principal, st.sub.Event}} {
		if s.counts[k]--; s.counts[k] <= 0 {
			delete(s.counts, k)
		}
	}
}

// All returns the open streams, including followers, in the order in which they were opened.
func (s *Streams) All() []*Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*Stream, 0, len(s.all))
	for _, st := range s.all {
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b *Stream) int { return int(a.number) - int(b.number) })
	return all
}

// Stream returns the open stream with the number, or nil.
func (s *Streams) Stream(number uint64) *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[number]
}

// Ring makes the streams of an event type check its registration.
func (s *Streams) Ring(et eventtype.Type) {
	for _, st := range s.All() {
		if st.et == et {
			st.wake.Ring()
		}
	}
}

// EndType ends the streams of an event type.
func (s *Streams) EndType(et eventtype.Type, reason *events.Error) {
	for _, st := range s.All() {
		if st.et == et {
			st.Terminate(reason)
		}
	}
}

// Close ends all streams, each with its final result, and refuses new ones (SRV-6). Wait waits until they have
// ended.
func (s *Streams) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, st := range s.All() {
		st.Terminate(nil)
	}
}

// Wait waits until all streams have ended after [Streams.Close].
func (s *Streams) Wait() { s.running.Wait() }

// A Holding describes the state of [Streams] at a moment: the open streams and the counted streams.
type Holding struct{ Open, Counted int }

// Holding returns the current state.
func (s *Streams) Holding() Holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Holding{Open: len(s.all)}
	for _, n := range s.counts {
		h.Counted += n
	}
	return h
}

// seat returns the subscription's seat at the feeds of its check.
func (st *Stream) seat() feed.Seat {
	return feed.Seat{Feeds: st.et.Feeds(), ID: st.sub.ID, Principal: st.sub.Principal, Bell: st.wake}
}
