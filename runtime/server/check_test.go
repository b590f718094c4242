package server

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/streaming"
)

// Trap 11, CUR-1, POLL-4: whatever the page sizes, caps and arrivals, a poller gets every item
// once and in order; two principals with one check never get each other's. SRV-1.
// checkPoll.use and upstream.fetchStep carry it, with the feed's hash in upstream.parseCursor.
func TestCheckPollProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &mailbox{page: rapid.IntRange(0, 7).Draw(rt, "page")}
		s := newServer(t, Options{MaxEvents: rapid.IntRange(1, 5).Draw(rt, "cap"), ScanLimit: rapid.IntRange(1, 500).Draw(rt, "scan")})
		registerMailbox(t, s, m)
		who := []string{"ann", "bob"}
		cursors, got, want := map[string]*string{}, map[string][]string{}, map[string][]string{}
		for _, w := range who {
			m.put(w, mail(w+"-history"))
			cursors[w] = pollAs(t, s, w, `{"name":"e"}`).Cursor
		}
		next := func(w string) pollResult {
			p := fmt.Sprintf(`{"name":"e","cursor":%q`, *cursors[w])
			if n := rapid.IntRange(0, 4).Draw(rt, "maxEvents"); n > 0 {
				p += fmt.Sprintf(`,"maxEvents":%d`, n)
			}
			r := pollAs(t, s, w, p+"}")
			got[w] = append(got[w], r.ids()...)
			if *r.HasMore && len(r.Events) == 0 && *r.Cursor == *cursors[w] {
				rt.Fatal("hasMore without progress")
			}
			cursors[w] = r.Cursor
			return r
		}
		for step := range rapid.IntRange(1, 25).Draw(rt, "steps") {
			w := rapid.SampledFrom(who).Draw(rt, "who")
			if rapid.Bool().Draw(rt, "arrival") {
				for i := range rapid.IntRange(1, 6).Draw(rt, "arrivals") {
					id := fmt.Sprint(w, step, "-", i)
					m.put(w, mail(id))
					want[w] = append(want[w], id)
				}
			} else {
				next(w)
			}
		}
		for _, w := range who {
			for *next(w).HasMore {
			}
			next(w)
			if !slices.Equal(got[w], want[w]) {
				rt.Fatalf("%s got %v, want %v", w, got[w], want[w])
			}
		}
	})
}

// OCC-2: ids that the upstream does not give agree over repeats; an upstream whose cursor stands
// still is read by offset; items that break the schema are passed over.
func TestCheckDerivedIDs(t *testing.T) {
	s := newServer(t, Options{})
	m := &mailbox{extra: func(p *events.Page[incident]) {
		if len(p.Items) > 0 {
			p.Cursor = "0" // stands still while there are items
		}
	}}
	registerMailbox(t, s, m)
	c := pollFrom(t, s, nil, "").Cursor
	m.put("", events.Item[incident]{Data: incident{ID: "same"}}, events.Item[incident]{Data: incident{ID: "same"}},
		events.Item[incident]{Data: incident{ID: "bad", Secret: "longer than twenty characters"}}, mail("own"))
	first, repeat := pollFrom(t, s, c, ""), pollFrom(t, s, c, "")
	ids := first.ids()
	if len(ids) != 3 || ids[0] == ids[1] || ids[2] != "own" || !equalStrings(ids, repeat.ids()) {
		t.Fatalf("%v then %v", ids, repeat.ids())
	}
	m.put("", mail("later"))
	wantStrings(t, "by offset", pollFrom(t, s, first.Cursor, "").ids(), "later")
	half := pollFrom(t, s, c, `,"maxEvents":1`)
	wantStrings(t, "rest", pollFrom(t, s, half.Cursor, "").ids(), ids[1], "own", "later")
}

// CUR-5, CUR-6: maxAgeMs and the ceiling bound what a check replays.
func TestCheckMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		m := &mailbox{page: 2}
		registerMailbox(t, s, m)
		c := pollFrom(t, s, nil, "").Cursor
		for i := range 6 {
			m.put("", mail(fmt.Sprint("x", i)))
			time.Sleep(time.Minute)
		}
		r := pollFrom(t, s, c, `,"maxAgeMs":130000`)
		if wantStrings(t, "poll", r.ids(), "x4", "x5"); !*r.Truncated {
			t.Fatal("not truncated")
		}
		if r := pollFrom(t, s, c, `,"maxAgeMs":13000000`); len(r.Events) != 6 || *r.Truncated {
			t.Fatalf("%v", r.ids())
		}
		l := stream(t, s, fmt.Sprintf(`{"name":"e","cursor":%q,"maxAgeMs":130000}`, *c))
		synctest.Wait()
		wantStrings(t, "stream", l.shorts(), "active", "event x4", "event x5")
		if !l.frames()[0].params.Truncated {
			t.Fatal("active is not truncated")
		}
		wantStrings(t, "from active", pollFrom(t, s, l.frames()[0].params.Cursor, "").ids(), "x4", "x5")
	})
}

// PUSH-5: a failing check is a JSON-RPC error to a poll and events/error to a stream, which goes
// on; ERR-4: the author's own reason is shown, nothing else is.
func TestCheckFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		m := &mailbox{}
		registerMailbox(t, s, m)
		c := pollFrom(t, s, nil, "").Cursor
		l := stream(t, s, fmt.Sprintf(`{"name":"e","cursor":%q}`, *c))
		synctest.Wait()
		m.set(func() { m.fail = errTest })
		_, err := call(s, "", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q}`, *c))
		wantError(t, err, -32603, "")
		if err.Message != "UpstreamError" {
			t.Fatal(err.Message)
		}
		time.Sleep(5*time.Second + time.Millisecond)
		m.set(func() { m.fail = events.Upstream("mail is down") })
		time.Sleep(5 * time.Second)
		synctest.Wait()
		m.set(func() { m.fail = nil })
		m.put("", mail("x"))
		time.Sleep(15 * time.Second)
		synctest.Wait()
		got := []string{}
		for _, f := range l.frames() {
			if f.method == wire.NotificationError {
				got = append(got, f.params.Error.Message+" "+string(f.params.Error.Data))
			} else if f.method != wire.NotificationHeartbeat {
				got = append(got, f.short())
			}
		}
		wantStrings(t, "stream", got, "active", "UpstreamError ", `UpstreamError {"reason":"mail is down"}`, "event x")
	})
}

// SRV-5: streams with equal arguments and principal share the calls of the check. Others do not, unless the check is
// declared independent of the principal. The calls end with the last stream.
func TestCheckCoalesced(t *testing.T) {
	for _, shared := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Options{})
			m := &mailbox{}
			o := []TypeOption{WithNextPoll(time.Second)}
			if shared {
				o = append(o, WithSharedCheck())
			}
			registerMailbox(t, s, m, o...)
			var all []*live
			for _, who := range []string{"ann", "ann", "bob", "bob"} {
				all = append(all, streamAs(t, s, who, `{"name":"e"}`))
			}
			m.set(func() { m.asked = nil })
			time.Sleep(10*time.Second + time.Millisecond)
			synctest.Wait()
			want := 20
			if shared {
				want = 10
			}
			if got := len(m.questions()); got != want {
				t.Errorf("shared %v: %d questions in 10 s, want %d", shared, got, want)
			}
			m.put("ann", mail("for-ann"))
			m.put("", mail("for-all"))
			time.Sleep(time.Second)
			synctest.Wait()
			for i, l := range all {
				want := [][]string{{"for-ann"}, {"for-ann"}, {}, {}}[i]
				if shared {
					want = []string{"for-all"}
				}
				wantStrings(t, fmt.Sprint("shared ", shared, " stream ", i), l.ids(), want...)
				l.cancel()
				<-l.done
			}
			m.set(func() { m.asked = nil })
			time.Sleep(time.Minute)
			if n := len(m.questions()); n != 0 {
				t.Errorf("%d questions after the last stream", n)
			}
		})
	}
}

// Trap 11, SRV-5: streams that begin at any cursor, of a poll or of an earlier stream, behind or ahead of others, each get
// what follows their cursor, once and in order.
func TestCheckStreamsMeet(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		page := rapid.IntRange(0, 4).Draw(rt, "page")
		waits := rapid.SliceOfN(rapid.IntRange(0, 1500), 12, 12).Draw(rt, "waits")
		kinds := rapid.SliceOfN(rapid.IntRange(0, 3), 12, 12).Draw(rt, "kinds")
		var failed string
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, Options{})
			m := &mailbox{page: page}
			registerMailbox(t, s, m, WithNextPoll(time.Second))
			type reader struct {
				*live
				from int
			}
			var readers []reader
			cursor := pollFrom(t, s, nil, "").Cursor
			at, n := 0, 0
			for i := range waits {
				switch kinds[i] {
				case 0, 1:
					for range 1 + i%3 {
						m.put("", mail(fmt.Sprint("x", n)))
						n++
					}
				case 2:
					readers = append(readers, reader{stream(t, s, fmt.Sprintf(`{"name":"e","cursor":%q}`, *cursor)), at})
				case 3:
					r := pollFrom(t, s, cursor, "")
					cursor, at = r.Cursor, at+len(r.Events)
				}
				time.Sleep(time.Duration(waits[i]) * time.Millisecond)
			}
			time.Sleep(5 * time.Second)
			synctest.Wait()
			for i, r := range readers {
				var want []string
				for x := r.from; x < n; x++ {
					want = append(want, fmt.Sprint("x", x))
				}
				if got := r.ids(); !slices.Equal(got, want) {
					failed = fmt.Sprintf("stream %d got %v, want %v", i, got, want)
				}
				r.cancel()
				<-r.done
			}
		})
		if failed != "" {
			rt.Fatal(failed)
		}
	})
}

// POLL-5, POLL-9: a check sets nextPollMs of its answer; a held poll asks again.
func TestCheckPollHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, Options{})
		m := &mailbox{extra: func(p *events.Page[incident]) { p.NextPoll = 700 * time.Millisecond }}
		registerMailbox(t, s, m)
		c := pollFrom(t, s, nil, "").Cursor
		if r := pollFrom(t, s, c, ""); *r.NextPollMs != 700 {
			t.Fatalf("nextPollMs %d", *r.NextPollMs)
		}
		go func() { time.Sleep(time.Second); m.put("", mail("x")) }()
		began := time.Now()
		r := pollFrom(t, s, c, `,"timeoutMs":5000`)
		if wantStrings(t, "held", r.ids(), "x"); time.Since(began) != 1400*time.Millisecond {
			t.Fatalf("answered after %v", time.Since(began))
		}
	})
}

// A check that breaks its contract or panics is an error, never a hang.
func TestCheckBroken(t *testing.T) {
	s := newServer(t, Options{})
	n := 0
	err := RegisterCheck(s, incidentType("e"), func(context.Context, filterArgs, string) (events.Page[incident], error) {
		if n++; n == 1 {
			panic("secret")
		}
		return events.Page[incident]{}, nil
	}, Hooks[filterArgs, incident]{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, rerr := call(s, "", wire.MethodPoll, `{"name":"e"}`)
		wantError(t, rerr, -32603, "")
		_, rerr = openStream(s, "", `{"name":"e"}`)
		wantError(t, rerr, -32603, "")
	}
	if s.streams.Holding() != (streaming.Holding{}) {
		t.Fatal("a refused stream left something behind")
	}
	typ := incidentType("n")
	typ.NoReplay = true
	if err := RegisterCheck(s, typ, (&mailbox{}).check, Hooks[filterArgs, incident]{}); err == nil {
		t.Fatal("a check without replay was registered")
	}
}

// Trap 11, CUR-1: a truncated page of more items than a poll takes is told as truncated once and
// read to its end.
// upstream.fetchStep carries it by afterGapFlag.
func TestTruncatedPageInParts(t *testing.T) {
	for _, moves := range []bool{true, false} {
		s := newServer(t, Options{})
		check := func(_ context.Context, _ filterArgs, cursor string) (events.Page[incident], error) {
			if cursor == "lost" {
				p := events.Page[incident]{Items: []events.Item[incident]{mail("a"), mail("b"), mail("c"), mail("d"), mail("e")}, Cursor: "new", Truncated: true}
				if !moves {
					p.Cursor = "lost"
				}
				return p, nil
			}
			return events.Page[incident]{Cursor: map[bool]string{true: "lost", false: cursor}[cursor == ""]}, nil
		}
		if err := RegisterCheck(s, incidentType("e"), check, Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
		c := pollFrom(t, s, nil, "").Cursor
		var ids []string
		truncated := 0
		for range 6 {
			r := pollFrom(t, s, c, `,"maxEvents":2`)
			ids, c = append(ids, r.ids()...), r.Cursor
			if *r.Truncated {
				truncated++
			}
		}
		wantStrings(t, fmt.Sprint("moves ", moves), ids, "a", "b", "c", "d", "e")
		if truncated != 1 {
			t.Errorf("moves %v: told %d times", moves, truncated)
		}
	}
}
