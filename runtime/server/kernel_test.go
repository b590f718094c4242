package server

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/hook"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// Trap 4, PUSH-4, CUR-4: a heartbeat within a backlog says what is written, not what is there. The
// trap is carried by run.loop, which takes the cursor after collect and before flush, by
// topic.Reader.Cursor and by topic.Reader.Next, which moves pos only over what it returns.
func TestHeartbeatWithinBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{Heartbeat: time.Second})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		start := pollFrom(t, s, nil, "").Cursor
		const events = 2000
		for i := range events {
			emit(t, e, incident{ID: fmt.Sprint("x", i)})
		}
		st, rerr := openStream(s, "", fmt.Sprintf(`{"name":"e","cursor":%q}`, *start))
		if rerr != nil {
			t.Fatal(rerr)
		}
		ctx, cancel := context.WithCancel(t.Context())
		rec := &recorder{id: "8", gate: func(int, []frame.Frame) error { time.Sleep(700 * time.Millisecond); return nil }}
		done := make(chan struct{})
		go func() { defer close(done); st.Run(ctx, rec) }()
		time.Sleep(time.Minute)
		cancel()
		<-done
		beats, written := 0, position(t, *start)
		for _, f := range rec.frames() {
			at := position(t, *f.params.Cursor)
			switch f.method {
			case wire.NotificationEvent:
				written = at
			case wire.NotificationHeartbeat:
				if at != written {
					t.Fatalf("a heartbeat at %d, written up to %d", at, written)
				}
				if at < events {
					beats++
				}
			}
		}
		if beats < 5 || written != events {
			t.Fatalf("%d heartbeats within the backlog, written up to %d", beats, written)
		}
	})
}

func position(t testing.TB, cursor string) uint64 {
	t.Helper()
	c, err := wire.ParseCursor(cursor)
	if err != nil {
		t.Fatal(err)
	}
	return c.Position
}

// Trap 15: what the index ruled out is never read, also by a stream that wakes for its heartbeats, a
// held poll and a stream that wakes for a match after much that is none; and none of them gaps. The
// trap is carried by topic.Reader.ParkAt, which enters the head, Topic.handleAppended, which notes the first match,
// and Reader.settle, which jumps to one or the other.
func TestParkedReadersPassWithoutReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := &countingStore{Store: memory.New()}
		s := newServer(t, Options{Store: count, Heartbeat: 10 * time.Second})
		e := register(t, s, "e", Hooks[filterArgs, incident]{}, WithRetention(Retention{MaxCount: 3}))
		l := stream(t, s, `{"name":"e","arguments":{"severity":"P1"}}`)
		c := pollFrom(t, s, nil, "").Cursor
		held := make(chan pollResult)
		go func() { held <- pollFrom(t, s, c, `,"arguments":{"severity":"P3"},"timeoutMs":30000`) }()
		synctest.Wait()
		count.entries.Store(0)
		time.Sleep(125 * time.Millisecond) // no emit at the moment of a heartbeat: who is awake then may read it
		for i := range 100 {
			emit(t, e, incident{ID: fmt.Sprint("other", i), Severity: "P2"})
			time.Sleep(250 * time.Millisecond)
		}
		synctest.Wait()
		if n := count.entries.Load(); n != 0 {
			t.Errorf("%d entries read that concern nobody", n)
		}
		emit(t, e, incident{ID: "hit", Severity: "P1"})
		synctest.Wait()
		if n := count.entries.Load(); n != 1 {
			t.Errorf("%d entries read for one", n)
		}
		time.Sleep(time.Minute)
		if r := <-held; len(r.Events) != 0 || *r.Truncated || position(t, *r.Cursor) != 101 {
			t.Errorf("the held poll got %v, truncated %v, at %d", r.ids(), *r.Truncated, position(t, *r.Cursor))
		}
		if n := count.entries.Load(); n != 1 {
			t.Errorf("%d entries read for one, after the held poll", n)
		}
		beats := 0
		for _, f := range l.frames() {
			if f.method == wire.NotificationHeartbeat {
				if beats++; beats == 1 && position(t, *f.params.Cursor) < 39 {
					t.Errorf("the first heartbeat is at %d", position(t, *f.params.Cursor))
				}
			}
			if f.params.Truncated {
				t.Error("a parked stream gapped")
			}
		}
		wantStrings(t, "stream", l.ids(), "hit")
		if beats < 2 {
			t.Errorf("%d heartbeats", beats)
		}
	})
}

// Trap 11, CUR-1, CUR-7: the cursor of one feed is none of another's: neither another principal's,
// nor of other arguments, nor of another event type, however alike they are. The trap is carried by
// newUpstream, which hashes all three into every cursor, and by upstream.parseCursor, which compares; that
// feeds do not mix is feedKey.
func TestFeedsDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		asked := &journal{}
		check := func(ctx context.Context, a filterArgs, cursor string) (events.Page[incident], error) {
			severity := ""
			if a.Severity != nil {
				severity = *a.Severity
			}
			asked.add(fmt.Sprintf("%s %s from %q", hook.Principal(ctx), severity, cursor))
			return events.Page[incident]{Cursor: "of " + hook.Principal(ctx) + severity}, nil
		}
		for _, name := range []string{"e", "f"} {
			if err := RegisterCheck(s, incidentType(name), check, Hooks[filterArgs, incident]{}); err != nil {
				t.Fatal(err)
			}
		}
		p := func(event, args, cursor string) string {
			return fmt.Sprintf(`{"name":%q,"arguments":%s,"cursor":%s}`, event, args, cursor)
		}
		ada := *pollAs(t, s, "ada", p("e", `{"severity":"P1"}`, "null")).Cursor
		quoted, _ := json.Marshal(ada)
		if r := pollAs(t, s, "ada", p("e", `{"severity":"P1"}`, string(quoted))); *r.Truncated {
			t.Fatal("a cursor of its own is stale")
		}
		for _, other := range []struct{ principal, event, args string }{
			{"ben", "e", `{"severity":"P1"}`}, {"", "e", `{"severity":"P1"}`}, {"ada", "e", `{"severity":"P2"}`},
			{"ada", "e", `{}`}, {"ada", "f", `{"severity":"P1"}`},
		} {
			before := len(asked.lines())
			r := pollAs(t, s, other.principal, p(other.event, other.args, string(quoted)))
			if !*r.Truncated || *r.Cursor == ada {
				t.Errorf("%+v goes on from ada's cursor", other)
			}
			st := streamAs(t, s, other.principal, p(other.event, other.args, string(quoted)))
			synctest.Wait()
			if !st.frames()[0].params.Truncated {
				t.Errorf("a stream of %+v goes on from ada's cursor", other)
			}
			for _, line := range asked.lines()[before:] {
				if strings.Contains(line, "of adaP1") {
					t.Errorf("%+v: the upstream was asked as %s", other, line)
				}
			}
		}
	})
}

// CAP-5, POLL-4: a page is bounded in bytes as it is in number, for every kind of source; one
// occurrence is taken whatever its size; nothing is lost or doubled between pages.
func TestPagesInBytes(t *testing.T) {
	const bound = 100_000
	text := func(i int) string {
		return strings.Repeat("v", []int{30_000, 150_000, 10, 49_000, 49_000, 49_000}[i%6])
	}
	for _, kind := range []string{"log", "check", "both"} {
		t.Run(kind, func(t *testing.T) {
			s := newServer(t, Options{MaxPage: bound})
			m := &mailbox{}
			var e *Emitter[incident]
			var err error
			switch kind {
			case "log":
				e, err = Register(s, incidentType("e"), Hooks[filterArgs, incident]{})
			case "check":
				err = RegisterCheck(s, incidentType("e"), m.check, Hooks[filterArgs, incident]{})
			case "both":
				e, err = RegisterBoth(s, incidentType("e"), m.check, Hooks[filterArgs, incident]{})
			}
			if err != nil {
				t.Fatal(err)
			}
			c := pollFrom(t, s, nil, "").Cursor
			want := map[string]bool{}
			for i := range 18 {
				id := fmt.Sprint("x", i)
				want[id] = true
				in := incident{ID: id, Service: text(i)}
				if kind == "check" || kind == "both" && i < 9 {
					m.put("", events.Item[incident]{ID: id, Data: in})
				} else {
					emit(t, e, in)
				}
			}
			pages := 0
			for more := true; more && pages < 30; pages++ {
				raw, rerr := call(s, "", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q}`, *c))
				if rerr != nil {
					t.Fatal(rerr)
				}
				var r pollResult
				json.Unmarshal(raw, &r)
				if len(raw) > bound && len(r.Events) != 1 {
					t.Errorf("a page of %d bytes with %d occurrences", len(raw), len(r.Events))
				}
				for _, id := range r.ids() {
					if !want[id] {
						t.Errorf("%s again", id)
					}
					delete(want, id)
				}
				c, more = r.Cursor, *r.HasMore
			}
			if len(want) > 0 || pages < 8 || pages > 15 {
				t.Errorf("%d pages, left out: %v", pages, want)
			}
		})
	}
}

// What one stream is given at once is bounded in bytes: that is what it holds while its connection
// takes nothing.
func TestPassesInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		c := pollFrom(t, s, nil, "").Cursor
		var want []string
		for i := range 40 {
			want = append(want, fmt.Sprint("x", i))
			emit(t, e, incident{ID: want[i], Service: strings.Repeat("v", 100_000)})
		}
		st, rerr := openStream(s, "", fmt.Sprintf(`{"name":"e","cursor":%q}`, *c))
		if rerr != nil {
			t.Fatal(rerr)
		}
		largest := 0
		ctx, cancel := context.WithCancel(t.Context())
		rec := &recorder{id: "8", gate: func(_ int, frames []frame.Frame) error {
			n := 0
			for _, f := range frames {
				n += len(f.Params())
			}
			largest = max(largest, n)
			return nil
		}}
		done := make(chan struct{})
		go func() { defer close(done); st.Run(ctx, rec) }()
		time.Sleep(time.Second)
		cancel()
		<-done
		if got := rec.ids(); !slices.Equal(got, want) || largest > topic.PullBytes+4096 || largest < topic.PullBytes/2 {
			t.Errorf("%d events, at most %d bytes at once", len(got), largest)
		}
	})
}

// Trap 15 beside hostile patterns: a reader whose test is too dear for the append lock is woken as
// a hint, finds out for itself and parks again; the others get what they match and read nothing
// else.
func TestHostilePatternsBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		var hostile []*live
		for i := range 20 {
			hostile = append(hostile, stream(t, s, fmt.Sprintf(`{"name":"e","arguments":{"service":"*%sb%d"}}`, strings.Repeat("a?", 500), i)))
		}
		other := stream(t, s, `{"name":"e","arguments":{"service":"*z"}}`)
		synctest.Wait()
		text := strings.Repeat("a", 64<<10)
		emit(t, e, incident{ID: "none", Service: text})
		emit(t, e, incident{ID: "other", Service: "z"})
		emit(t, e, incident{ID: "third", Service: text + "b3"})
		synctest.Wait()
		wantStrings(t, "other", other.ids(), "other")
		for i, l := range hostile {
			want := []string{}
			if i == 3 {
				want = append(want, "third")
			}
			if got := l.ids(); !slices.Equal(got, want) {
				t.Errorf("stream %d got %v, want %v", i, got, want)
			}
		}
		if h := s.types["e"].topic.Holding(); len(h.Readers) != 21 || h.Parked != 21 {
			t.Errorf("%d of %d readers wait", h.Parked, len(h.Readers))
		}
	})
}
