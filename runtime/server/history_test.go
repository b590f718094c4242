package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// buildOf registers the "e" of a build with a payloadSchema of its own.
func buildOf(t testing.TB, s *Server, payload string) *Emitter[incident] {
	t.Helper()
	typ := incidentType("e")
	typ.PayloadSchema = json.RawMessage(payload)
	e, err := Register(s, typ, Hooks[filterArgs, incident]{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var (
	oldPayload      = incidentSchema
	additivePayload = strings.Replace(incidentSchema, `"secret"`, `"added":{"type":"string"},"secret"`, 1)
	narrowPayload   = strings.Replace(incidentSchema, `"level":{"type":"number"},`, ``, 1)
)

// REP-16: an additive build beside the older one, a restart of the older one and a rollback raise no
// floor: a poller that goes between them misses nothing and is never truncated.
func TestREP16BuildsSideBySide(t *testing.T) {
	schema := pgtest.Schema(t)
	n, cursor := 0, (*string)(nil)
	poll := func(s *Server) {
		t.Helper()
		r := pollFrom(t, s, cursor, "")
		want := []string{}
		if cursor != nil {
			want = append(want, fmt.Sprint(n-1))
		}
		wantStrings(t, "poller", r.ids(), want...)
		if cursor = r.Cursor; *r.Truncated {
			t.Fatal("truncated")
		}
	}
	first := newMember(t, schema, deaf, Options{}).Server
	old := buildOf(t, first, oldPayload)
	poll(first)
	for _, payload := range []string{additivePayload, oldPayload, additivePayload, oldPayload} {
		emit(t, old, incident{ID: fmt.Sprint(n)})
		n++
		poll(first)
		s := newMember(t, schema, deaf, Options{}).Server
		e := buildOf(t, s, payload)
		emit(t, e, incident{ID: fmt.Sprint(n)})
		n++
		poll(s)
		st := stream(t, first, fmt.Sprintf(`{"name":"e","cursor":%q}`, *cursor))
		waitUntil(t, "active", func() bool { return len(st.frames()) > 0 })
		if f := st.frames()[0]; f.params.Truncated {
			t.Fatal("the older build's stream is truncated")
		}
	}
	known, err := first.options.Store.(engine.Shared).History(t.Context(), "e")
	if err != nil || len(known) != 2 || known[1].Floor != 0 {
		t.Fatalf("history %+v, %v", known, err)
	}
}

// REP-16: what an incompatible build may not replay lies before its floor, which its later starts have
// from the history; the older build restarted beside it goes on replaying all, and so does a rollback.
func TestREP16IncompatibleBuildBesideTheOlder(t *testing.T) {
	schema := pgtest.Schema(t)
	a := newMember(t, schema, deaf, Options{}).Server
	old := buildOf(t, a, oldPayload)
	cursor := pollFrom(t, a, nil, "").Cursor
	emit(t, old, incident{ID: "0", Level: 0.5})

	b := newMember(t, schema, deaf, Options{}).Server
	e := buildOf(t, b, narrowPayload)
	emit(t, e, incident{ID: "1"})
	for range 2 {
		r := pollFrom(t, b, cursor, "")
		wantStrings(t, "the narrower build", r.ids(), "1")
		if !*r.Truncated {
			t.Fatal("what it cannot replay was passed over without a word")
		}
		b = newMember(t, schema, deaf, Options{}).Server // it is restarted
		buildOf(t, b, narrowPayload)
	}
	for range 2 {
		ask := pollFrom(t, a, cursor, "")
		if *ask.Truncated || ask.ids()[0] != "0" {
			t.Fatalf("the older build: truncated %v, %v", *ask.Truncated, ask.ids())
		}
		a = newMember(t, schema, deaf, Options{}).Server // restarted, or rolled back to
		buildOf(t, a, oldPayload)
	}
}

// REP-16: a change at run time, and a type that is removed and comes back, count as builds do.
func TestREP16RegisteredAgain(t *testing.T) {
	m := newMember(t, pgtest.Schema(t), postgres.Options{}, Options{})
	e := buildOf(t, m.Server, oldPayload)
	cursor := pollFrom(t, m.Server, nil, "").Cursor
	emit(t, e, incident{ID: "0"})
	if err := m.Remove("e"); err != nil {
		t.Fatal(err)
	}
	buildOf(t, m.Server, oldPayload)
	if r := pollFrom(t, m.Server, cursor, ""); *r.Truncated || len(r.Events) != 1 {
		t.Fatalf("back: truncated %v, %v", *r.Truncated, r.ids())
	}
	buildOf(t, m.Server, narrowPayload)
	if r := pollFrom(t, m.Server, cursor, ""); !*r.Truncated || len(r.Events) != 0 {
		t.Fatalf("narrowed: truncated %v, %v", *r.Truncated, r.ids())
	}
	known, err := m.store.History(t.Context(), "e")
	if err != nil || len(known) != 2 || known[1].Floor != 1 {
		t.Fatalf("history %+v, %v", known, err)
	}
}
