package polling_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/polling/pollingtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type incident = eventtypetest.Incident

func request(t *testing.T, e *pollingtest.Type, arguments string, wait time.Duration, cursor []byte) *polling.Request {
	t.Helper()
	q, err := e.Request(arguments, wait)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	if cursor != nil {
		if err := json.Unmarshal(cursor, &text); err != nil {
			t.Fatal(err)
		}
		q.Replay.Cursor = &text
	}
	return q
}

func read(t *testing.T, q *polling.Request) *polling.Answer {
	t.Helper()
	a, err := polling.Read(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func ids(out []topic.Outcome) string {
	var all []string
	for i := range out {
		all = append(all, out[i].Entry().EventID)
	}
	return strings.Join(all, " ")
}

// POLL-9: a poll is held until an occurrence that concerns it comes, for as long as it may be, or until the server
// closes; meanwhile it counts as one that waits.
func TestReadWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := pollingtest.New(t, "e", true, false)
		cursor := read(t, request(t, e, `{}`, 0, nil)).Cursor
		time.AfterFunc(2*time.Second, func() { e.Emit(incident{ID: "other", Severity: "P2"}) })
		time.AfterFunc(3*time.Second, func() {
			if n := e.Held.Load(); n != 1 {
				t.Errorf("%d polls wait", n)
			}
			e.Emit(incident{ID: "1", Severity: "P1"})
		})
		began := time.Now()
		a := read(t, request(t, e, `{"severity":"P1"}`, time.Minute, cursor))
		if ids(a.Out) != "1" || a.More || a.Truncated || !a.FromLog || a.Passed != 2 || time.Since(began) != 3*time.Second || e.Held.Load() != 0 {
			t.Errorf("%+v after %v, %d wait", a, time.Since(began), e.Held.Load())
		}
		began = time.Now()
		if a = read(t, request(t, e, `{}`, 5*time.Second, a.Cursor)); len(a.Out) != 0 || time.Since(began) != 5*time.Second || a.NextPoll != time.Second {
			t.Errorf("%+v after %v", a, time.Since(began))
		}
		time.AfterFunc(time.Second, func() { close(e.Closing) })
		began = time.Now()
		if a = read(t, request(t, e, `{}`, time.Minute, a.Cursor)); len(a.Out) != 0 || time.Since(began) != time.Second {
			t.Errorf("at the end: %+v after %v", a, time.Since(began))
		}
	})
}

// EVOL-2: a held poll of a log goes on under a definition that its arguments are valid under; else, and when its type
// is removed or its caller goes away, it ends with an error.
func TestReadWhileTheTypeChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := pollingtest.New(t, "e", true, false)
		cursor := read(t, request(t, e, `{}`, 0, nil)).Cursor
		time.AfterFunc(time.Second, func() { e.Redefine(`{"type":"object"}`) })
		time.AfterFunc(2*time.Second, func() { e.Emit(incident{ID: "1", Severity: "P1"}) })
		if a := read(t, request(t, e, `{"severity":"P1"}`, time.Minute, cursor)); ids(a.Out) != "1" {
			t.Errorf("%+v", a)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := polling.Read(ctx, request(t, e, `{}`, time.Minute, nil)); !errors.Is(err, context.Canceled) {
			t.Errorf("the caller is gone: %v", err)
		}
		time.AfterFunc(time.Second, func() { e.Redefine(`{"type":"object","maxProperties":0}`) })
		if _, err := polling.Read(t.Context(), request(t, e, `{"severity":"P1"}`, time.Minute, nil)); !errors.Is(err, events.ErrInvalidParams) {
			t.Errorf("refused arguments: %v", err)
		}
		time.AfterFunc(time.Second, e.Remove)
		if _, err := polling.Read(t.Context(), request(t, e, `{}`, time.Minute, nil)); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("removed: %v", err)
		}
		if n := e.Failed.Load(); n != 3 || e.Held.Load() != 0 {
			t.Errorf("%d of 3 failed, %d wait", n, e.Held.Load())
		}
	})
}

// A held poll of a check asks it at its interval; of a type with both sources, an emit ends the waiting too.
func TestReadChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, emits := range []bool{false, true} {
			e := pollingtest.New(t, "e", emits, true)
			cursor := read(t, request(t, e, `{}`, time.Minute, nil)).Cursor
			e.Put("1")
			a := read(t, request(t, e, `{}`, time.Minute, cursor))
			if ids(a.Out) != "1" || a.FromLog {
				t.Errorf("%v: %+v", emits, a)
			}
			time.AfterFunc(3500*time.Millisecond, func() { e.Put("2") })
			asked, began := e.Asked(), time.Now()
			if a = read(t, request(t, e, `{}`, time.Minute, a.Cursor)); ids(a.Out) != "2" || time.Since(began) != 4*time.Second || e.Asked()-asked != 5 {
				t.Errorf("%v: %+v after %v and %d questions", emits, a, time.Since(began), e.Asked()-asked)
			}
			if emits {
				time.AfterFunc(100*time.Millisecond, func() { e.Emit(incident{ID: "3"}) })
				began = time.Now()
				if a = read(t, request(t, e, `{}`, time.Minute, a.Cursor)); ids(a.Out) != "3" || time.Since(began) != 100*time.Millisecond {
					t.Errorf("%+v after %v", a, time.Since(began))
				}
			}
			time.AfterFunc(time.Second, func() { e.Redefine(`{"type":"object"}`) }) // EVOL-3: it goes on
			time.AfterFunc(2500*time.Millisecond, func() { e.Put("4") })
			if a = read(t, request(t, e, `{}`, time.Minute, a.Cursor)); ids(a.Out) != "4" {
				t.Errorf("%v: after the change: %+v", emits, a)
			}
			e.Fail(errors.New("the upstream is down"))
			if _, err := polling.Read(t.Context(), request(t, e, `{}`, time.Minute, a.Cursor)); !errors.Is(err, events.ErrUpstream) {
				t.Errorf("%v", err)
			}
		}
	})
}

// POLL-2, OCC-4: the result, byte for byte; an occurrence that a subscription cannot have is left out of it.
func TestEncode(t *testing.T) {
	e := pollingtest.New(t, "e", true, false)
	e.Refuse("2", errors.New("not this one"))
	cursor := read(t, request(t, e, `{}`, 0, nil)).Cursor
	for _, id := range []string{"1", "2", "3"} {
		e.Emit(incident{ID: id}, time.Unix(0, 0))
	}
	a := read(t, request(t, e, `{}`, 0, cursor))
	const item = `{"eventId":"%[1]s","name":"e","timestamp":"1970-01-01T00:00:00Z","data":{"id":"%[1]s"}}`
	want := `"events":[` + fmt.Sprintf(item, "1") + "," + fmt.Sprintf(item, "3") + `],"cursor":` + string(a.Cursor) +
		`,"truncated":false,"hasMore":false`
	if got := string(a.Encode(false)); got != "{"+want+`,"nextPollMs":1000}` {
		t.Errorf("%s", got)
	}
	a.NextPoll = -1
	if got := string(a.Encode(true)); got != `{"resultType":"complete",`+want+"}" {
		t.Errorf("%s", got)
	}
}

// Several polls are held together: the first that has something ends the waiting, each has its own answer, and an error
// is that of one of them.
func TestAny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, checked := pollingtest.New(t, "a", true, false), pollingtest.New(t, "b", true, false), pollingtest.New(t, "checked", false, true)
		all := func() []*polling.Request {
			return []*polling.Request{request(t, a, `{"severity":"P1"}`, time.Minute, nil), request(t, b, `{}`, 0, nil), request(t, checked, `{}`, 0, nil)}
		}
		ticks := 0
		tick := func(until time.Time) time.Time { ticks++; return until }
		for _, c := range []struct {
			happens func()
			want    string
			after   time.Duration
		}{
			{func() { a.Emit(incident{ID: "1", Severity: "P1"}) }, "0:1", 2500 * time.Millisecond},
			{func() { b.Emit(incident{ID: "2"}) }, "1:2", 2500 * time.Millisecond},
			{func() { checked.Put("3") }, "2:3", 3 * time.Second},
			{func() { a.Emit(incident{ID: "4", Severity: "P2"}) }, "", time.Minute},
		} {
			time.AfterFunc(2500*time.Millisecond, c.happens)
			began := time.Now()
			found, each, _, err := polling.Any(t.Context(), all(), tick)
			if err != nil || time.Since(began) != c.after || len(each) != 3 {
				t.Fatalf("%q: %v after %v", c.want, err, time.Since(began))
			}
			got := ""
			for i := range each {
				if len(each[i].Out) > 0 {
					got += fmt.Sprint(i, ":", ids(each[i].Out))
				}
				if len(each[i].Cursor) < 3 || each[i].FromLog != (i < 2) {
					t.Errorf("%d: %+v", i, each[i])
				}
			}
			if got != c.want || ids(found) != strings.TrimLeft(strings.TrimLeft(c.want, "012"), ":") {
				t.Errorf("%q, %q, want %q", ids(found), got, c.want)
			}
		}
		if ticks == 0 || a.Held.Load()+b.Held.Load()+checked.Held.Load() != 0 {
			t.Errorf("%d ticks; polls are left that wait", ticks)
		}
		time.AfterFunc(time.Second, b.Remove)
		polls := all()
		if _, _, wrong, err := polling.Any(t.Context(), polls, tick); wrong != 1 || !errors.Is(err, events.ErrNotFound) {
			t.Errorf("%d: %v", wrong, err)
		}
		checked.Fail(errors.New("the upstream is down"))
		if _, _, wrong, err := polling.Any(t.Context(), polls, tick); wrong != 2 || !errors.Is(err, events.ErrUpstream) {
			t.Errorf("%d: %v", wrong, err)
		}
	})
}

// docs/agent-tools.md, the wait tool (M13, M14): polls of one event type give each occurrence once, in the order of the log,
// and none of them is taken further than the other has read.
func TestAnyOfOneType(t *testing.T) {
	e := pollingtest.New(t, "e", true, false)
	filters := []string{`{"any":["P1","P2"]}`, `{"severity":"P2"}`}
	cursors := [][]byte{read(t, request(t, e, filters[0], 0, nil)).Cursor, read(t, request(t, e, filters[1], 0, nil)).Cursor}
	var want []string
	for i := range 40 {
		id, severity := fmt.Sprintf("%02d", i), "P1"
		if i%13 == 0 {
			severity = "P2" // which both have
		}
		e.Emit(incident{ID: id, Severity: severity, Service: strings.Repeat("x", 1<<10)}, time.Unix(int64(-i), 0))
		want = append(want, id)
	}
	var got []string
	for range 100 {
		polls := []*polling.Request{request(t, e, filters[0], 0, cursors[0]), request(t, e, filters[1], 0, cursors[1])}
		polls[0].MaxPage, polls[0].Limit = 20<<10, 7
		found, each, _, err := polling.Any(t.Context(), polls, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, cursors = append(got, strings.Fields(ids(found))...), [][]byte{each[0].Cursor, each[1].Cursor}
		if len(found) == 0 && !each[0].More && !each[1].More {
			break
		}
		if len(found) > 7 {
			t.Fatalf("%d of 7", len(found))
		}
	}
	if !slices.Equal(got, want) || e.Passed.Load() != 40 {
		t.Errorf("%q, want %q; passed %d", got, want, e.Passed.Load())
	}
}

// REP-11, AUTH-2: a poll is answered only after the requests of operators have been read, which may end it, and fails if
// they cannot be read.
func TestREP11NothingUnread(t *testing.T) {
	polls := map[string]func(ctx context.Context, q *polling.Request) error{
		"one": func(ctx context.Context, q *polling.Request) error {
			_, err := polling.Read(ctx, q)
			return err
		},
		"any": func(ctx context.Context, q *polling.Request) error {
			_, _, _, err := polling.Any(ctx, []*polling.Request{q}, noTick)
			return err
		},
	}
	revoked := events.Forbidden("no more")
	for name, poll := range polls {
		for what, c := range map[string]struct {
			unread  time.Duration
			end     bool
			took    time.Duration
			refused bool
		}{
			"read in time":  {unread: 3 * time.Second, took: 3 * time.Second},
			"read and over": {unread: 3 * time.Second, end: true, took: 2 * time.Second, refused: true},
			"never read":    {unread: time.Hour, took: 5 * time.Second, refused: true},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := pollingtest.New(t, "e", true, false)
					cursor := read(t, request(t, e, `{}`, 0, nil)).Cursor
					e.Emit(incident{ID: "1"})
					q := request(t, e, `{}`, time.Minute, cursor)
					began := time.Now()
					q.Access.Heard = func() bool { return time.Since(began) >= c.unread }
					if c.end {
						time.AfterFunc(2*time.Second, func() { q.End(revoked) })
					}
					err := poll(t.Context(), q)
					if took := time.Since(began).Round(time.Second); (err != nil) != c.refused || c.end && !errors.Is(err, revoked) || took != c.took {
						t.Errorf("%v after %v", err, took)
					}
				})
			})
		}
	}
}
