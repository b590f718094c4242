package server

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A pushStream is a [port.Stream], or what a follower reads.
type pushStream struct {
	server    *Server
	et        *eventType
	sub       Subscription
	id        json.RawMessage
	tail      []byte
	stateless bool
	dialect   wire.Dialect
	expires   time.Time
	truncated bool
	source    source
	noSlot    bool // it counts against no cap (PUSH-10)
	number    uint64
	since     time.Time
	wake      topic.Wake
	written   atomic.Uint64 // position up to which everything was written

	mu      sync.Mutex
	args    arguments
	running bool
	ended   bool
	reason  *events.Error   // of the end; nil for one without terminated
	raised  []*events.Error // by an operator; nil is a gap
	cancel  context.CancelFunc
	free    sync.Once
}

// A source is where a subscription reads: the type's log or a feed.
type source interface {
	topic.Source
	// rebind goes on with arguments of another definition.
	rebind(ctx context.Context, a arguments) error
}

func (s inside) Open(ctx context.Context, r port.Request) (port.Stream, error) {
	st, err := s.open(ctx, &r)
	if err != nil {
		return nil, s.refusal(ctx, &r, err)
	}
	return st, nil
}

func (s *Server) open(ctx context.Context, r *port.Request) (*pushStream, error) {
	if err := fault.Bounded(r.Params, s.options.MaxParams); err != nil {
		return nil, err
	}
	p, err := wire.DecodeStreamParams(r.Params)
	if err != nil {
		return nil, fault.InvalidParams(err)
	}
	ctx = hook.WithPrincipal(ctx, r.Principal)
	et, d, err := s.lookup(ctx, r.Principal, p.Name)
	if err != nil {
		return nil, err
	}
	if !d.pushes() || !r.CanStream {
		return nil, fault.UnsupportedMode(wire.ModePush)
	}
	if err := et.Refuses(); err != nil {
		return nil, err
	}
	head := et.Head()
	a, err := d.parse(p.Arguments)
	if err != nil {
		return nil, err
	}
	if err := s.authorized(ctx, r.Principal, a); err != nil {
		return nil, err
	}
	if len(r.ID) == 0 {
		r.ID = json.RawMessage("null") // not a request then, but no broken frames either
	}
	if err := s.takeSlot(r.Principal, d); err != nil {
		return nil, err
	}
	st := &pushStream{server: s, et: et, sub: identity(wire.ModePush, r.Principal, a), id: r.ID, tail: frame.Tail(r.ID),
		stateless: r.Stateless, dialect: s.dialect(r.DeclaresExtension), expires: r.Expires, args: a, wake: topic.NewWake()}
	if err := s.admit(ctx, st, func() store.Position { return head }, topic.ReplayOf(p.Cursor, p.MaxAgeMs)); err != nil {
		return nil, err
	}
	return st, nil
}

// admit makes a stream a live one, of which hooks have heard, and finds its start; after an error
// nothing of it is left. head is asked for after the hooks.
func (s *Server) admit(ctx context.Context, st *pushStream, head func() store.Position, w topic.Replay) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		if !st.noSlot {
			s.freeSlot(st.sub.Principal, st.et.name)
		}
		return fault.ErrShuttingDown
	}
	s.running.Add(1)
	s.numbered++
	st.number, st.since = s.numbered, time.Now()
	s.streams[st.number] = st
	s.mu.Unlock()
	if err := s.members.join(ctx, st.sub, st.args); err != nil {
		st.release(false)
		return fault.Typed(err)
	}
	if err := st.position(ctx, st.args, head(), w); err != nil {
		st.release(true)
		return err
	}
	return nil
}

// position finds the start and makes the source.
func (st *pushStream) position(ctx context.Context, a arguments, head store.Position, w topic.Replay) error {
	if a.def.check != nil {
		src, truncated, err := openCheck(ctx, st.et, st.sub, st.wake, a, feed.Start{Replay: w, Head: head})
		if err != nil {
			return err
		}
		st.source, st.truncated = src, truncated
		return nil
	}
	start, err := st.et.topic.Start(ctx, &a.def.Type, head, w)
	if err != nil {
		return err
	}
	st.truncated = start.Truncated
	st.source = &logSource{st.et.topic.ReaderFrom(a.Arguments, st.sub.ID, st.wake, start)}
	st.wrote()
	return nil
}

// arguments are the stream's under the definition it runs by.
func (st *pushStream) arguments() arguments {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.args
}

func (st *pushStream) signal() { st.wake.Ring() }

// Terminate ends the stream from the server's side; the first reason counts. nil: no terminated.
func (st *pushStream) Terminate(reason *events.Error) {
	st.mu.Lock()
	if st.ended {
		st.mu.Unlock()
		return
	}
	st.ended, st.reason = true, reason
	cancel := st.cancel
	st.mu.Unlock()
	if cancel != nil {
		cancel() // a hook that runs for this stream stops
	}
	st.signal()
}

// End implements [port.Stream].
func (st *pushStream) End() { st.Terminate(nil) }

func (st *pushStream) outcome() (ended bool, reason *events.Error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ended, st.reason
}

// Close implements [port.Stream].
func (st *pushStream) Close() {
	st.mu.Lock()
	running := st.running
	st.mu.Unlock()
	if !running {
		st.release(true)
	}
}

// release frees everything at once, the slot first; with joined it ends the membership.
func (st *pushStream) release(joined bool) {
	st.free.Do(func() {
		s := st.server
		if st.source != nil {
			st.source.Close()
		}
		if !st.noSlot {
			s.freeSlot(st.sub.Principal, st.et.name)
		}
		s.mu.Lock()
		delete(s.streams, st.number)
		s.mu.Unlock()
		if joined {
			s.members.leave(st.sub, st.arguments())
		}
		s.running.Done()
	})
}

// Info and what follows implement [operate.Stream], with Terminate.
func (st *pushStream) Info() operator.Connection {
	return operator.Connection{Subscription: st.sub.ID, Principal: st.sub.Principal, Event: st.sub.Event, Mode: st.sub.Mode, Since: st.since}
}

func (st *pushStream) Type() operate.EventType { return st.et }

func (st *pushStream) Number() uint64 { return st.number }

// Behind counts what is being written as not passed. It is nil before the stream runs, and for what reads no log.
func (st *pushStream) Behind() *int64 {
	st.mu.Lock()
	running := st.running
	st.mu.Unlock()
	src, ok := st.source.(*logSource)
	if !ok || !running {
		return nil
	}
	passed := src.Passed()
	if passed == 0 { // it does not wait
		passed = store.Position(st.written.Load())
	}
	return behind(st.et.Head(), passed)
}

// behind is how many entries are between a position and the head.
func behind(head, passed store.Position) *int64 {
	n := max(int64(head)-int64(passed), 0)
	return &n
}

func (st *pushStream) Raise(e *events.Error) {
	st.mu.Lock()
	st.raised = append(st.raised, e)
	st.mu.Unlock()
	st.signal()
}

func (st *pushStream) Refused(ctx context.Context) *events.Error {
	return st.server.refused(ctx, st.sub.Principal, st.arguments())
}

// wrote notes what the stream has passed. It is for the goroutine that reads.
func (st *pushStream) wrote() {
	if src, ok := st.source.(*logSource); ok {
		st.written.Store(uint64(src.Position()))
	}
}

// logSource reads the type's own log.
type logSource struct{ topic.Reader }

func (l *logSource) rebind(_ context.Context, a arguments) error {
	l.Rebind(a.Arguments)
	return nil
}

// checkSource reads a check.
type checkSource struct{ feed.Source }

func (c checkSource) rebind(ctx context.Context, a arguments) error {
	return c.Rebind(ctx, a.def.check, a.Arguments)
}

// openCheck finds the start of a subscription to a check.
func openCheck(ctx context.Context, et *eventType, sub Subscription, bell topic.Bell, a arguments, start feed.Start) (source, bool, error) {
	src, truncated, err := feed.Open(ctx, et.seat(sub, bell), a.def.check, a.Arguments, start)
	if err != nil {
		return nil, false, err
	}
	return checkSource{src}, truncated, nil
}

func (et *eventType) seat(sub Subscription, bell topic.Bell) feed.Seat {
	return feed.Seat{Feeds: &et.feeds, ID: sub.ID, Principal: sub.Principal, Bell: bell}
}
