package client

import (
	"encoding/json"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
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
	)
	accepted := s.isAccepted()
	switch {
	case errors.Is(err, errOverflow), errors.Is(err, errNoLongerOffered):
		return false, nil
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

// Codes of the SDK and of JSON-RPC that the same request would get again.
var hopeless = map[int64]bool{-32700: true, -32600: true, -32020: true, -32021: true, -32022: true}

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
	if hopeless[refusal.Code] || !accepted {
		return stop()
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
		var data struct{ Feature, Value string }
		if json.Unmarshal(e.Data, &data) == nil && data.Feature == "deliveryMode" {
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
	s.c.catalog.forget()
	return true
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
