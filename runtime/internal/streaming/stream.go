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
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/reading"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Stream implements [port.Stream]. It is also used by [Follower].
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
	reader    *reading.Reader
	counted   bool // against the principal's caps (PUSH-10); a follower is not
	number    uint64
	since     time.Time
	wake      topic.Wake
	written   atomic.Uint64 // position up to which everything was written

	mu      sync.Mutex
	running bool
	held    bool // no occurrences are written until the end
	ended   bool
	reason  *events.Error   // reason of the end; nil without a terminated message
	raised  []*events.Error // raised by an operator; nil means a gap
	cancel  context.CancelFunc
	free    sync.Once
}

// Terminate ends the stream. If it is called more than once, the first reason is used. A nil reason means that no
// terminated notification is sent.
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

// Hold stops the writes of occurrences until [Stream.Terminate] is called.
func (st *Stream) Hold() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.held = true
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

// release releases all resources. If joined is set, it also leaves the members.
func (st *Stream) release(joined bool) {
	st.free.Do(func() {
		s := st.of
		st.reader.Close()
		st.uncount()
		s.mu.Lock()
		delete(s.all, st.number)
		s.mu.Unlock()
		if joined {
			s.o.Members.Leave(st.sub, st.reader.Arguments())
		}
		s.running.Done()
	})
}

// Subscription returns the subscription of the stream.
func (st *Stream) Subscription() eventtype.Subscription { return st.sub }

// Info describes the stream for operators.
func (st *Stream) Info() operator.Connection {
	return operator.Connection{Subscription: st.sub.ID, Principal: st.sub.Principal, Event: st.sub.Event, Mode: st.sub.Mode, Since: st.since}
}

// Type returns the streamed event type.
func (st *Stream) Type() eventtype.Type { return st.et }

// Number returns the stream's number. It is unique within the server.
func (st *Stream) Number() uint64 { return st.number }

// Behind returns the number of log entries that the stream has not yet written. Entries that are being written are
// included. It returns nil if the stream has not started or does not read a log.
func (st *Stream) Behind() *int64 {
	st.mu.Lock()
	running := st.running
	st.mu.Unlock()
	if !running || !st.reader.ReadsLog() {
		return nil
	}
	passed := st.reader.Passed()
	if passed == 0 { // the reader is not parked
		passed = store.Position(st.written.Load())
	}
	return eventtype.Behind(st.et, passed)
}

// Raise reports an error to the client of the stream. If e is nil, it reports a gap.
func (st *Stream) Raise(e *events.Error) {
	st.mu.Lock()
	st.raised = append(st.raised, e)
	st.mu.Unlock()
	st.wake.Ring()
}

// Refused calls the author's hooks. It returns their error if they refuse the subscription, or nil (AUTH-2).
func (st *Stream) Refused(ctx context.Context) *events.Error {
	return st.of.o.Access.Refused(ctx, st.sub.Principal, st.reader.Arguments())
}

// wrote records the stream's position. It must be called from the goroutine that uses the reader.
func (st *Stream) wrote() { st.written.Store(uint64(st.reader.Position())) }
