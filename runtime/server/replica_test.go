package server

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// A member is a server on a store of its own over the database of others.
type member struct {
	*Server
	store *postgres.Store
}

// deaf is a store that hears of others' appends only when it asks.
var deaf = postgres.Options{Pooled: true, Poll: time.Hour}

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
		want := 6 // CUR-7: it begins anew
		if p > 1<<63-1 {
			want = 0
		}
		if !*forged.Truncated || len(forged.Events) != want {
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
