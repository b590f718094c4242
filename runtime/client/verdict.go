package client

import (
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// maxRefusals is how often in a row a server may refuse what its own list offers before the
// subscription gives up.
const maxRefusals = 3

// decide says what follows the end of a leg: the end of the subscription, or another leg, after a
// wait or at once (CLI-4, CLI-7).
func (s *subscription) decide(err error) (wait bool, end error) {
	var (
		mode       *NoCompatibleDeliveryModeError
		terminated *TerminatedError
		status     *StatusError
		refusal    *events.Error
		answer     *AnswerError
		stale      *staleError
	)
	accepted := s.isAccepted()
	switch {
	case errors.Is(err, errOverflow):
		return s.overran(), nil
	case errors.Is(err, errNoLongerOffered):
		return false, nil
	case errors.As(err, &stale):
		return s.decideStale(stale, accepted)
	case errors.As(err, &answer):
		if !accepted {
			return false, err
		}
		return true, s.tell(answer)
	case errors.Is(err, ErrNoEvents) && accepted && s.maySpeakAgain():
		return true, nil
	case errors.Is(err, ErrNoEvents), errors.As(err, &mode), errors.Is(err, ErrClosed):
		return false, err
	case errors.Is(err, ErrSessionLost):
		if !redialable(s.c.transport) {
			return false, err
		}
		if !accepted {
			// What Subscribe found may have been lost long before; one fresh try is its due.
			s.retries++
			if s.retries > 1 {
				return false, err
			}
		}
		return accepted, nil
	case errors.As(err, &terminated):
		if !s.reselect(terminated.Err) {
			return false, err
		}
		return true, nil
	case errors.As(err, &status) && status.permanent():
		return false, err
	case errors.As(err, &refusal):
		return s.decideRefusal(err, refusal, accepted)
	case !accepted:
		return false, err
	}
	return true, nil
}

// maxStale is how many sessions in a row may be answered as if they were another server's.
const maxStale = 5

// decideStale goes on over a fresh handshake, and ends the subscription when that has not changed what the
// server says.
func (s *subscription) decideStale(stale *staleError, accepted bool) (wait bool, end error) {
	s.stale++
	again := stale.sameAs(s.staleErr) || s.stale > maxStale
	s.staleErr = stale.err
	switch {
	case !again:
		return s.stale > 1, nil
	case accepted && errors.As(stale.err, new(*events.Error)):
		return false, &TerminatedError{Event: s.name, Err: stale.err}
	}
	return false, stale.err
}

// eventlessFor is how long the servers that answer may be ones without events before that counts as their
// last word: as long as it may take to replace them all.
const eventlessFor = 2 * time.Minute

// maySpeakAgain reports whether a server that had events and has none may have them again soon.
func (s *subscription) maySpeakAgain() bool {
	if s.eventless.IsZero() {
		s.eventless = time.Now()
	}
	return redialable(s.c.transport) && time.Since(s.eventless) < eventlessFor
}

// overran reports whether a stream that came too fast is to wait before it is opened again: at once after
// one that brought something, so that a burst is taken in one go.
func (s *subscription) overran() (wait bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	wait = s.overrun == s.status.Received
	s.overrun = s.status.Received
	return wait
}

// patientFailures is how many unusable answers in a row are taken for a passing trouble.
const patientFailures = 3

// tell shows the application that answers stay of no use, once until something is received.
func (s *subscription) tell(err error) error {
	s.mu.Lock()
	quiet := s.told || s.failures < patientFailures
	s.told = s.told || !quiet
	s.mu.Unlock()
	if quiet {
		return nil
	}
	return s.note(s.ctx, &RecoverableError{Event: s.name, Err: err})
}

// codeUnreadable is that of a server that could not read the request: it would not the next time, either.
const codeUnreadable = -32700

func (s *subscription) decideRefusal(err error, refusal *events.Error, accepted bool) (wait bool, end error) {
	stop := func() (bool, error) {
		if accepted {
			return false, &TerminatedError{Event: s.name, Err: err}
		}
		return false, err
	}
	switch refusal.Kind {
	case wire.InvalidParams, wire.Forbidden:
		return stop()
	case wire.NotFound, wire.Unsupported, wire.MethodNotFound:
		if !s.reselect(refusal) {
			return stop()
		}
		return accepted, nil
	}
	if refusal.Code == codeUnreadable || staleCodes[refusal.Code] || !accepted {
		return stop()
	}
	if isAway(err) {
		return true, nil
	}
	if noted := s.note(s.ctx, &RecoverableError{Event: s.name, Err: refusal}); noted != nil {
		return false, noted
	}
	return true, nil
}

// reselect prepares another reading of the list after the server said that the type, or the mode,
// is not there (CLI-7). It reports false when that is of no use.
func (s *subscription) reselect(reason error) bool {
	var e *events.Error
	if !errors.As(reason, &e) {
		return false
	}
	switch e.Kind {
	case wire.NotFound, wire.MethodNotFound:
		if s.isMissing() {
			return false
		}
	case wire.Unsupported:
		var data struct {
			Feature string `json:"feature"`
			Reason  string `json:"reason"`
		}
		if wire.Decode(e.Data, &data) == nil && data.Reason == "schema_changed" {
			if s.restart() {
				return true
			}
		}
		if data.Feature == "deliveryMode" {
			if s.opts.mode != "" {
				return false
			}
			s.mu.Lock()
			s.refused[s.modeName] = true
			s.mu.Unlock()
		}
	default:
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusals++
	if s.refusals > maxRefusals || s.refusals > 1 && !s.accepted {
		return false
	}
	if s.accepted {
		s.c.catalog.forgetAgain()
	} else {
		s.c.catalog.forget()
	}
	return true
}

// restart gives up a cursor that the server has refused twice because it is of another schema, and
// reports whether it did (CLI-7).
func (s *subscription) restart() bool {
	s.mu.Lock()
	cursor := s.cursor
	again := cursor != "" && cursor == s.stuck
	s.stuck = cursor
	if again {
		s.cursor, s.stuck = "", ""
	}
	s.mu.Unlock()
	if !again {
		return false
	}
	s.log.Warn("the server refuses the cursor as of another schema; starting from now")
	s.c.catalog.forget()
	return s.gap(s.ctx, nil) == nil
}

// isMissing reports whether the list itself, as just read, lacks the event type.
func (s *subscription) isMissing() bool {
	all, known := s.c.catalog.get()
	if !known {
		return false
	}
	_, ok := find(all, s.name)
	return !ok
}
