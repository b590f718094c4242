package client

import (
	"context"
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// runPush requests one stream and receives its events until it ends (CLI-4). The next stream resumes from its cursor,
// unless a terminated notification ended the stream.
func runPush(ctx context.Context, s *subscription, sess *session) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // cancels the POST over HTTP, sends notifications/cancelled otherwise
	p := wire.StreamParams{Name: s.name, Arguments: s.args, Cursor: s.resumeCursor()}
	if p.Cursor != nil {
		p.MaxAgeMs = s.maxAge()
	}
	own := s.newCall(newFrameQueue(sess.board.shared))
	stream := &stream{s: s, in: own.in}
	ended := make(chan error, 1)
	s.c.runInBackground(func() { ended <- sess.runStream(ctx, wire.MethodStream, &methodParams{body: p}, own) })
	pulse := heartbeatMonitor{assumed: s.c.opts.Heartbeat}
	silence := time.NewTimer(pulse.timeout())
	defer silence.Stop()
	begun := time.NewTimer(pulse.timeout() + time.Second) // for a stream that is not silent but never becomes active
	defer begun.Stop()
	for ready := time.Now(); ; ready = time.Now() {
		select {
		case f := <-own.in.frames:
			came := time.Now()
			pulse.recordWait(came.Sub(ready))
			if f.method == wire.NotificationHeartbeat {
				pulse.beat(came)
			}
			if err := stream.handle(ctx, f); err != nil {
				return err
			}
			pulse.recordHandling(time.Since(came))
			silence.Reset(pulse.timeout())
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
				sess.board.resetTrust()
			}
			return errSilent
		case <-ctx.Done():
			return own.contextError(ctx)
		}
	}
}

// A stream holds the state of one events/stream call.
type stream struct {
	s      *subscription
	in     *frameQueue
	active bool
}

// drain handles the frames that arrived before the stream ended. It returns reason, or the error from a frame.
func (st *stream) drain(ctx context.Context, reason error) error {
	for {
		select {
		case f := <-st.in.frames:
			if err := st.handle(ctx, f); err != nil {
				return err
			}
		default:
			return reason
		}
	}
}

// handle handles a notification of the stream. It ignores unknown and malformed notifications, which still show that
// the stream is alive.
func (st *stream) handle(ctx context.Context, f frame) error {
	s := st.s
	st.in.release(f)
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
			return st.handleActive(ctx, p)
		}
	case wire.NotificationEvent:
		s.recordProgress()
		return s.queueRaw(ctx, f.params, true)
	case wire.NotificationHeartbeat:
		var p wire.HeartbeatParams
		if read(&p) {
			s.moveCursor(s.usableCursor(p.Cursor))
			s.recordProgress()
		}
	case wire.NotificationError:
		var p wire.ErrorParams
		if read(&p) {
			return s.queueError(ctx, &RecoverableError{Event: s.name, Err: convertError(p.Error.Code, p.Error.Message, p.Error.Data)})
		}
	case wire.NotificationTerminated:
		var p wire.ErrorParams
		read(&p)
		return &TerminatedError{Event: s.name, Err: convertError(p.Error.Code, p.Error.Message, p.Error.Data)}
	}
	return nil
}

// handleActive handles the active notification, which is sent at the start of a stream and after a gap (PUSH-1,
// PUSH-7).
func (st *stream) handleActive(ctx context.Context, p wire.ActiveParams) error {
	s := st.s
	p.Cursor = s.usableCursor(p.Cursor)
	again := s.isAccepted() && !st.active
	st.active = true
	// For a type without replay, events between two streams are lost. Only the client knows that there were two
	// streams.
	lost := again && p.Cursor == nil && s.resumeCursor() == nil
	if !p.Truncated {
		s.moveCursor(p.Cursor) // known when Subscribe returns
	}
	s.recordAccepted()
	switch {
	case lost:
		return s.queueGap(ctx, nil)
	case p.Truncated:
		return s.handleTruncation(ctx, p.Cursor, p.Cursor)
	}
	return nil
}
