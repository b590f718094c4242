package client

import (
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Limits for a server that responds but does not deliver events.
const (
	// maxRefusals is the maximum number of consecutive refusals of a type or mode that the server's own list offers.
	maxRefusals = 3
	// maxStale is the maximum number of consecutive sessions with a stale response.
	maxStale = 5
	// toleratedFailures is the number of consecutive unusable responses that are not reported to the application.
	toleratedFailures = 3
	// eventlessTimeout is how long servers may respond without advertising events before the subscription ends. A
	// rolling restart may take this long.
	eventlessTimeout = 2 * time.Minute
	// minReopenInterval is the minimum interval between two immediate reopenings of a stream, because a server may end
	// every stream immediately.
	minReopenInterval = 2 * time.Second
)

// codeParseError is the error code for a request that the server could not parse. Such a request is not retried.
const codeParseError = -32700

// A retryState determines how a subscription continues after the end of a leg. It is a value, and [retryState.next] has
// no side effects.
type retryState struct {
	accepted  bool      // the server has accepted the subscription
	broken    bool      // delivery is interrupted
	failures  int       // consecutive legs without progress
	retries   int       // sessions lost before the server accepted
	refusals  int       // consecutive refusals of an offered type or mode
	stale     int       // consecutive sessions with a stale answer
	staleErr  error     // the last stale answer
	eventless time.Time // since when the server has not advertised events; zero while it does
	hurried   time.Time // of the last short pause after a stream
	brisk     bool      // the last pause was short, and not for a lost session
	stuck     string    // the cursor that the server refused because of another schema
	overrun   int64     // occurrences at the last overflow
	told      bool      // the application knows that answers are unusable
}

// A legEnd describes the end of a leg.
type legEnd struct {
	err        error
	event      string // the subscription's
	now        time.Time
	redialable bool   // the client can open another session
	shared     bool   // the session shares its carrier, such as a process's pipes
	listed     bool   // the last list, if any is known, has the event type
	forced     bool   // the application has forced the mode
	waiting    bool   // the application waits for an unavailable server
	cursor     string // where the next leg would resume; "" for now
	received   int64  // occurrences so far
}

// A step is the action after the end of a leg. It either ends the subscription or starts another leg.
type step struct {
	end    error // non-nil: the subscription ends with it
	wait   bool  // pause before the next leg
	brisk  bool  // the pause may be short
	tell   error // an error to yield to the application before the next leg
	relist relistTime
	// excludeMode is true if the subscription must stop using the current mode.
	excludeMode bool
	// restartFromNow is true if the cursor is cleared and a gap is reported.
	restartFromNow bool
}

// A relistTime specifies when to reread the list of event types.
type relistTime int

const (
	keepList relistTime = iota
	relistNow
	relistSoon // not more often than relistPause allows
)

// accept records that the server has accepted the subscription. It reports whether the server had accepted it before
// and whether delivery had been interrupted.
func (s *retryState) accept() (before, again bool) {
	before, again = s.accepted, s.broken
	s.accepted, s.broken = true, false
	s.stale, s.staleErr, s.eventless = 0, nil, time.Time{}
	return before, again
}

// recordProgress records that delivery works, which resets the failure counters.
func (s *retryState) recordProgress() { s.failures, s.refusals, s.told, s.brisk = 0, 0, false, false }

// next returns the new state and the step after e (CLI-4, CLI-7, CLI-12).
func (s retryState) next(e legEnd) (retryState, step) {
	st := s.judge(e)
	if st.end != nil && e.waiting && !s.accepted && isTemporary(st.end, e.redialable) {
		st = step{wait: true}
	}
	if st.end == nil && st.wait {
		st.brisk = isUnreachable(e.err) || s.wasInterrupted(e) && s.mayHurry(e.now)
		s.brisk = st.brisk && !errors.Is(e.err, ErrSessionLost)
		s.failures++
		s.broken = true
	}
	return s, st
}

func (s *retryState) judge(e legEnd) step {
	var (
		mode       *NoCompatibleDeliveryModeError
		actor      *NoActorError
		terminated *TerminatedError
		status     *StatusError
		refusal    *events.Error
		answer     *AnswerError
		stale      *staleError
	)
	switch {
	case errors.Is(e.err, errOverflow):
		return step{wait: s.pauseAfterOverflow(e.received)}
	case errors.Is(e.err, errNoLongerOffered):
		return step{}
	case errors.As(e.err, &stale):
		return s.handleStale(e, stale)
	case errors.As(e.err, &answer):
		if !s.accepted {
			return step{end: e.err}
		}
		return step{wait: true, tell: s.unusableResponseError(e, answer)}
	case errors.Is(e.err, ErrNoEvents) && s.accepted && s.mayAdvertiseAgain(e):
		return step{wait: true}
	case errors.Is(e.err, ErrNoEvents), errors.As(e.err, &mode), errors.As(e.err, &actor), errors.Is(e.err, ErrClosed):
		return step{end: e.err}
	case errors.Is(e.err, ErrSessionLost):
		return s.handleLoss(e)
	case errors.As(e.err, &terminated):
		st, again := s.reselect(e, terminated.Err)
		if !again {
			return step{end: e.err}
		}
		st.wait = true
		return st
	case errors.As(e.err, &status) && status.isPermanent():
		return step{end: e.err}
	case errors.As(e.err, &refusal):
		return s.handleRefusal(e, refusal)
	case !s.accepted:
		return step{end: e.err}
	}
	return step{wait: true}
}

// handleLoss continues with another session. It does not pause if the loss was detected because another server answered
// after an outage. The session that Subscribe used may have been lost long before, so Subscribe retries once.
func (s *retryState) handleLoss(e legEnd) step {
	if !e.redialable {
		return step{end: e.err}
	}
	if !s.accepted {
		s.retries++
		if s.retries > 1 {
			return step{end: e.err}
		}
	}
	wait := s.accepted && (e.shared || !s.brisk)
	s.brisk = false
	return step{wait: wait}
}

// handleStale continues with a new handshake. It ends the subscription if the server sent the same response before.
func (s *retryState) handleStale(e legEnd, stale *staleError) step {
	s.stale++
	again := stale.sameAs(s.staleErr) || s.stale > maxStale
	s.staleErr = stale.err
	var status *StatusError
	switch {
	case !again:
		return step{wait: s.stale > 1}
	case s.accepted && errors.As(stale.err, &status) && !status.isPermanent():
		return step{wait: true}
	case s.accepted && errors.As(stale.err, new(*events.Error)):
		return step{end: &TerminatedError{Event: e.event, Err: stale.err}}
	}
	return step{end: stale.err}
}

// mayAdvertiseAgain reports whether a server that stopped advertising events may resume advertising them soon.
func (s *retryState) mayAdvertiseAgain(e legEnd) bool {
	if s.eventless.IsZero() {
		s.eventless = e.now
	}
	return e.redialable && e.now.Sub(s.eventless) < eventlessTimeout
}

// pauseAfterOverflow reports whether to pause before reopening a stream that overflowed. It returns false if the stream
// delivered events, so a burst is read quickly.
func (s *retryState) pauseAfterOverflow(received int64) (wait bool) {
	wait = s.overrun == received
	s.overrun = received
	return wait
}

// unusableResponseError returns the error to yield after repeated unusable responses, or nil. After returning an error,
// it returns nil until an event is received.
func (s *retryState) unusableResponseError(e legEnd, err error) error {
	if s.told || s.failures < toleratedFailures {
		return nil
	}
	s.told = true
	return &RecoverableError{Event: e.event, Err: err}
}

// wasInterrupted reports whether e ended a leg that had made progress. Another server may be able to continue such a
// leg.
func (s *retryState) wasInterrupted(e legEnd) bool {
	return s.failures == 0 && (errors.Is(e.err, errStreamEnded) || errors.Is(e.err, errSilent) || errors.Is(e.err, ErrSessionLost) && !e.shared)
}

func (s *retryState) mayHurry(now time.Time) bool {
	if now.Sub(s.hurried) < minReopenInterval {
		return false
	}
	s.hurried = now
	return true
}

// handleRefusal returns the step after a JSON-RPC error.
func (s *retryState) handleRefusal(e legEnd, refusal *events.Error) step {
	stop := step{end: e.err}
	if s.accepted {
		stop.end = &TerminatedError{Event: e.event, Err: refusal}
	}
	switch refusal.Kind {
	case wire.InvalidParams, wire.Forbidden:
		return stop
	case wire.NotFound, wire.Unsupported, wire.MethodNotFound:
		st, again := s.reselect(e, refusal)
		if !again {
			return stop
		}
		st.wait = s.accepted
		return st
	}
	switch {
	case refusal.Code == codeParseError || staleCodes[refusal.Code] || !s.accepted:
		return stop
	case isUnreachable(e.err):
		return step{wait: true}
	}
	return step{wait: true, tell: &RecoverableError{Event: e.event, Err: refusal}}
}

// reselect returns the step after the server reported that the type or mode does not exist (CLI-7). The step rereads
// the list. If that would not help, reselect returns false.
func (s *retryState) reselect(e legEnd, reason error) (st step, again bool) {
	var refusal *events.Error
	if !errors.As(reason, &refusal) {
		return step{}, false
	}
	switch refusal.Kind {
	case wire.NotFound, wire.MethodNotFound:
		if !e.listed {
			return step{}, false
		}
	case wire.Unsupported:
		var data struct {
			Feature string `json:"feature"`
			Reason  string `json:"reason"`
		}
		if wire.Decode(refusal.Data, &data) == nil && data.Reason == "schema_changed" && s.isCursorOutdated(e.cursor) {
			return step{restartFromNow: true, relist: relistNow}, true
		}
		if data.Feature == "deliveryMode" {
			if e.forced {
				return step{}, false
			}
			st.excludeMode = true
		}
	default:
		return step{}, false
	}
	s.refusals++
	if s.refusals > maxRefusals || s.refusals > 1 && !s.accepted {
		return step{}, false
	}
	st.relist = relistNow
	if s.accepted {
		st.relist = relistSoon
	}
	return st, true
}

// isCursorOutdated reports whether the server has refused the cursor twice because the schema changed. The cursor is
// then discarded (CLI-7).
func (s *retryState) isCursorOutdated(cursor string) bool {
	again := cursor != "" && cursor == s.stuck
	s.stuck = cursor
	if again {
		s.stuck = ""
	}
	return again
}
