package client

import (
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Limits for a server that answers but does not deliver.
const (
	// maxRefusals is how many times in a row a server may refuse a type or mode that its own list offers.
	maxRefusals = 3
	// maxStale is how many sessions in a row may get a stale answer.
	maxStale = 5
	// patientFailures is how many unusable answers in a row are treated as temporary.
	patientFailures = 3
	// eventlessFor is how long servers without events may answer before the subscription ends: as long as a rolling
	// restart may take.
	eventlessFor = 2 * time.Minute
	// hurryEvery is the shortest time between two immediate reopenings of a stream: a server may end every stream.
	hurryEvery = 2 * time.Second
)

// codeUnreadable is the code for a request that the server could not parse; repeating it does not help.
const codeUnreadable = -32700

// A standing is a subscription's state towards its server. It is a value: [standing.next] returns the step after the
// end of a leg and has no side effects.
type standing struct {
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

// An ending describes the end of a leg and the circumstances.
type ending struct {
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

// A step is the consequence of the end of a leg: the end of the subscription, or another leg.
type step struct {
	end    error // non-nil: the subscription ends with it
	wait   bool  // pause before the next leg
	brisk  bool  // the pause may be short
	tell   error // an error to yield to the application before the next leg
	relist relisting
	// withoutMode excludes the current mode from now on.
	withoutMode bool
	// fromNow drops the cursor, with a gap.
	fromNow bool
}

// A relisting says how soon the list of event types is read.
type relisting int

const (
	keepList relisting = iota
	relistNow
	relistSoon // not more often than relistPause allows
)

// accept records that the server has accepted the subscription. before reports whether it had accepted it earlier,
// again whether delivery had been interrupted.
func (s *standing) accept() (before, again bool) {
	before, again = s.accepted, s.broken
	s.accepted, s.broken = true, false
	s.stale, s.staleErr, s.eventless = 0, nil, time.Time{}
	return before, again
}

// progress records that delivery works, which resets the failure counters.
func (s *standing) progress() { s.failures, s.refusals, s.told, s.brisk = 0, 0, false, false }

// next returns the step after e (CLI-4, CLI-7, CLI-12), and the new standing.
func (s standing) next(e ending) (standing, step) {
	st := s.judge(e)
	if st.end != nil && e.waiting && !s.accepted && passes(st.end, e.redialable) {
		st = step{wait: true}
	}
	if st.end == nil && st.wait {
		st.brisk = isAway(e.err) || s.interrupted(e) && s.mayHurry(e.now)
		s.brisk = st.brisk && !errors.Is(e.err, ErrSessionLost)
		s.failures++
		s.broken = true
	}
	return s, st
}

func (s *standing) judge(e ending) step {
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
		return step{wait: s.overran(e.received)}
	case errors.Is(e.err, errNoLongerOffered):
		return step{}
	case errors.As(e.err, &stale):
		return s.misdirected(e, stale)
	case errors.As(e.err, &answer):
		if !s.accepted {
			return step{end: e.err}
		}
		return step{wait: true, tell: s.unusable(e, answer)}
	case errors.Is(e.err, ErrNoEvents) && s.accepted && s.maySpeakAgain(e):
		return step{wait: true}
	case errors.Is(e.err, ErrNoEvents), errors.As(e.err, &mode), errors.As(e.err, &actor), errors.Is(e.err, ErrClosed):
		return step{end: e.err}
	case errors.Is(e.err, ErrSessionLost):
		return s.lost(e)
	case errors.As(e.err, &terminated):
		st, again := s.reselect(e, terminated.Err)
		if !again {
			return step{end: e.err}
		}
		st.wait = true
		return st
	case errors.As(e.err, &status) && status.permanent():
		return step{end: e.err}
	case errors.As(e.err, &refusal):
		return s.refused(e, refusal)
	case !s.accepted:
		return step{end: e.err}
	}
	return step{wait: true}
}

// lost continues over another session. It does not pause if the loss only became visible after an outage, when the next
// server answered. The session that Subscribe found may have been lost long before, so Subscribe retries once.
func (s *standing) lost(e ending) step {
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

// misdirected continues after a fresh handshake, and ends the subscription if the server then gives the same answer.
func (s *standing) misdirected(e ending, stale *staleError) step {
	s.stale++
	again := stale.sameAs(s.staleErr) || s.stale > maxStale
	s.staleErr = stale.err
	var status *StatusError
	switch {
	case !again:
		return step{wait: s.stale > 1}
	case s.accepted && errors.As(stale.err, &status) && !status.permanent():
		return step{wait: true}
	case s.accepted && errors.As(stale.err, new(*events.Error)):
		return step{end: &TerminatedError{Event: e.event, Err: stale.err}}
	}
	return step{end: stale.err}
}

// maySpeakAgain reports whether a server that stopped advertising events may do so again soon.
func (s *standing) maySpeakAgain(e ending) bool {
	if s.eventless.IsZero() {
		s.eventless = e.now
	}
	return e.redialable && e.now.Sub(s.eventless) < eventlessFor
}

// overran reports whether to pause before reopening a stream that overflowed. After a stream that delivered something
// there is not a pause, so that a burst is read quickly.
func (s *standing) overran(received int64) (wait bool) {
	wait = s.overrun == received
	s.overrun = received
	return wait
}

// unusable returns the error to yield for repeated unusable answers: one error until an event is received.
func (s *standing) unusable(e ending, err error) error {
	if s.told || s.failures < patientFailures {
		return nil
	}
	s.told = true
	return &RecoverableError{Event: e.event, Err: err}
}

// interrupted reports whether e ended a leg that had delivered, so that another server may continue it.
func (s *standing) interrupted(e ending) bool {
	return s.failures == 0 && (errors.Is(e.err, errStreamEnded) || errors.Is(e.err, errSilent) || errors.Is(e.err, ErrSessionLost) && !e.shared)
}

func (s *standing) mayHurry(now time.Time) bool {
	if now.Sub(s.hurried) < hurryEvery {
		return false
	}
	s.hurried = now
	return true
}

// refused returns the step after an error object.
func (s *standing) refused(e ending, refusal *events.Error) step {
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
	case refusal.Code == codeUnreadable || staleCodes[refusal.Code] || !s.accepted:
		return stop
	case isAway(e.err):
		return step{wait: true}
	}
	return step{wait: true, tell: &RecoverableError{Event: e.event, Err: refusal}}
}

// reselect reads the list after the server said that the type or the mode does not exist (CLI-7). It reports false if
// that would not help.
func (s *standing) reselect(e ending, reason error) (st step, again bool) {
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
		if wire.Decode(refusal.Data, &data) == nil && data.Reason == "schema_changed" && s.outdated(e.cursor) {
			return step{fromNow: true, relist: relistNow}, true
		}
		if data.Feature == "deliveryMode" {
			if e.forced {
				return step{}, false
			}
			st.withoutMode = true
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

// outdated reports whether the server has refused the cursor twice because of another schema; the cursor is then
// dropped (CLI-7).
func (s *standing) outdated(cursor string) bool {
	again := cursor != "" && cursor == s.stuck
	s.stuck = cursor
	if again {
		s.stuck = ""
	}
	return again
}
