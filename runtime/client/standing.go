package client

import (
	"errors"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Bounds of patience with a server that answers and does not deliver.
const (
	// maxRefusals is how often in a row a server may refuse what its own list offers.
	maxRefusals = 3
	// maxStale is how many sessions in a row may be answered as if they were another server's.
	maxStale = 5
	// patientFailures is how many unusable answers in a row are taken for a passing trouble.
	patientFailures = 3
	// eventlessFor is how long the servers that answer may be ones without events before that counts as
	// their last word: as long as it may take to replace them all.
	eventlessFor = 2 * time.Minute
	// hurryEvery is how often the end of a stream that had delivered may be followed by another at once: a
	// server may end them all.
	hurryEvery = 2 * time.Second
)

// codeUnreadable is that of a server that could not read the request: it would not the next time, either.
const codeUnreadable = -32700

// A standing is how a subscription gets on with its server. It is a value: [standing.next] says what
// follows the end of a leg, and changes nothing else.
type standing struct {
	accepted  bool      // the server has accepted the subscription
	broken    bool      // the delivery is interrupted
	failures  int       // legs in a row without progress
	retries   int       // sessions lost before the server accepted
	refusals  int       // of what the list offers, in a row
	stale     int       // sessions in a row that the server did not know
	staleErr  error     // what it said last
	eventless time.Time // since when the server is one without events; zero when it is not
	hurried   time.Time // of the last short pause after a stream
	brisk     bool      // the last pause was short, and not for a lost session
	stuck     string    // the cursor that the server refused as of another schema; "" for none
	overrun   int64     // occurrences at the last overflow
	told      bool      // the application knows that answers are unusable
}

// An ending is the end of a leg, and what is known at that moment.
type ending struct {
	err        error
	event      string // the subscription's
	now        time.Time
	redialable bool   // another session can be had
	shared     bool   // the session shares its carrier with others: a process's pipes
	listed     bool   // the list that was read last, if any is known, has the event type
	forced     bool   // the application has chosen the mode
	waiting    bool   // the application waits for a server that is away
	cursor     string // where the next leg would resume; "" for now
	received   int64  // occurrences so far
}

// A step is what follows the end of a leg: the end of the subscription, or another leg.
type step struct {
	end    error // not nil: the subscription ends with it
	wait   bool  // the next leg comes after a pause
	brisk  bool  // which may be short
	tell   error // for the application to see, before that
	relist relisting
	// withoutMode leaves the present mode out from now on.
	withoutMode bool
	// fromNow gives the cursor up, with a gap.
	fromNow bool
}

// A relisting is how soon the list of event types is read again.
type relisting int

const (
	keepList relisting = iota
	relistNow
	relistSoon // not more often than lists are read without a reason
)

// accept takes in that the server has accepted. It reports whether it had before, and whether the
// delivery had been interrupted.
func (s *standing) accept() (before, again bool) {
	before, again = s.accepted, s.broken
	s.accepted, s.broken = true, false
	s.stale, s.staleErr, s.eventless = 0, nil, time.Time{}
	return before, again
}

// progress takes in that the delivery works, so that the next failure is a first one.
func (s *standing) progress() { s.failures, s.refusals, s.told, s.brisk = 0, 0, false, false }

// next says what follows e (CLI-4, CLI-7, CLI-12), and the standing after it.
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
	case errors.Is(e.err, ErrNoEvents), errors.As(e.err, &mode), errors.Is(e.err, ErrClosed):
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

// lost goes on over another session: at once where that was lost shows after an outage, when the next server
// is asked. What Subscribe found may have been lost long before, so one fresh try is its due.
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

// misdirected goes on over a fresh handshake, and ends the subscription when that has not changed what
// the server says.
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

// maySpeakAgain reports whether a server that had events and has none may have them again soon.
func (s *standing) maySpeakAgain(e ending) bool {
	if s.eventless.IsZero() {
		s.eventless = e.now
	}
	return e.redialable && e.now.Sub(s.eventless) < eventlessFor
}

// overran reports whether a stream that came too fast is to wait before it is opened again: at once after
// one that brought something, so that a burst is taken in one go.
func (s *standing) overran(received int64) (wait bool) {
	wait = s.overrun == received
	s.overrun = received
	return wait
}

// unusable is what the application is to see of answers that stay of no use, once until something is
// received.
func (s *standing) unusable(e ending, err error) error {
	if s.told || s.failures < patientFailures {
		return nil
	}
	s.told = true
	return &RecoverableError{Event: e.event, Err: err}
}

// interrupted reports whether e ended what had delivered, so that another server may go on with it.
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

// refused judges an error object.
func (s *standing) refused(e ending, refusal *events.Error) step {
	stop := step{end: e.err}
	if s.accepted {
		stop.end = &TerminatedError{Event: e.event, Err: e.err}
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

// reselect has the list read again after the server said that the type, or the mode, is not there
// (CLI-7). It reports false when that is of no use.
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

// outdated reports whether the server has refused the cursor twice because it is of another schema: then it
// is given up (CLI-7).
func (s *standing) outdated(cursor string) bool {
	again := cursor != "" && cursor == s.stuck
	s.stuck = cursor
	if again {
		s.stuck = ""
	}
	return again
}
