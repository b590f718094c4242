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

// Options configure [Streams].
type Options struct {
	Members *lease.Members
	// Refused asks the author's hooks again for a live subscription; nil when they let it be (AUTH-2).
	Refused func(ctx context.Context, principal string, a eventtype.Arguments) *events.Error
	// Wrote is told of frames that were written, of which so many are occurrences.
	Wrote func(ctx context.Context, et eventtype.Type, frames, occurrences int)
	// Heartbeat is the interval of heartbeats, and Reauthorize that of Refused; 0 or less: never.
	Heartbeat, Reauthorize time.Duration
	// MaxStreams bounds the streams of a principal; 0 or less is no bound (PUSH-10).
	MaxStreams int
	Log        *fault.Log
}

// Streams are those of a server that are open, with the followers.
type Streams struct {
	o       Options
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	all      map[uint64]*Stream // by number
	numbered uint64             // streams there have been
	counts   map[count]int
}

// A count is of the streams of a principal, of one event type or, where event is "", of all.
type count struct{ principal, event string }

// New makes the streams of a server.
func New(o Options) *Streams {
	return &Streams{o: o, all: map[uint64]*Stream{}, counts: map[count]int{}}
}

// A Request is one events/stream after all checks.
type Request struct {
	Type eventtype.Type
	Sub  eventtype.Subscription
	Args eventtype.Arguments
	// Replay is where to begin, and Head the head of the log when the request arrived (PUSH-1).
	Replay topic.Replay
	Head   store.Position
	// Max bounds the streams of the principal to the type; 0 or less is no bound (PUSH-10).
	Max int
	// ID is the request's id as JSON, Stateless its era, and Expires when the caller's token does; zero: never.
	ID        json.RawMessage
	Stateless bool
	Dialect   wire.Dialect
	Expires   time.Time
}

// Open makes a stream a live one, of which the author's hooks have heard, and finds its start. After an error nothing of
// it is left.
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
		r.ID = json.RawMessage("null") // not a request then, but no broken frames either
	}
	return &Stream{of: s, et: r.Type, sub: r.Sub, args: r.Args, id: r.ID, tail: frame.Tail(r.ID), stateless: r.Stateless,
		dialect: r.Dialect, expires: r.Expires, wake: topic.NewWake()}
}

// admit is Open but for the count. head is asked for after the hooks.
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

// All returns the streams that are open, followers among them, in the order in which they were opened.
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

// Stream returns the open stream of a number; nil for none.
func (s *Streams) Stream(number uint64) *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[number]
}

// Ring lets the streams of an event type look at its registration again.
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

// Close ends all streams, each with its final result, and refuses others (SRV-6). Wait waits until they have ended.
func (s *Streams) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, st := range s.All() {
		st.Terminate(nil)
	}
}

// Wait waits after [Streams.Close].
func (s *Streams) Wait() { s.running.Wait() }

// A Holding is what [Streams] keep at a moment: streams that are open, and places taken of the bounds.
type Holding struct{ Open, Counted int }

// Holding returns what is kept now.
func (s *Streams) Holding() Holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Holding{Open: len(s.all)}
	for _, n := range s.counts {
		h.Counted += n
	}
	return h
}

// seat is a subscription's place at the feeds of its check.
func (st *Stream) seat() feed.Seat {
	return feed.Seat{Feeds: st.et.Feeds(), ID: st.sub.ID, Principal: st.sub.Principal, Bell: st.wake}
}
