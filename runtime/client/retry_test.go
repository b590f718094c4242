package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

func refusal(kind wire.Kind, data string) *events.Error {
	e := events.NewError(kind, nil)
	if data != "" {
		e.Data = json.RawMessage(data)
	}
	return e
}

// CLI-4, CLI-7: what follows the end of a leg, for every kind of end and standing.
func TestStandingNext(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var (
		away      = &unreachableError{io.EOF}
		other     = errors.New("something else")
		gone      = refusal(wire.NotFound, "")
		mode      = refusal(wire.Unsupported, `{"feature":"deliveryMode"}`)
		schema    = refusal(wire.Unsupported, `{"reason":"schema_changed"}`)
		busy      = refusal(wire.ResourceExhausted, "")
		unread    = &events.Error{Code: codeParseError}
		stale     = &staleError{&StatusError{Status: 422}}
		stale2    = &staleError{&StatusError{Status: 400}}
		missing   = &staleError{&StatusError{Status: 404}}
		staleRPC  = &staleError{&events.Error{Code: -32600}}
		answer    = &AnswerError{Method: wire.MethodPoll, Err: other}
		permanent = &StatusError{Status: 401}
	)
	accepted := retryState{accepted: true}
	with := func(f func(*retryState)) retryState {
		s := accepted
		f(&s)
		return s
	}
	for _, tt := range []struct {
		name string
		from retryState
		e    legEnd
		want step
		end  error // that want.end wraps, where it is not nil
		to   func(*retryState)
	}{
		{"a stream ends", accepted, legEnd{err: errStreamEnded}, step{wait: true, brisk: true}, nil, func(s *retryState) { s.hurried, s.brisk = now, true }},
		{"a stream ends soon again", with(func(s *retryState) { s.hurried = now.Add(-time.Second) }), legEnd{err: errStreamEnded}, step{wait: true}, nil, nil},
		{"a stream ends that brought nothing", with(func(s *retryState) { s.failures = 1 }), legEnd{err: errStreamEnded}, step{wait: true}, nil, nil},
		{"a stream falls silent", accepted, legEnd{err: errSilent}, step{wait: true, brisk: true}, nil, func(s *retryState) { s.hurried, s.brisk = now, true }},
		{"nobody is there", with(func(s *retryState) { s.failures = 7 }), legEnd{err: away}, step{wait: true, brisk: true}, nil, func(s *retryState) { s.brisk = true }},
		{"something else", accepted, legEnd{err: other}, step{wait: true}, nil, nil},
		{"nobody is there at first", retryState{}, legEnd{err: away, redialable: true}, step{end: away}, away, nil},
		{"nobody is there at first, waiting", retryState{}, legEnd{err: away, redialable: true, waiting: true}, step{wait: true, brisk: true}, nil, func(s *retryState) { s.brisk = true }},
		{"nobody is there, waiting for one session", retryState{}, legEnd{err: away, waiting: true}, step{end: away}, away, nil},
		{"overloaded at first, waiting", retryState{}, legEnd{err: busy, waiting: true}, step{wait: true}, nil, nil},
		{"not authorized, waiting", retryState{}, legEnd{err: permanent, redialable: true, waiting: true}, step{end: permanent}, permanent, nil},
		{"not found, waiting", retryState{refusals: 1}, legEnd{err: gone, waiting: true}, step{end: gone}, gone, nil},
		{"a server says the same again, waiting", retryState{stale: 1, staleErr: stale2.err}, legEnd{err: stale2, redialable: true, waiting: true}, step{end: stale2.err}, stale2.err,
			func(s *retryState) { s.stale = 2 }},
		{"terminated, having waited", accepted, legEnd{err: &TerminatedError{Err: busy}, redialable: true, waiting: true}, step{end: &TerminatedError{}}, busy, nil},
		{"something else at first", retryState{}, legEnd{err: other}, step{end: other}, other, nil},

		{"an overflow that brought something", accepted, legEnd{err: errOverflow, received: 5}, step{}, nil, func(s *retryState) { s.overrun = 5 }},
		{"an overflow that brought nothing", with(func(s *retryState) { s.overrun = 5 }), legEnd{err: errOverflow, received: 5}, step{wait: true}, nil, nil},
		{"no longer offered", accepted, legEnd{err: errNoLongerOffered}, step{}, nil, nil},

		{"a session is lost", accepted, legEnd{err: ErrSessionLost, redialable: true}, step{wait: true, brisk: true}, nil, func(s *retryState) { s.hurried = now }},
		{"a shared session is lost", accepted, legEnd{err: ErrSessionLost, redialable: true, shared: true}, step{wait: true}, nil, nil},
		{"a session is lost after an outage", with(func(s *retryState) { s.failures, s.brisk = 3, true }), legEnd{err: ErrSessionLost, redialable: true}, step{}, nil,
			func(s *retryState) { s.brisk = false }},
		{"a session is lost after a failure", with(func(s *retryState) { s.failures = 3 }), legEnd{err: ErrSessionLost, redialable: true}, step{wait: true}, nil, nil},
		{"a session is lost for good", accepted, legEnd{err: ErrSessionLost}, step{end: ErrSessionLost}, ErrSessionLost, nil},
		{"a session is lost at first", retryState{}, legEnd{err: ErrSessionLost, redialable: true}, step{}, nil, func(s *retryState) { s.retries = 1 }},
		{"a session is lost at first, again", retryState{retries: 1}, legEnd{err: ErrSessionLost, redialable: true}, step{end: ErrSessionLost}, ErrSessionLost, func(s *retryState) { s.retries = 2 }},

		{"another server answers", accepted, legEnd{err: stale}, step{}, nil, func(s *retryState) { s.stale, s.staleErr = 1, stale.err }},
		{"another server answers otherwise", with(func(s *retryState) { s.stale, s.staleErr = 1, stale.err }), legEnd{err: stale2, shared: true},
			step{wait: true}, nil, func(s *retryState) { s.stale, s.staleErr = 2, stale2.err }},
		{"a server says the same again", with(func(s *retryState) { s.stale, s.staleErr = 1, stale.err }), legEnd{err: stale}, step{end: stale.err}, stale.err,
			func(s *retryState) { s.stale = 2 }},
		{"a server has nothing there, again", with(func(s *retryState) { s.stale, s.staleErr, s.failures = 7, missing.err, 1 }), legEnd{err: missing},
			step{wait: true}, nil, func(s *retryState) { s.stale = 8 }},
		{"a server has nothing there at first, again", retryState{stale: 1, staleErr: missing.err}, legEnd{err: missing}, step{end: missing.err}, missing.err,
			func(s *retryState) { s.stale = 2 }},
		{"a server refuses the same again", with(func(s *retryState) { s.stale, s.staleErr = 1, staleRPC.err }), legEnd{err: staleRPC},
			step{end: &TerminatedError{}}, staleRPC.err, func(s *retryState) { s.stale = 2 }},
		{"ever other servers", with(func(s *retryState) { s.stale, s.staleErr = maxStale, stale.err }), legEnd{err: stale2}, step{end: stale2.err}, stale2.err,
			func(s *retryState) { s.stale, s.staleErr = maxStale+1, stale2.err }},

		{"an answer of no use", accepted, legEnd{err: answer}, step{wait: true}, nil, nil},
		{"answers of no use", with(func(s *retryState) { s.failures = toleratedFailures }), legEnd{err: answer}, step{wait: true, tell: answer}, nil, func(s *retryState) { s.told = true }},
		{"answers of no use, told", with(func(s *retryState) { s.failures, s.told = toleratedFailures+1, true }), legEnd{err: answer}, step{wait: true}, nil, nil},
		{"an answer of no use at first", retryState{}, legEnd{err: answer}, step{end: answer}, answer, nil},

		{"no events any more", accepted, legEnd{err: ErrNoEvents, redialable: true}, step{wait: true}, nil, func(s *retryState) { s.eventless = now }},
		{"no events for long", with(func(s *retryState) { s.eventless = now.Add(-eventlessTimeout) }), legEnd{err: ErrNoEvents, redialable: true}, step{end: ErrNoEvents}, ErrNoEvents, nil},
		{"no events and no other server", accepted, legEnd{err: ErrNoEvents}, step{end: ErrNoEvents}, ErrNoEvents, func(s *retryState) { s.eventless = now }},
		{"no events at first", retryState{}, legEnd{err: ErrNoEvents, redialable: true}, step{end: ErrNoEvents}, ErrNoEvents, nil},
		{"closed", accepted, legEnd{err: ErrClosed}, step{end: ErrClosed}, ErrClosed, nil},
		{"no mode", accepted, legEnd{err: &NoCompatibleDeliveryModeError{}}, step{end: &NoCompatibleDeliveryModeError{}}, nil, nil},
		{"not authorized", accepted, legEnd{err: permanent}, step{end: permanent}, permanent, nil},

		{"terminated, still listed", accepted, legEnd{err: &TerminatedError{Err: gone}, listed: true}, step{wait: true, relist: relistSoon}, nil, func(s *retryState) { s.refusals = 1 }},
		{"terminated, not listed", accepted, legEnd{err: &TerminatedError{Err: gone}}, step{end: &TerminatedError{}}, gone, nil},
		{"terminated for another reason", accepted, legEnd{err: &TerminatedError{Err: busy}, listed: true}, step{end: &TerminatedError{}}, busy, nil},
		{"terminated without a reason", accepted, legEnd{err: &TerminatedError{Err: other}, listed: true}, step{end: &TerminatedError{}}, other, nil},

		{"forbidden", accepted, legEnd{err: refusal(wire.Forbidden, "")}, step{end: &TerminatedError{}}, nil, nil},
		{"forbidden at first", retryState{}, legEnd{err: busy}, step{end: busy}, busy, nil},
		{"not found, still listed", accepted, legEnd{err: gone, listed: true}, step{wait: true, relist: relistSoon}, nil, func(s *retryState) { s.refusals = 1 }},
		{"not found at first", retryState{}, legEnd{err: gone, listed: true}, step{relist: relistNow}, nil, func(s *retryState) { s.refusals = 1 }},
		{"not found at first, again", retryState{refusals: 1}, legEnd{err: gone, listed: true}, step{end: gone}, gone, func(s *retryState) { s.refusals = 2 }},
		{"not found too often", with(func(s *retryState) { s.refusals = maxRefusals }), legEnd{err: gone, listed: true}, step{end: &TerminatedError{}}, gone,
			func(s *retryState) { s.refusals = maxRefusals + 1 }},
		{"another mode", accepted, legEnd{err: mode}, step{wait: true, relist: relistSoon, excludeMode: true}, nil, func(s *retryState) { s.refusals = 1 }},
		{"another mode than the chosen one", accepted, legEnd{err: mode, forced: true}, step{end: &TerminatedError{}}, mode, nil},
		{"another schema", accepted, legEnd{err: schema, cursor: "c"}, step{wait: true, relist: relistSoon}, nil, func(s *retryState) { s.stuck, s.refusals = "c", 1 }},
		{"another schema, again", with(func(s *retryState) { s.stuck, s.refusals = "c", 1 }), legEnd{err: schema, cursor: "c"}, step{wait: true, relist: relistNow, restartFromNow: true}, nil,
			func(s *retryState) { s.stuck = "" }},
		{"another schema from now", accepted, legEnd{err: schema}, step{wait: true, relist: relistSoon}, nil, func(s *retryState) { s.refusals = 1 }},
		{"overloaded", accepted, legEnd{err: busy}, step{wait: true, tell: busy}, nil, nil},
		{"overloaded on its way down", accepted, legEnd{err: &unreachableError{busy}}, step{wait: true, brisk: true}, nil, func(s *retryState) { s.brisk = true }},
		{"unreadable", accepted, legEnd{err: unread}, step{end: &TerminatedError{}}, unread, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.e.now, tt.e.event = now, "tick"
			to, got := tt.from.next(tt.e)
			want := tt.from
			if tt.to != nil {
				tt.to(&want)
			}
			if tt.want.wait {
				want.failures++
				want.broken = true
			}
			if to != want {
				t.Errorf("stands at %+v, want %+v", to, want)
			}
			if tt.end != nil && !errors.Is(got.end, tt.end) || fmt.Sprintf("%T", got.end) != fmt.Sprintf("%T", tt.want.end) {
				t.Errorf("ends with %#v, want %#v", got.end, tt.want.end)
			}
			if told := new(RecoverableError); tt.want.tell == nil && got.tell != nil || tt.want.tell != nil && (!errors.As(got.tell, &told) || told.Err != tt.want.tell || told.Event != "tick") {
				t.Errorf("tells %v, want %v", got.tell, tt.want.tell)
			}
			if got.end, got.tell, tt.want.end, tt.want.tell = nil, nil, nil, nil; got != tt.want {
				t.Errorf("follows %+v, want %+v", got, tt.want)
			}
		})
	}
}

// What the server does well forgets what it did not, and nothing else.
func TestStandingRecovers(t *testing.T) {
	bad := retryState{broken: true, failures: 4, retries: 1, refusals: 2, stale: 3, staleErr: io.EOF, eventless: time.Now(), told: true, stuck: "c", overrun: 9}
	s := bad
	if before, again := s.accept(); before || !again {
		t.Error(before, again)
	}
	if before, again := s.accept(); !before || again {
		t.Error(before, again)
	}
	if want := (retryState{accepted: true, failures: 4, retries: 1, refusals: 2, told: true, stuck: "c", overrun: 9}); s != want {
		t.Errorf("accepted: %+v, want %+v", s, want)
	}
	s.recordProgress()
	if want := (retryState{accepted: true, retries: 1, stuck: "c", overrun: 9}); s != want {
		t.Errorf("progress: %+v, want %+v", s, want)
	}
}
