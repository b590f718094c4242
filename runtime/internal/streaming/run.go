package streaming

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

// retryRead is the delay after a failed read of the log.
const retryRead = time.Second

// retryWrite is the delay until the next check whether a stream may write occurrences.
const retryWrite = 100 * time.Millisecond

// keptFrames is the maximum capacity of the frame buffer of an idle stream.
const keptFrames = 8

// Run implements [port.Stream].
func (st *Stream) Run(ctx context.Context, c port.Carrier) (final json.RawMessage, err error) {
	st.mu.Lock()
	if st.running {
		st.mu.Unlock()
		return nil, errors.New("a stream runs once")
	}
	st.running = true
	st.mu.Unlock()
	defer st.Terminate(nil) // ends the context of hooks
	defer st.release(true)
	r := &run{st: st, carrier: c, ctx: ctx, hooks: &hookContext{Context: hook.WithPrincipal(ctx, st.sub.Principal), st: st}}
	return r.loop()
}

// A run is the state of one call to Run.
type run struct {
	st      *Stream
	carrier port.Carrier
	ctx     context.Context
	hooks   context.Context // also ends with the stream

	frames   []frame.Frame
	events   int // among frames
	outcomes []topic.Outcome
	nextBeat time.Time
	nextAuth time.Time // zero: never
	more     bool      // the reader has more occurrences
	retry    time.Time // reading the log failed, or occurrences must not be written: wait until then, do not park; otherwise zero

	final json.RawMessage // result of Run
	err   error
}

// A hookContext is the context of the hooks of a stream. It also ends with the stream. Its channel is made when a hook
// needs it, because a channel and its entry in the request's context would be kept for each idle stream.
type hookContext struct {
	context.Context // of the request, with the principal
	st              *Stream
	once            sync.Once
	made            context.Context
}

// cancelable returns a context that ends with c.
func (c *hookContext) cancelable() context.Context {
	c.once.Do(func() {
		made, cancel := context.WithCancel(c.Context)
		c.made = made
		c.st.mu.Lock()
		defer c.st.mu.Unlock()
		if c.st.cancel = cancel; c.st.ended {
			cancel()
		}
	})
	return c.made
}

// Done implements [context.Context].
func (c *hookContext) Done() <-chan struct{} { return c.cancelable().Done() }

// AfterFunc calls [context.AfterFunc], so deriving contexts from c does not require a goroutine.
func (c *hookContext) AfterFunc(f func()) (stop func() bool) {
	return context.AfterFunc(c.cancelable(), f)
}

// Err implements [context.Context].
func (c *hookContext) Err() error {
	if ended, _ := c.st.outcome(); ended {
		return context.Canceled
	}
	return c.Context.Err()
}

func (r *run) loop() (json.RawMessage, error) {
	st, options := r.st, &r.st.of.o
	now := time.Now()
	r.nextBeat = now.Add(options.Heartbeat)
	if options.Reauthorize > 0 {
		r.nextAuth = now.Add(options.Reauthorize)
	}
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	r.frames = append(r.frames, frame.Active(st.reader.Cursor(), st.truncated, st.tail))
	if err := r.flush(); err != nil {
		return nil, err
	}
	topic.Loop{Source: st.reader, Wake: st.wake}.Run(r.ctx, r.turn)
	return r.final, r.err
}

// turn writes all pending frames.
func (r *run) turn() (topic.Turn, time.Time) {
	st := r.st
	if ended, reason := st.outcome(); ended {
		r.final, r.err = r.finish(reason)
		return topic.Over, time.Time{}
	}
	if r.err = r.ctx.Err(); r.err != nil {
		return topic.Over, time.Time{}
	}
	if !r.checkState(time.Now()) {
		return topic.Again, time.Time{}
	}
	r.collect()
	r.addRaised()
	if now := time.Now(); !now.Before(r.nextBeat) {
		r.frames = append(r.frames, frame.Heartbeat(st.reader.Cursor(), st.tail))
		every := st.of.o.Heartbeat
		if r.nextBeat = r.nextBeat.Add(every); r.nextBeat.Before(now) {
			r.nextBeat = now.Add(every)
		}
	}
	if ended, _ := st.outcome(); ended && len(r.frames) == 0 {
		return topic.Again, time.Time{}
	}
	if r.err = r.ctx.Err(); r.err != nil {
		return topic.Over, time.Time{}
	}
	if r.events > 0 && !r.mayWrite() {
		return r.rest()
	}
	if r.err = r.flush(); r.err != nil {
		return topic.Over, time.Time{}
	}
	st.wrote()
	return r.rest()
}

// rest returns the action after a read.
func (r *run) rest() (topic.Turn, time.Time) {
	switch {
	case r.more:
		return topic.Again, time.Time{}
	case !r.retry.IsZero():
		return topic.Pause, r.deadline()
	}
	return topic.Rest, r.deadline()
}

// mayWrite reports whether occurrences may be written now. If not, the run tries again later.
func (r *run) mayWrite() bool {
	st := r.st
	st.mu.Lock()
	held := st.held
	st.mu.Unlock()
	if !held && st.of.o.Access.Current() {
		return true
	}
	r.more, r.retry = false, time.Now().Add(retryWrite)
	return false
}

// read reads the available occurrences and logs failures. If the read fails, the error is the last one in Failed, and
// the run tries again later.
func (r *run) read() topic.Pulled {
	event, log := r.st.sub.Event, r.st.of.o.Log
	p, err := r.st.reader.Next(r.hooks, r.outcomes[:0], topic.Batch(topic.PullBatch))
	r.outcomes, r.more, r.retry = p.Out, p.More || err != nil, time.Time{}
	for _, failed := range p.Failed {
		log.Internal(r.hooks, "checking "+event, failed)
	}
	if err != nil && r.hooks.Err() == nil {
		log.Internal(r.hooks, "reading "+event, err)
		p.Failed = append(p.Failed, err)
		r.more, r.retry = false, time.Now().Add(retryRead)
	}
	return p
}

// checkState checks for conditions that end the stream. It also applies a changed definition. It returns false if the
// stream has ended.
func (r *run) checkState(now time.Time) bool {
	st := r.st
	if !st.expires.IsZero() && !now.Before(st.expires) {
		st.Terminate(nil) // AUTH-4
		return false
	}
	switch err := st.reader.Rebind(); {
	case errors.Is(err, events.ErrNotFound):
		st.Terminate(fault.NotFound("event"))
		return false
	case err != nil:
		st.Terminate(fault.SchemaChanged(fault.FeatureInput))
		return false
	}
	if !r.nextAuth.IsZero() && !now.Before(r.nextAuth) {
		r.nextAuth = now.Add(st.of.o.Reauthorize)
		ctx, cancel := context.WithTimeout(r.hooks, st.of.o.Heartbeat)
		defer cancel()
		if e := st.Refused(ctx); e != nil {
			st.Terminate(e)
			return false
		}
	}
	return true
}

// collect reads occurrences and adds their frames, unless they must not be written.
func (r *run) collect() {
	st := r.st
	if !r.mayWrite() {
		return
	}
	p := r.read()
	if p.Gap && len(p.Out) == 0 {
		r.frames = append(r.frames, frame.Active(st.reader.Cursor(), true, st.tail))
	}
	r.frames = slices.Grow(r.frames, len(p.Out))
	for i := range p.Out {
		r.frames = append(r.frames, r.frame(&p.Out[i]))
	}
	if p.Gap && len(p.Out) > 0 {
		r.frames = append(r.frames, frame.Active(st.reader.Cursor(), true, st.tail))
	}
	for _, f := range p.Failed {
		r.frames = append(r.frames, frame.Error(wire.NotificationError, fault.Object(f, st.dialect), st.tail))
	}
}

// addRaised adds frames for the errors and gaps that an operator has raised.
func (r *run) addRaised() {
	st := r.st
	st.mu.Lock()
	raised := st.raised
	st.raised = nil
	st.mu.Unlock()
	for _, e := range raised {
		if e == nil {
			r.frames = append(r.frames, frame.Active(st.reader.Cursor(), true, st.tail))
		} else {
			r.frames = append(r.frames, frame.Error(wire.NotificationError, fault.Object(e, st.dialect), st.tail))
		}
	}
}

// frame returns the frame for an outcome. It contains the event or the error that replaces it (OCC-4).
func (r *run) frame(o *topic.Outcome) frame.Frame {
	if o.Err() != nil {
		r.st.of.o.Log.Internal(r.hooks, "delivering to a stream", fault.Unseen{Err: o.Err()})
		return frame.Error(wire.NotificationError, fault.Object(o.Err(), r.st.dialect), r.st.tail)
	}
	r.events++
	return o.Frame(r.st.tail)
}

// deadline returns the time at which the stream must continue even without a signal.
func (r *run) deadline() time.Time {
	d := time.Now().Add(time.Hour) // a follower has no heartbeat
	for _, t := range []time.Time{r.nextBeat, r.nextAuth, r.st.expires, r.retry} {
		if !t.IsZero() && t.Before(d) {
			d = t
		}
	}
	return d
}

// flush writes the collected frames.
func (r *run) flush() error {
	if len(r.frames) == 0 {
		return nil
	}
	err := r.carrier.Write(r.frames)
	if err == nil {
		r.st.of.o.Wrote(r.ctx, r.st.et, len(r.frames), r.events)
	}
	r.events = 0
	clear(r.frames)
	clear(r.outcomes)
	if cap(r.frames) > keptFrames {
		r.frames, r.outcomes = nil, nil
	}
	r.frames = r.frames[:0]
	if err != nil {
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		return fmt.Errorf("writing to the stream: %w", err)
	}
	return nil
}

// finish writes a terminated notification if there is a reason, and returns the final result.
func (r *run) finish(reason *events.Error) (json.RawMessage, error) {
	st := r.st
	if reason != nil {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		r.frames, r.events = append(r.frames[:0], frame.Error(wire.NotificationTerminated, fault.Object(reason, st.dialect), st.tail)), 0
		if err := r.flush(); err != nil {
			return nil, err
		}
	}
	return frame.FinalResult(st.id, st.stateless), nil
}
