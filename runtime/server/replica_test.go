package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// A member is a server on a store of its own over the database of others.
type member struct {
	*Server
	store *postgres.Store
}

// deaf is a store that hears of others' appends only when it asks.
var deaf = postgres.Options{Pooled: true, Poll: time.Hour}

// eager is one that looks often and is not notified.
var eager = postgres.Options{Pooled: true, Poll: 20 * time.Millisecond}

func openShared(t testing.TB, schema string, o postgres.Options) *postgres.Store {
	t.Helper()
	o.Schema = schema
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	s, err := postgres.Open(context.Background(), pgtest.URL(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func newMember(t testing.TB, schema string, so postgres.Options, o Options) member {
	t.Helper()
	st := openShared(t, schema, so)
	o.Store = st
	return member{newServer(t, o), st}
}

// waitUntil polls, for what other processes do takes its time: a third attempt comes after 35 s.
func waitUntil(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// REP-2: streams at every replica get what is emitted at any, in one order, once. A type without replay
// is no different.
func TestREP2StreamsGetWhatOthersEmit(t *testing.T) {
	for _, c := range []struct {
		name     string
		o        postgres.Options
		noReplay bool
	}{{"listening", postgres.Options{}, false}, {"notifications are lost", eager, false}, {"without replay", postgres.Options{}, true}} {
		t.Run(c.name, func(t *testing.T) {
			schema := pgtest.Schema(t)
			var members []member
			var emitters []*Emitter[incident]
			var streams []*live
			for range 3 {
				m := newMember(t, schema, c.o, Options{})
				typ := incidentType("e")
				typ.NoReplay = c.noReplay
				e, err := Register(m.Server, typ, Hooks[filterArgs, incident]{})
				if err != nil {
					t.Fatal(err)
				}
				members, emitters = append(members, m), append(emitters, e)
				streams = append(streams, stream(t, m.Server, `{"name":"e","arguments":{"severity":"P1"}}`))
			}
			for _, l := range streams {
				waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
			}
			const each = 20
			var wg sync.WaitGroup
			for i, e := range emitters {
				wg.Go(func() {
					for n := range each {
						emit(t, e, incident{ID: fmt.Sprintf("m%d-%d", i, n), Severity: "P1"})
						emit(t, e, incident{ID: fmt.Sprintf("no%d-%d", i, n), Severity: "P2"})
					}
				})
			}
			wg.Wait()
			for _, l := range streams {
				waitUntil(t, "all occurrences", func() bool { return len(l.ids()) >= each*len(members) })
			}
			want := streams[0].ids()
			if set := slices.Compact(slices.Sorted(slices.Values(want))); len(set) != each*len(members) {
				t.Fatalf("%d distinct occurrences, want %d", len(set), each*len(members))
			}
			for i, l := range streams {
				wantStrings(t, fmt.Sprintf("stream at replica %d", i), l.ids(), want...)
			}
		})
	}
}

// REP-3: a cursor of another replica lies beyond what this one knows; it asks and goes on. One that no
// replica ever gave is truncated as before, and so is a position that no log can have.
func TestREP3CursorBeyondTheCachedHead(t *testing.T) {
	schema := pgtest.Schema(t)
	a, b := newMember(t, schema, deaf, Options{}), newMember(t, schema, deaf, Options{})
	ea := register(t, a.Server, "e", Hooks[filterArgs, incident]{})
	register(t, b.Server, "e", Hooks[filterArgs, incident]{})
	start := pollFrom(t, a.Server, nil, "")
	for i := range 5 {
		emit(t, ea, incident{ID: fmt.Sprint(i)})
	}
	mid := pollFrom(t, a.Server, start.Cursor, `,"maxEvents":3`)
	got := pollFrom(t, b.Server, mid.Cursor, "")
	wantStrings(t, "at the other replica", got.ids(), "3", "4")
	if *got.Truncated {
		t.Fatal("a position that exists was truncated")
	}
	emit(t, ea, incident{ID: "5"})
	end := pollFrom(t, a.Server, got.Cursor, "")
	st := stream(t, b.Server, fmt.Sprintf(`{"name":"e","cursor":%q}`, *end.Cursor))
	waitUntil(t, "active", func() bool { return len(st.frames()) > 0 })
	if st.frames()[0].params.Truncated {
		t.Fatal("a stream's position that exists was truncated")
	}
	c, err := wire.ParseCursor(*end.Cursor)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []uint64{c.Position + 1, 1 << 62, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
		c.Position = p
		text := c.String()
		forged := pollFrom(t, b.Server, &text, "")
		if !*forged.Truncated || len(forged.Events) > 0 {
			t.Fatalf("position %d: truncated %v, events %v", p, *forged.Truncated, forged.ids())
		}
	}
}

// REP-3: a store that cannot be asked fails the call: it is not judged by what is cached.
func TestREP3UnreachableStore(t *testing.T) {
	schema := pgtest.Schema(t)
	a, b := newMember(t, schema, deaf, Options{}), newMember(t, schema, deaf, Options{})
	ea := register(t, a.Server, "e", Hooks[filterArgs, incident]{})
	register(t, b.Server, "e", Hooks[filterArgs, incident]{})
	emit(t, ea, incident{ID: "1"})
	from := pollFrom(t, a.Server, nil, "")
	b.store.Close()
	_, rerr := call(b.Server, "", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q}`, *from.Cursor))
	wantError(t, rerr, -32603, "")
}

// REP-14: a poller and a stream that go from replica to replica miss nothing, get nothing twice and
// never hear of truncation, while others emit.
func TestREP14CursorsContinueAnywhere(t *testing.T) {
	schema := pgtest.Schema(t)
	members := []member{newMember(t, schema, eager, Options{}), newMember(t, schema, eager, Options{}), newMember(t, schema, eager, Options{})}
	var emitters []*Emitter[incident]
	for _, m := range members {
		emitters = append(emitters, register(t, m.Server, "e", Hooks[filterArgs, incident]{}))
	}
	start := pollFrom(t, members[0].Server, nil, "").Cursor
	const total = 300
	var wg sync.WaitGroup
	defer wg.Wait()
	for i, e := range emitters {
		wg.Go(func() {
			for n := i; n < total; n += len(emitters) {
				emit(t, e, incident{ID: fmt.Sprint(n)})
			}
		})
	}
	anyOf := func() *Server { return members[rand.IntN(len(members))].Server }
	wg.Go(func() {
		cursor, got := start, []string{}
		for end := time.Now().Add(30 * time.Second); len(got) < total && time.Now().Before(end); {
			r := pollFrom(t, anyOf(), cursor, `,"maxEvents":7,"timeoutMs":50`)
			if *r.Truncated {
				t.Error("the poll was truncated")
			}
			cursor, got = r.Cursor, append(got, r.ids()...)
		}
		wantAll(t, "poller", got, total)
	})
	wg.Go(func() {
		cursor, got := *start, []string{}
		for end := time.Now().Add(30 * time.Second); len(got) < total && time.Now().Before(end); {
			st, rerr := openStream(anyOf(), "", fmt.Sprintf(`{"name":"e","cursor":%q}`, cursor))
			if rerr != nil {
				t.Error(rerr.Message)
				return
			}
			l := runStream(st)
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
			l.cancel()
			<-l.done
			for _, f := range l.frames() {
				if f.params.Truncated {
					t.Error("the stream was truncated")
				}
				if f.params.Cursor != nil {
					cursor = *f.params.Cursor
				}
			}
			got = append(got, l.ids()...)
		}
		wantAll(t, "stream", got, total)
	})
}

// wantAll expects the numbers below total, each once.
func wantAll(t testing.TB, who string, got []string, total int) {
	t.Helper()
	seen := map[string]int{}
	for _, id := range got {
		seen[id]++
	}
	for n := range total {
		if c := seen[fmt.Sprint(n)]; c != 1 {
			t.Errorf("%s got %d %d times", who, n, c)
		}
	}
	if len(got) != total {
		t.Errorf("%s got %d occurrences, want %d", who, len(got), total)
	}
}

// REP-14: for a type with both sources, what one replica remembers suppresses nothing: both copies come,
// under one eventId, wherever the occurrence was emitted.
func TestREP14BothSourcesAreBothDelivered(t *testing.T) {
	schema := pgtest.Schema(t)
	upstream := []events.Item[incident]{}
	var mu sync.Mutex
	check := func(_ context.Context, _ filterArgs, cursor string) (events.Page[incident], error) {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		if cursor != "" {
			fmt.Sscan(cursor, &n)
		} else {
			n = len(upstream)
		}
		return events.Page[incident]{Items: slices.Clone(upstream[n:]), Cursor: fmt.Sprint(len(upstream))}, nil
	}
	var members []member
	var emitters []*Emitter[incident]
	for range 2 {
		m := newMember(t, schema, postgres.Options{}, Options{NextPoll: 20 * time.Millisecond})
		e, err := RegisterBoth(m.Server, incidentType("e"), check, Hooks[filterArgs, incident]{})
		if err != nil {
			t.Fatal(err)
		}
		members, emitters = append(members, m), append(emitters, e)
	}
	var streams []*live
	for _, m := range members {
		streams = append(streams, stream(t, m.Server, `{"name":"e"}`))
	}
	for _, l := range streams {
		waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	}
	start := pollFrom(t, members[1].Server, nil, "")
	emit(t, emitters[0], incident{ID: "x"})
	mu.Lock()
	upstream = append(upstream, events.Item[incident]{ID: "x", Data: incident{ID: "x"}})
	mu.Unlock()
	for _, l := range streams {
		waitUntil(t, "both copies", func() bool { return len(l.ids()) == 2 })
		wantStrings(t, "stream", l.ids(), "x", "x")
	}
	waitUntil(t, "both copies in a poll", func() bool {
		return strings.Join(pollFrom(t, members[1].Server, start.Cursor, "").ids(), " ") == "x x"
	})
}
