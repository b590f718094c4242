package streaming

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/feed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Stream is a [port.Stream], or what a [Follower] reads.
type Stream struct {
	of        *Streams
	et        eventtype.Type
	sub       eventtype.Subscription
	id        json.RawMessage
	tail      []byte
	stateless bool
	dialect   wire.Dialect
	expires   time.Time
	truncated bool
	source    source
	counted   bool // against the principal's caps (PUSH-10); a follower is not
	number    uint64
	since     time.Time
	wake      topic.Wake
	written   atomic.Uint64 // position up to which everything was written

	mu      sync.Mutex
	args    eventtype.Arguments
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
	rebind(ctx context.Context, a eventtype.Arguments) error
}

// position finds the start and makes the source.
func (st *Stream) position(ctx context.Context, a eventtype.Arguments, head store.Position, w topic.Replay) error {
	if check := a.Def.Check(); check != nil {
		src, truncated, err := feed.Open(ctx, st.seat(), check, a.Arguments, feed.Start{Replay: w, Head: head})
		if err != nil {
			return err
		}
		st.source, st.truncated = checkSource{src}, truncated
		return nil
	}
	start, err := st.et.Topic().Start(ctx, a.Def.Kernel(), head, w)
	if err != nil {
		return err
	}
	st.truncated = start.Truncated
	st.source = &logSource{st.et.Topic().ReaderFrom(a.Arguments, st.sub.ID, st.wake, start)}
	st.wrote()
	return nil
}

// arguments are the stream's under the definition it runs by.
func (st *Stream) arguments() eventtype.Arguments {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.args
}

// Terminate ends the stream from the server's side; the first reason counts. nil: no terminated.
func (st *Stream) Terminate(reason *events.Error) {
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
	st.wake.Ring()
}

// End implements [port.Stream].
func (st *Stream) End() { st.Terminate(nil) }

func (st *Stream) outcome() (ended bool, reason *events.Error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.ended, st.reason
}

// Close implements [port.Stream].
func (st *Stream) Close() {
	st.mu.Lock()
	running := st.running
	st.mu.Unlock()
	if !running {
		st.release(true)
	}
}

// release frees everything at once, the count first; with joined it ends the membership.
func (st *Stream) release(joined bool) {
	st.free.Do(func() {
		s := st.of
		if st.source != nil {
			st.source.Close()
		}
		st.uncount()
		s.mu.Lock()
		delete(s.all, st.number)
		s.mu.Unlock()
		if joined {
			s.o.Members.Leave(st.sub, st.arguments())
		}
		s.running.Done()
	})
}

// Subscription is whose stream it is.
func (st *Stream) Subscription() eventtype.Subscription { return st.sub }

// Info describes it for operators.
func (st *Stream) Info() operator.Connection {
	return operator.Connection{Subscription: st.sub.ID, Principal: st.sub.Principal, Event: st.sub.Event, Mode: st.sub.Mode, Since: st.since}
}

// Type is the event type that is streamed.
func (st *Stream) Type() eventtype.Type { return st.et }

// Number tells it from all others that there have been.
func (st *Stream) Number() uint64 { return st.number }

// Behind is how many entries of the type's log it has not passed. It counts what is being written as not passed. It is nil before the stream runs, and for what reads no log.
func (st *Stream) Behind() *int64 {
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
	return eventtype.Behind(st.et, passed)
}

// Raise tells it of an error, or of a gap where e is nil.
func (st *Stream) Raise(e *events.Error) {
	st.mu.Lock()
	st.raised = append(st.raised, e)
	st.mu.Unlock()
	st.wake.Ring()
}

// Refused asks the author's hooks again; nil when they let it be (AUTH-2).
func (st *Stream) Refused(ctx context.Context) *events.Error {
	return st.of.o.Refused(ctx, st.sub.Principal, st.arguments())
}

// wrote notes what the stream has passed. It is for the goroutine that reads.
func (st *Stream) wrote() {
	if src, ok := st.source.(*logSource); ok {
		st.written.Store(uint64(src.Position()))
	}
}

// logSource reads the type's own log.
type logSource struct{ topic.Reader }

func (l *logSource) rebind(_ context.Context, a eventtype.Arguments) error {
	l.Rebind(a.Arguments)
	return nil
}

// checkSource reads a check.
type checkSource struct{ feed.Source }

func (c checkSource) rebind(ctx context.Context, a eventtype.Arguments) error {
	return c.Rebind(ctx, a.Def.Check(), a.Arguments)
}
