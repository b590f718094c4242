// Package streaming serves events/stream requests. A stream reads its event type with a [reading.Reader] in a
// [topic.Loop] and writes to a [port.Carrier]. A [Follower] reads in the same way for adapters. The server validates a
// request and passes a [Request]. The package has no compatibility guarantee.
//
// The main entry points are [Streams.Open] and [Stream.Run].
package streaming

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/access"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/lease"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/reading"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Options configures [Streams].
type Options struct {
	Members *lease.Members
	// Access decides whether a stream or follower continues, and whether it may pass on occurrences now.
	Access *access.Gate
	// Wrote is called after each write with the number of frames and the number of occurrences among them.
	Wrote func(ctx context.Context, et eventtype.Type, frames, occurrences int)
	// Heartbeat is the interval between heartbeats. Reauthorize is the interval between calls to Access.Refused; 0
	// or less disables these calls.
	Heartbeat, Reauthorize time.Duration
	// MaxStreams is the maximum number of streams per principal. A value of 0 or less means no limit (PUSH-10).
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
	counts   map[countKey]int
}

// A countKey identifies the stream count of a principal for one event type. If event is "", the count includes all
// event types.
type countKey struct{ principal, event string }

// New returns a Streams without open streams.
func New(o Options) *Streams {
	return &Streams{o: o, all: map[uint64]*Stream{}, counts: map[countKey]int{}}
}

// A Request is a validated events/stream request.
type Request struct {
	Type eventtype.Type
	Sub  eventtype.Subscription
	Args eventtype.Arguments
	// Replay selects the start. Head is the head of the log when the request arrived (PUSH-1).
	Replay topic.Replay
	Head   store.Position
	// Max is the maximum number of streams of the principal for the type. A value of 0 or less means no limit
	// (PUSH-10).
	Max int
	// ID is the JSON encoding of the request's ID. Stateless reports whether the request uses a stateless protocol
	// version. Expires is when the caller's token expires, or zero.
	ID        json.RawMessage
	Stateless bool
	Dialect   wire.Dialect
	Expires   time.Time
}

// Open opens a stream. It calls the author's hooks and determines the start. If it returns an error, it releases all
// resources.
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
	wake := topic.NewWake()
	return &Stream{of: s, et: r.Type, sub: r.Sub, id: r.ID, tail: frame.Tail(r.ID), stateless: r.Stateless,
		dialect: r.Dialect, expires: r.Expires, wake: wake, reader: reading.New(r.Type, r.Args)}
}

// admit opens a stream without counting it. It calls head after the hooks have run.
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
	if err := s.o.Members.Join(ctx, st.sub, st.reader.Arguments()); err != nil {
		st.release(false)
		return fault.Typed(err)
	}
	truncated, err := st.reader.Open(ctx, st.sub, st.wake, feed.Start{Replay: w, Head: head()})
	if err != nil {
		st.release(true)
		return err
	}
	st.truncated = truncated
	st.wrote()
	return nil
}

// count counts a stream toward the principal's limits (PUSH-10). It returns an error if a limit has been reached.
func (s *Streams) count(sub eventtype.Subscription, most int) error {
	all, one := countKey{principal: sub.Principal}, countKey{sub.Principal, sub.Event}
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
	for _, k := range []countKey{{principal: st.sub.Principal}, {st.sub.Principal, st.sub.Event}} {
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

// Stream returns the open stream with the given number, or nil if it does not exist.
func (s *Streams) Stream(number uint64) *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[number]
}

// Ring makes all streams of an event type check whether its registration has changed.
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

// Close ends all streams with their final results and refuses new streams (SRV-6). Call Wait to wait until the streams
// have ended.
func (s *Streams) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, st := range s.All() {
		st.Terminate(nil)
	}
}

// Wait waits until all streams have ended. It must be called after [Streams.Close].
func (s *Streams) Wait() { s.running.Wait() }

// A Holding is a snapshot of the open and counted streams of [Streams].
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
