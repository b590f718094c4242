package client

import (
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// runPush receives one stream, from its request to its end (CLI-4). Unless a terminated notification ends it, the next
// stream resumes from its cursor.
func runPush(ctx context.Context, s *subscription, sess *session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // cancels the POST over HTTP, sends notifications/cancelled otherwise
	p := wire.StreamParams{Name: s.name, Arguments: s.args, Cursor: s.resume()}
	if p.Cursor != nil {
		p.MaxAgeMs = s.maxAge()
	}
	own := s.newCall(newInflow(sess.board.shared))
	stream := &stream{s: s, in: own.in}
	ended := make(chan error, 1)
	s.c.background(func() { ended <- sess.stream(ctx, wire.MethodStream, &params{body: p}, own) })
	pulse := pulse{assumed: s.c.opts.Heartbeat}
	silence := time.NewTimer(pulse.patience())
	defer silence.Stop()
	begun := time.NewTimer(pulse.patience() + time.Second) // for a stream that is not silent but never becomes active
	defer begun.Stop()
	for ready := time.Now(); ; ready = time.Now() {
		select {
		case f := <-own.in.frames:
			came := time.Now()
			pulse.received(came.Sub(ready))
			if f.method == wire.NotificationHeartbeat {
				pulse.beat(came)
			}
			if err := stream.take(ctx, f); err != nil {
				return err
			}
			pulse.handled(time.Since(came))
			silence.Reset(pulse.patience())
		case <-own.in.overflow:
			return stream.drain(ctx, errOverflow)
		case err := <-ended:
			err = stream.drain(ctx, err)
			if errors.Is(err, errStreamEnded) && !stream.active {
				return &AnswerError{Method: wire.MethodStream, Err: errors.New("the stream ended before " + wire.NotificationActive)}
			}
			return err
		case <-begun.C:
			if !stream.active && len(own.in.frames) == 0 {
				return &AnswerError{Method: wire.MethodStream, Err: errors.New("no " + wire.NotificationActive + " in time")}
			}
		case <-silence.C:
			if len(own.in.frames) > 0 {
				continue // the application was slow, not the stream
			}
			if pulse.beaten {
				sess.board.doubt()
			}
			return errSilent
		case <-ctx.Done():
			return own.over(ctx)
		}
	}
}

// A stream is the state of one events/stream call.
type stream struct {
	s      *subscription
	in     *inflow
	active bool
}

// drain handles the frames that arrived before the stream ended, and returns reason.
func (st *stream) drain(ctx context.Context, reason error) error {
	for {
		select {
		case f := <-st.in.frames:
			if err := st.take(ctx, f); err != nil {
				return err
			}
		default:
			return reason
		}
	}
}

// take handles one notification of the stream. An unknown or unreadable notification only shows that the stream is
// alive.
func (st *stream) take(ctx context.Context, f frame) error {
	s := st.s
	st.in.took(f)
	read := func(v any) bool {
		err := wire.Decode(f.params, v)
		if err != nil {
			s.log.Warn("unreadable notification", "method", f.method, "err", err)
		}
		return err == nil
	}
	switch f.method {
	case wire.NotificationActive:
		var p wire.ActiveParams
		if read(&p) {
			return st.begin(ctx, p)
		}
	case wire.NotificationEvent:
		s.progress()
		return s.takeRaw(ctx, f.params, true)
	case wire.NotificationHeartbeat:
		var p wire.HeartbeatParams
		if read(&p) {
			s.reach(s.usable(p.Cursor))
			s.progress()
		}
	case wire.NotificationError:
		var p wire.ErrorParams
		if read(&p) {
			return s.note(ctx, &RecoverableError{Event: s.name, Err: errorOf(p.Error.Code, p.Error.Message, p.Error.Data)})
		}
	case wire.NotificationTerminated:
		var p wire.ErrorParams
		read(&p)
		return &TerminatedError{Event: s.name, Err: errorOf(p.Error.Code, p.Error.Message, p.Error.Data)}
	}
	return nil
}

// begin handles the active notification, both the first one of a stream and the one after a gap (PUSH-1, PUSH-7).
func (st *stream) begin(ctx context.Context, p wire.ActiveParams) error {
	s := st.s
	p.Cursor = s.usable(p.Cursor)
	again := s.established() && !st.active
	st.active = true
	// A type without replay loses the events between two streams, and only the client knows that there were two.
	lost := again && p.Cursor == nil && s.resume() == nil
	switch {
	case lost:
		return s.gap(ctx, nil)
	case p.Truncated:
		return s.truncated(ctx, p.Cursor, p.Cursor)
	}
	s.reach(p.Cursor)
	return nil
}
