package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// polled is a poll result with the given eventIds.
func polled(cursor string, more bool, nextPollMs int64, ids ...string) json.RawMessage {
	var all []string
	for _, id := range ids {
		all = append(all, eventJSON(id, "-"))
	}
	c := "null"
	if cursor != "" {
		c = fmt.Sprintf("%q", cursor)
	}
	return fmt.Appendf(nil, `{"events":[%s],"cursor":%s,"truncated":false,"hasMore":%t,"nextPollMs":%d}`,
		strings.Join(all, ","), c, more, nextPollMs)
}

func cursorOf(p wire.PollParams) string {
	if p.Cursor == nil {
		return "null"
	}
	return *p.Cursor
}

// POLL-2, P1: a server in Go that leaves an empty list out of a quiet poll is polled on.
func TestPollWithoutEvents(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		quiet := []string{`{"cursor":"c0","nextPollMs":1000}`, `{"cursor":null}`, `{"nextPollMs":0}`, `{"cursor":"c0"}`}
		f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
			if len(quiet) == 0 {
				return polled("c1", false, 1000, "e1"), nil
			}
			next := quiet[0]
			quiet = quiet[1:]
			return json.RawMessage(next), nil
		}
		s := subscribe(t, connect(t, f, c, Options{Mode: wire.ModePoll}))
		read(t, s).want("e1")
		if err := s.Subscription().Status().LastError; err != nil {
			t.Error(err)
		}
	})
}

// CLI-3: the loop bootstraps with a null cursor, drains hasMore at once, waits nextPollMs but never
// less than the floor, and does not ask to be held unless told.
func TestCLI3Poll(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		type seen struct {
			cursor string
			at     time.Duration
		}
		var polls []seen
		start := time.Now()
		f := newFake(c.legacy)
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
			if p.TimeoutMs != nil || p.MaxEvents != nil || p.MaxAgeMs != nil || p.Name != "tick" {
				t.Errorf("params %+v", p)
			}
			polls = append(polls, seen{cursorOf(p), time.Since(start)})
			switch len(polls) {
			case 1:
				return polled("c0", false, 5000), nil
			case 2:
				return polled("c2", true, 5000, "e1", "e2"), nil
			case 3:
				return polled("c3", true, 5000), nil // filtered away, yet more
			case 4:
				return polled("c4", false, 0, "e2", "e4"), nil
			case 5:
				return polled("c4", true, -7), nil // more without progress: no tight loop
			case 6:
				return polled("c6", false, 1e15, "e6"), nil
			}
			return polled("c7", false, 1000, "e7"), nil
		}
		s := subscribe(t, connect(t, f, c, Options{}), WithMode("poll"))
		if s.Subscription().Mode() != wire.ModePoll || len(f.sent(wire.MethodStream)) != 0 {
			t.Error("not polling")
		}
		read(t, s).want("e1", "e2", "e4", "e6", "e7")
		s.Close()
		synctest.Wait()
		want := []seen{{"null", 0}, {"c0", 5 * time.Second}, {"c2", 5 * time.Second}, {"c3", 5 * time.Second},
			{"c4", 6 * time.Second}, {"c4", 7 * time.Second}, {"c6", 7*time.Second + maxWait}}
		if !slices.Equal(polls, want) {
			t.Errorf("polls %v, want %v", polls, want)
		}
	})
}

// CLI-3, CUR-7: a log that is read again from its oldest entry after a restore is read without pauses, though all that it has
// is known; a server that then says the same for ever is paused.
func TestCLI3ReadAgain(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		const pages = 40
		start := time.Now()
		var at time.Duration // when the new occurrence after those that are known was asked for
		polls, late := 0, 0
		f := newFake(c.legacy)
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
			polls++
			switch n := polls - 1; {
			case n == 0:
				return polled("c0", false, 0), nil
			case n <= 2*pages: // once, and once more
				n = (n-1)%pages + 1
				return polled(fmt.Sprintf("c%d", n), true, 0, fmt.Sprintf("e%d", n)), nil
			case n == 2*pages+1:
				at = time.Since(start)
				return polled("new", true, 0, "new"), nil
			}
			late++
			return polled(fmt.Sprint("again", polls), true, 0, "new"), nil
		}
		s := subscribe(t, connect(t, f, c, Options{Mode: wire.ModePoll, PollFloor: time.Second}))
		r := read(t, s)
		time.Sleep(time.Minute)
		var want []string
		for n := range pages {
			want = append(want, fmt.Sprintf("e%d", n+1))
		}
		r.want(append(want, "new")...)
		if at > 2*time.Second {
			t.Errorf("the new occurrence is asked for after %v", at)
		}
		if late > 2*freePages+6 {
			t.Errorf("%d polls for what is known in a minute", late)
		}
	})
}

// CLI-3: LongPoll asks with timeoutMs, gives the request that much longer, and still waits
// nextPollMs after a held poll that brought events.
func TestCLI3LongPoll(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		var at []time.Duration
		start := time.Now()
		f := newFake(c.legacy)
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
			at = append(at, time.Since(start))
			if p.TimeoutMs == nil || *p.TimeoutMs != 25_000 || p.MaxEvents == nil || *p.MaxEvents != 7 {
				t.Errorf("params %+v", p)
			}
			if p.Cursor == nil {
				return polled("c0", false, 2000), nil
			}
			time.Sleep(25 * time.Second)
			return polled(cursorOf(p)+"x", false, 2000, "e"+cursorOf(p)), nil
		}
		s := subscribe(t, connect(t, f, c, Options{LongPoll: 25 * time.Second, CallTimeout: 10 * time.Second, Mode: "poll", MaxEvents: 7}))
		read(t, s).want("ec0", "ec0x")
		synctest.Wait()
		if want := []time.Duration{0, 2 * time.Second, 29 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("polls at %v", at)
		}
	})
}

// CLI-3: failures are retried from the same cursor with backoff and jitter; an upstream failure is
// reported between the items; a call without an answer ends after its timeout.
func TestCLI3Failures(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		var mu sync.Mutex
		var cursors []string
		start := time.Now()
		f := newFake(c.legacy)
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
			mu.Lock()
			cursors = append(cursors, cursorOf(p))
			n := len(cursors)
			mu.Unlock()
			switch n {
			case 1:
				return polled("c0", false, 1000), nil
			case 2, 3:
				return nil, f.err(wire.UpstreamError, `{"reason":"down"}`)
			case 4:
				return json.RawMessage(`{"events":{}}`), nil
			case 5:
				time.Sleep(5 * time.Minute)
			}
			return polled("c1", false, 1000, "e1"), nil
		}
		s := subscribe(t, connect(t, f, c, Options{}), WithMode("poll"))
		r := read(t, s)
		r.want("error")
		var rec *RecoverableError
		if !errors.As(r.err, &rec) || !errors.Is(r.err, events.ErrUpstream) {
			t.Errorf("%v", r.err)
		}
		r.want("error", "e1")
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"null", "c0", "c0", "c0", "c0", "c0"}; !slices.Equal(cursors, want) {
			t.Errorf("cursors %v", cursors)
		}
		// 1 s to the first failure; waits of at most 1, 2, 4 and 8 s; one timeout of 30 s.
		if d := time.Since(start); d < 38*time.Second || d > 46*time.Second {
			t.Errorf("took %v", d)
		}
		synctest.Wait()
		if st := s.Subscription().Status(); st.LastError == nil || st.LastFrame.IsZero() {
			t.Errorf("status %+v", st)
		}
	})
}

// CLI-2, CLI-7: truncated is a gap before the batch; arguments that became invalid, and a type that
// went away, end the subscription.
func TestCLI7PollRefused(t *testing.T) {
	for kind, want := range map[wire.Kind]error{wire.InvalidParams: events.ErrInvalidParams, wire.NotFound: events.ErrNotFound,
		wire.Unsupported: events.ErrUnsupported, wire.MethodNotFound: &events.Error{Kind: wire.MethodNotFound}} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			f := newFake(c.legacy)
			n := 0
			f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
				if n++; n > 1 {
					return nil, f.err(kind, "")
				}
				return json.RawMessage(strings.Replace(string(polled("c1", false, 0, "e1")), `"truncated":false`, `"truncated":true`, 1)), nil
			}
			r := read(t, subscribe(t, connect(t, f, c, Options{}), WithMode("poll"), WithCursor("old")))
			r.want("gap:", "e1", "error")
			var terminated *TerminatedError
			if !errors.Is(r.err, want) || !errors.As(r.err, &terminated) {
				t.Errorf("%v: %v", kind, r.err)
			}
			r.want("end")
		})
	}
}

// CUR-5: maxAgeMs goes with the first request that has a cursor, and with those after a loss.
func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ages []string
		f := newFake(true)
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
			age := "-"
			if p.MaxAgeMs != nil {
				age = fmt.Sprint(*p.MaxAgeMs)
			}
			ages = append(ages, age)
			if len(ages) == 3 {
				return nil, f.err(wire.Internal, "")
			}
			return polled(fmt.Sprint("c", len(ages)), false, 1000), nil
		}
		s := subscribe(t, connect(t, f, carriers[0], Options{}), WithMode("poll"), WithMaxAge(time.Minute), WithCursor("c"))
		time.Sleep(10 * time.Second)
		s.Close()
		synctest.Wait()
		if !slices.Equal(ages[:5], []string{"60000", "-", "-", "60000", "-"}) {
			t.Errorf("ages %v", ages)
		}
	})
}

// A poll result is read as leniently as can be: numbers in any notation, members that are missing
// or unknown, and one strange occurrence does not hide the others.
func TestLenientPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		results := []string{
			`{"events":[],"cursor":"c1","nextPollMs":2000.0,"future":{}}`,
			`{"events":[{"eventId":1},` + eventJSON("e1", "c9") + `],"cursor":"c2","nextPollMs":3e3,"hasMore":false}`,
			`{"events":[` + eventJSON("e2", "-") + `],"cursor":"c3","nextPollMs":null}`,
			`{"events":[` + eventJSON("e3", "-") + `],"cursor":"c4","nextPollMs":1e300}`,
		}
		n := 0
		f := newFake(true)
		f.poll = func(p wire.PollParams) (any, *jsonrpc.Error) {
			if want := []string{"null", "c1", "c2", "c3"}[n]; cursorOf(p) != want {
				t.Errorf("polled from %s, want %s", cursorOf(p), want)
			}
			n++
			return json.RawMessage(results[n-1]), nil
		}
		r := read(t, subscribe(t, connect(t, f, carriers[0], Options{}), WithMode("poll")))
		r.want("error", "e1")
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("after %v", d)
		}
		r.want("e2", "e3")
		if d := time.Since(start); d != 6*time.Second {
			t.Errorf("after %v", d)
		}
	})
}
