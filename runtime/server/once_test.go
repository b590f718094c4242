package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/metertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// eachStore runs f with every store that a server can have.
func eachStore(t *testing.T, f func(t *testing.T, s store.Store)) {
	t.Run("memory", func(t *testing.T) { f(t, memory.New()) })
	t.Run("sqlite", func(t *testing.T) {
		db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		f(t, db)
	})
}

// OCC-5: an emit under an id that the log retains for the same targets is not appended again,
// returns nil and is counted; with other data it is ErrIDReused.
func TestEmitOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, st store.Store) {
		m := &metertest.Meter{}
		s := newServer(t, Options{Store: st, Webhooks: webhooks.New(webhooks.Options{}), Telemetry: m.Recorder(nil)})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		start := pollFrom(t, s, nil, "").Cursor
		for range 3 {
			emit(t, e, incident{ID: "a", Severity: "P1"})
		}
		emit(t, e, incident{ID: "a", Severity: "P1"}, events.WithTimestamp(time.Unix(0, 0)), events.WithMeta(map[string]any{"k": 1}))
		err := e.Emit(t.Context(), incident{ID: "a", Severity: "P2"}, events.WithID("a"))
		if !errors.Is(err, events.ErrIDReused) || !strings.HasPrefix(err.Error(), "emitting e: ") {
			t.Errorf("other data: %v", err)
		}
		repeats := func() int64 {
			return m.Counted()["mcp.events.emit.calls mcp.events.outcome=repeated,mcp.events.type=e"]
		}
		if n := repeats(); n != 3 {
			t.Errorf("%d repeats were counted", n)
		}
		r := pollFrom(t, s, start, "")
		wantStrings(t, "polled", r.ids(), "a")
		// The same id for others is another occurrence; the order of targets means nothing.
		for range 2 {
			for _, to := range [][]string{{"sub_1"}, {"sub_1", "sub_2"}, {"sub_2", "sub_1"}} {
				if err := e.Emit(t.Context(), incident{ID: "a"}, events.To(to...), events.WithID("a")); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := e.Emit(t.Context(), incident{ID: "b"}, events.To("sub_2", "sub_1"), events.WithID("a")); !errors.Is(err, events.ErrIDReused) {
			t.Errorf("other data for the same targets: %v", err)
		}
		if _, head := e.et.topic.Bounds(); head != 3 || repeats() != 3+4 {
			t.Errorf("head %d, %d repeats", head, repeats())
		}
		// A generated id is an id like any other once it is known; without one nothing is a repeat.
		for range 2 {
			if err := e.Emit(t.Context(), incident{ID: "gen"}); err != nil {
				t.Fatal(err)
			}
		}
		r = pollFrom(t, s, r.Cursor, "")
		if len(r.Events) != 2 {
			t.Fatalf("%d events", len(r.Events))
		}
		if err := e.Emit(t.Context(), incident{ID: "gen"}, events.WithID(r.ids()[0])); err != nil {
			t.Fatal(err)
		}
		if r := pollFrom(t, s, r.Cursor, ""); len(r.Events) != 0 {
			t.Errorf("a known generated id was emitted again: %q", r.ids())
		}
	})
}

// OCC-5: of Emits of one id at once, one appends.
func TestEmitOnceConcurrent(t *testing.T) {
	eachStore(t, func(t *testing.T, st store.Store) {
		s := newServer(t, Options{Operators: operators.New(), Store: st})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		start := pollFrom(t, s, nil, "").Cursor
		var want []string
		for i := range 20 {
			id := fmt.Sprintf("i%02d", i)
			want = append(want, id)
			var wg sync.WaitGroup
			for range 6 {
				wg.Go(func() { emit(t, e, incident{ID: id}) })
			}
			wg.Wait()
		}
		wantStrings(t, "polled", pollFrom(t, s, start, "").ids(), want...)
	})
}

// OCC-5: marks of raised gaps are no author's emits: each gives a cursor that is new, and an author
// may emit under any id after them.
func TestEmitOnceAndGapMarks(t *testing.T) {
	eachStore(t, func(t *testing.T, st store.Store) {
		s := newServer(t, Options{Operators: operators.New(), Store: st})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		seen := map[string]bool{}
		for range 3 {
			c := *pollFrom(t, s, nil, "").Cursor
			if seen[c] {
				t.Fatal("a cursor came again")
			}
			seen[c] = true
			if _, err := s.Admin().RaiseGap(t.Context(), operator.Target{Event: "e"}); err != nil {
				t.Fatal(err)
			}
		}
		c := pollFrom(t, s, nil, "").Cursor
		for _, id := range []string{"gap", "type"} {
			if err := e.Emit(t.Context(), incident{ID: id}, events.To("-"), events.WithID(id)); err != nil {
				t.Error(err)
			}
			emit(t, e, incident{ID: id})
		}
		wantStrings(t, "polled", pollFrom(t, s, c, "").ids(), "gap", "type")
	})
}

// OCC-5, EVOL-2: what was emitted under schemas that were changed incompatibly does not count.
func TestEmitOnceRedefined(t *testing.T) {
	eachStore(t, func(t *testing.T, st store.Store) {
		s := newServer(t, Options{Operators: operators.New(), Store: st})
		e := register(t, s, "e", Hooks[filterArgs, incident]{})
		emit(t, e, incident{ID: "a"})
		typ := incidentType("e")
		typ.PayloadSchema = json.RawMessage(strings.Replace(incidentSchema, `"id":{"type":"string"}`, `"id":{"type":"string","maxLength":5}`, 1))
		typ.PayloadSchema = json.RawMessage(strings.Replace(string(typ.PayloadSchema), `"severity":{"type":"string"}`, `"severity":{"type":"integer"}`, 1))
		e, err := Register(s, typ, Hooks[filterArgs, incident]{})
		if err != nil {
			t.Fatal(err)
		}
		c := pollFrom(t, s, nil, "").Cursor
		for range 2 {
			emit(t, e, incident{ID: "a", Service: "web"})
		}
		wantStrings(t, "polled", pollFrom(t, s, c, "").ids(), "a")
		if err := e.Emit(t.Context(), incident{ID: "a"}, events.WithID("a")); !errors.Is(err, events.ErrIDReused) {
			t.Errorf("other data: %v", err)
		}
	})
}

// OCC-5, SRV-1: an emit that fails does not take back that its id came by emitting before.
func TestEmitOnceBoth(t *testing.T) {
	s := newServer(t, Options{Operators: operators.New()})
	m := &mailbox{}
	e, err := RegisterBoth(s, incidentType("e"), m.check, Hooks[filterArgs, incident]{})
	if err != nil {
		t.Fatal(err)
	}
	c := pollFrom(t, s, nil, "").Cursor
	emit(t, e, incident{ID: "a"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.Emit(ctx, incident{ID: "a"}, events.WithID("a")); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := e.Emit(t.Context(), incident{ID: "a", Level: 1}, events.WithID("a")); !errors.Is(err, events.ErrIDReused) {
		t.Fatal(err)
	}
	emit(t, e, incident{ID: "a"})
	m.put("", mail("a"))
	var got []string
	for range 3 {
		r := pollFrom(t, s, c, "")
		got, c = append(got, r.ids()...), r.Cursor
	}
	wantStrings(t, "polled", got, "a")
}
