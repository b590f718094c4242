package server

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/cluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// REP-13: a process that was cut off for longer than orders are retained asks the hooks again for all
// that is live, and reads the lasting states.
func TestREP13MissedOrders(t *testing.T) {
	schema := pgtest.Schema(t)
	var allowed atomic.Bool
	allowed.Store(true)
	o := Options{Authorize: func(context.Context, string, string, json.RawMessage) error {
		if !allowed.Load() {
			return events.Forbidden("no")
		}
		return nil
	}}
	a, b := newMember(t, schema, postgres.Options{}, Options{}), newMember(t, schema, deaf, o)
	for _, m := range []member{a, b} {
		register(t, m.Server, "e", Hooks[filterArgs, incident]{})
		register(t, m.Server, "f", Hooks[filterArgs, incident]{})
	}
	l, f := streamAs(t, b.Server, "ann", `{"name":"e"}`), streamAs(t, b.Server, "bob", `{"name":"f"}`)
	waitUntil(t, "active", func() bool { return len(l.frames()) > 0 && len(f.frames()) > 0 })
	if err := a.Reauthorize(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Admin().Terminate(t.Context(), operator.Target{Event: "f"}, events.Forbidden("closed")); err != nil {
		t.Fatal(err)
	}
	allowed.Store(false)
	// Retention deletes what b has not read; then it looks.
	pgtest.Exec(t, pgtest.URL(t), fmt.Sprintf(`UPDATE %s.logs SET kept = head WHERE name = '/control'`, schema),
		fmt.Sprintf(`DELETE FROM %s.entries e USING %[1]s.logs l WHERE e.log = l.id AND l.name = '/control'`, schema))
	log, err := b.processes().(*cluster.Many).EventLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.(engine.Log).CatchUp(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := a.RefreshVisibility(t.Context()); err != nil { // an order that wakes b
		t.Fatal(err)
	}
	if _, err := log.(engine.Log).CatchUp(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	<-l.done
	<-f.done
	if got := f.frames(); got[len(got)-1].method != wire.NotificationTerminated {
		t.Errorf("got %v", f.shorts())
	}
	waitUntil(t, "the type is closed", func() bool { return b.types["f"].Refuses() != nil })
}
