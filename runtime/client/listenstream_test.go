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
		away      = &awayError{io.EOF}
		other     = errors.New("something else")
		gone      = refusal(wire.NotFound, "")
		mode      = refusal(wire.Unsupported, `{"feature":"deliveryMode"}`)
		schema    = refusal(wire.Unsupported, `{"reason":"schema_changed"}`)
		busy      = refusal(wire.ResourceExhausted, "")
		unread    = &events.Error{Code: codeUnreadable}
		stale     = &staleError{&StatusError{Status: 422}}
		stale2    = &staleError{&StatusError{Status: 400}}
		missing   = &staleError{&StatusError{Status: 404}}
		staleRPC  = &staleError{&events.Error{Code: -32600}}
		answer    = &AnswerError{Method: wire.MethodPoll, Err: other}
		permanent = &StatusError{Status: 401}
	)
	accepted := standing{accepted: true}
	with := func(f func(*standing)) standing {
		s := accepted
		f(&s)
		return s
	}
	for _, tt := range []struct {
		name string
		from standing
		e    ending
		want step
		end  error // that want.end wraps, where it is not nil
		to   func(*standing)
	}{
		{"a stream ends", accepted, ending{err: errStreamEnded}, step{wait: true, brisk: true}, nil, func(s *standing) { s.hurried, s.brisk = now, true }},
		{"a stream ends soon again", with(func(s *standing) { s.hurried = now.Add(-time.Second) }), ending{err: errStreamEnded}, step{wait: true}, nil, nil},
		{"a stream ends that brought nothing", with(func(s *standing) { s.failures = 1 }), ending{err: errStreamEnded}, step{wait: true}, nil, nil},
		{"a stream falls silent", accepted, ending{err: errSilent}, step{wait: true, brisk: true}, nil, func(s *standing) { s.hurried, s.brisk = now, true }},
		{"nobody is there", with(func(s *standing) { s.failures = 7 }), ending{err: away}, step{wait: true, brisk: true}, nil, func(s *standing) { s.brisk = true }},
		{"something else", accepted, ending{err: other}, step{wait: true}, nil, nil},
		{"nobody is there at first", standing{}, ending{err: away, redialable: true}, step{end: away}, away, nil},
		{"nobody is there at first, waiting", standing{}, ending{err: away, redialable: true, waiting: true}, step{wait: true, brisk: true}, nil, func(s *standing) { s.brisk = true }},
		{"nobody is there, waiting for one session", standing{}, ending{err: away, waiting: true}, step{end: away}, away, nil},
		{"overloaded at first, waiting", standing{}, ending{err: busy, waiting: true}, step{wait: true}, nil, nil},
		{"not authorized, waiting", standing{}, ending{err: permanent, redialable: true, waiting: true}, step{end: permanent}, permanent, nil},
		{"not found, waiting", standing{refusals: 1}, ending{err: gone, waiting: true}, step{end: gone}, gone, nil},
		{"a server says the same again, waiting", standing{stale: 1, staleErr: stale2.err}, ending{err: stale2, redialable: true, waiting: true}, step{end: stale2.err}, stale2.err,
			func(s *standing) { s.stale = 2 }},
		{"terminated, having waited", accepted, ending{err: &TerminatedError{Err: busy}, redialable: true, waiting: true}, step{end: &TerminatedError{}}, busy, nil},
		{"something else at first", standing{}, ending{err: other}, step{end: other}, other, nil},

		{"an overflow that brought something", accepted, ending{err: errOverflow, received: 5}, step{}, nil, func(s *standing) { s.overrun = 5 }},
		{"an overflow that brought nothing", with(func(s *standing) { s.overrun = 5 }), ending{err: errOverflow, received: 5}, step{wait: true}, nil, nil},
		{"no longer offered", accepted, ending{err: errNoLongerOffered}, step{}, nil, nil},

		{"a session is lost", accepted, ending{err: ErrSessionLost, redialable: true}, step{wait: true, brisk: true}, nil, func(s *standing) { s.hurried = now }},
		{"a shared session is lost", accepted, ending{err: ErrSessionLost, redialable: true, shared: true}, step{wait: true}, nil, nil},
		{"a session is lost after an outage", with(func(s *standing) { s.failures, s.brisk = 3, true }), ending{err: ErrSessionLost, redialable: true}, step{}, nil,
			func(s *standing) { s.brisk = false }},
		{"a session is lost after a failure", with(func(s *standing) { s.failures = 3 }), ending{err: ErrSessionLost, redialable: true}, step{wait: true}, nil, nil},
		{"a session is lost for good", accepted, ending{err: ErrSessionLost}, step{end: ErrSessionLost}, ErrSessionLost, nil},
		{"a session is lost at first", standing{}, ending{err: ErrSessionLost, redialable: true}, step{}, nil, func(s *standing) { s.retries = 1 }},
		{"a session is lost at first, again", standing{retries: 1}, ending{err: ErrSessionLost, redialable: true}, step{end: ErrSessionLost}, ErrSessionLost, func(s *standing) { s.retries = 2 }},

		{"another server answers", accepted, ending{err: stale}, step{}, nil, func(s *standing) { s.stale, s.staleErr = 1, stale.err }},
		{"another server answers otherwise", with(func(s *standing) { s.stale, s.staleErr = 1, stale.err }), ending{err: stale2, shared: true},
			step{wait: true}, nil, func(s *standing) { s.stale, s.staleErr = 2, stale2.err }},
		{"a server says the same again", with(func(s *standing) { s.stale, s.staleErr = 1, stale.err }), ending{err: stale}, step{end: stale.err}, stale.err,
			func(s *standing) { s.stale = 2 }},
		{"a server has nothing there, again", with(func(s *standing) { s.stale, s.staleErr, s.failures = 7, missing.err, 1 }), ending{err: missing},
			step{wait: true}, nil, func(s *standing) { s.stale = 8 }},
		{"a server has nothing there at first, again", standing{stale: 1, staleErr: missing.err}, ending{err: missing}, step{end: missing.err}, missing.err,
			func(s *standing) { s.stale = 2 }},
		{"a server refuses the same again", with(func(s *standing) { s.stale, s.staleErr = 1, staleRPC.err }), ending{err: staleRPC},
			step{end: &TerminatedError{}}, staleRPC.err, func(s *standing) { s.stale = 2 }},
		{"ever other servers", with(func(s *standing) { s.stale, s.staleErr = maxStale, stale.err }), ending{err: stale2}, step{end: stale2.err}, stale2.err,
			func(s *standing) { s.stale, s.staleErr = maxStale+1, stale2.err }},

		{"an answer of no use", accepted, ending{err: answer}, step{wait: true}, nil, nil},
		{"answers of no use", with(func(s *standing) { s.failures = patientFailures }), ending{err: answer}, step{wait: true, tell: answer}, nil, func(s *standing) { s.told = true }},
		{"answers of no use, told", with(func(s *standing) { s.failures, s.told = patientFailures+1, true }), ending{err: answer}, step{wait: true}, nil, nil},
		{"an answer of no use at first", standing{}, ending{err: answer}, step{end: answer}, answer, nil},

		{"no events any more", accepted, ending{err: ErrNoEvents, redialable: true}, step{wait: true}, nil, func(s *standing) { s.eventless = now }},
		{"no events for long", with(func(s *standing) { s.eventless = now.Add(-eventlessFor) }), ending{err: ErrNoEvents, redialable: true}, step{end: ErrNoEvents}, ErrNoEvents, nil},
		{"no events and no other server", accepted, ending{err: ErrNoEvents}, step{end: ErrNoEvents}, ErrNoEvents, func(s *standing) { s.eventless = now }},
		{"no events at first", standing{}, ending{err: ErrNoEvents, redialable: true}, step{end: ErrNoEvents}, ErrNoEvents, nil},
		{"closed", accepted, ending{err: ErrClosed}, step{end: ErrClosed}, ErrClosed, nil},
		{"no mode", accepted, ending{err: &NoCompatibleDeliveryModeError{}}, step{end: &NoCompatibleDeliveryModeError{}}, nil, nil},
		{"not authorized", accepted, ending{err: permanent}, step{end: permanent}, permanent, nil},

		{"terminated, still listed", accepted, ending{err: &TerminatedError{Err: gone}, listed: true}, step{wait: true, relist: relistSoon}, nil, func(s *standing) { s.refusals = 1 }},
		{"terminated, not listed", accepted, ending{err: &TerminatedError{Err: gone}}, step{end: &TerminatedError{}}, gone, nil},
		{"terminated for another reason", accepted, ending{err: &TerminatedError{Err: busy}, listed: true}, step{end: &TerminatedError{}}, busy, nil},
		{"terminated without a reason", accepted, ending{err: &TerminatedError{Err: other}, listed: true}, step{end: &TerminatedError{}}, other, nil},

		{"forbidden", accepted, ending{err: refusal(wire.Forbidden, "")}, step{end: &TerminatedError{}}, nil, nil},
		{"forbidden at first", standing{}, ending{err: busy}, step{end: busy}, busy, nil},
		{"not found, still listed", accepted, ending{err: gone, listed: true}, step{wait: true, relist: relistSoon}, nil, func(s *standing) { s.refusals = 1 }},
		{"not found at first", standing{}, ending{err: gone, listed: true}, step{relist: relistNow}, nil, func(s *standing) { s.refusals = 1 }},
		{"not found at first, again", standing{refusals: 1}, ending{err: gone, listed: true}, step{end: gone}, gone, func(s *standing) { s.refusals = 2 }},
		{"not found too often", with(func(s *standing) { s.refusals = maxRefusals }), ending{err: gone, listed: true}, step{end: &TerminatedError{}}, gone,
			func(s *standing) { s.refusals = maxRefusals + 1 }},
		{"another mode", accepted, ending{err: mode}, step{wait: true, relist: relistSoon, withoutMode: true}, nil, func(s *standing) { s.refusals = 1 }},
		{"another mode than the chosen one", accepted, ending{err: mode, forced: true}, step{end: &TerminatedError{}}, mode, nil},
		{"another schema", accepted, ending{err: schema, cursor: "c"}, step{wait: true, relist: relistSoon}, nil, func(s *standing) { s.stuck, s.refusals = "c", 1 }},
		{"another schema, again", with(func(s *standing) { s.stuck, s.refusals = "c", 1 }), ending{err: schema, cursor: "c"}, step{wait: true, relist: relistNow, fromNow: true}, nil,
			func(s *standing) { s.stuck = "" }},
		{"another schema from now", accepted, ending{err: schema}, step{wait: true, relist: relistSoon}, nil, func(s *standing) { s.refusals = 1 }},
		{"overloaded", accepted, ending{err: busy}, step{wait: true, tell: busy}, nil, nil},
		{"overloaded on its way down", accepted, ending{err: &awayError{busy}}, step{wait: true, brisk: true}, nil, func(s *standing) { s.brisk = true }},
		{"unreadable", accepted, ending{err: unread}, step{end: &TerminatedError{}}, unread, nil},
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
	bad := standing{broken: true, failures: 4, retries: 1, refusals: 2, stale: 3, staleErr: io.EOF, eventless: time.Now(), told: true, stuck: "c", overrun: 9}
	s := bad
	if before, again := s.accept(); before || !again {
		t.Error(before, again)
	}
	if before, again := s.accept(); !before || again {
		t.Error(before, again)
	}
	if want := (standing{accepted: true, failures: 4, retries: 1, refusals: 2, told: true, stuck: "c", overrun: 9}); s != want {
		t.Errorf("accepted: %+v, want %+v", s, want)
	}
	s.progress()
	if want := (standing{accepted: true, retries: 1, stuck: "c", overrun: 9}); s != want {
		t.Errorf("progress: %+v, want %+v", s, want)
	}
}
