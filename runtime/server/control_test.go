package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// REP-13: what an operator asks one process for happens to the streams of all, once each.
func TestREP13OrdersReachEveryProcess(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, a *Server, allowed, visible *atomic.Bool) error
		want string // the last frame of the streams of "ann"
		ends bool
	}{
		{"revoke", func(t *testing.T, a *Server, _, _ *atomic.Bool) error { return a.Revoke(t.Context(), "ann", "e") }, wire.NotificationTerminated, true},
		{"recheck", func(t *testing.T, a *Server, allowed, _ *atomic.Bool) error {
			allowed.Store(false)
			return a.Recheck(t.Context(), "ann")
		}, wire.NotificationTerminated, true},
		{"visibility", func(t *testing.T, a *Server, _, visible *atomic.Bool) error {
			visible.Store(false)
			return a.RefreshVisibility(t.Context())
		}, wire.NotificationTerminated, true},
		{"error", func(t *testing.T, a *Server, _, _ *atomic.Bool) error {
			n, err := a.Admin().RaiseError(t.Context(), Target{Event: "e"}, events.Upstream("slow"))
			if n != 2 {
				t.Errorf("%d streams here", n)
			}
			return err
		}, wire.NotificationError, false},
		{"gap", func(t *testing.T, a *Server, _, _ *atomic.Bool) error {
			_, err := a.Admin().RaiseGap(t.Context(), Target{Event: "e"})
			return err
		}, wire.NotificationActive, false},
		{"terminate", func(t *testing.T, a *Server, _, _ *atomic.Bool) error {
			_, err := a.Admin().Terminate(t.Context(), Target{Event: "e"}, events.Forbidden("closed"))
			return err
		}, wire.NotificationTerminated, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			schema := pgtest.Schema(t)
			var allowed, visible atomic.Bool
			allowed.Store(true)
			visible.Store(true)
			o := Options{Authorize: func(_ context.Context, principal, _ string, _ json.RawMessage) error {
				if principal == "ann" && !allowed.Load() {
					return events.Forbidden("no")
				}
				return nil
			}, Visible: func(_ context.Context, principal, _ string) bool { return principal != "ann" || visible.Load() }}
			var members []member
			var anns, bobs []*live
			for i := range 3 {
				so := postgres.Options{}
				if i == 2 {
					so = eager
				}
				m := newMember(t, schema, so, o)
				register(t, m.Server, "e", Hooks[filterArgs, incident]{})
				members = append(members, m)
				anns = append(anns, streamAs(t, m.Server, "ann", `{"name":"e"}`))
				bobs = append(bobs, streamAs(t, m.Server, "bob", `{"name":"e"}`))
			}
			for _, l := range append(anns, bobs...) {
				waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
			}
			if err := c.do(t, members[0].Server, &allowed, &visible); err != nil {
				t.Fatal(err)
			}
			for _, l := range anns {
				waitUntil(t, "the signal", func() bool { return len(l.frames()) >= 2 })
			}
			time.Sleep(50 * time.Millisecond) // a second one would come now
			for i, l := range anns {
				f := l.frames()
				if len(f) != 2 || f[1].method != c.want {
					t.Errorf("replica %d: %v", i, l.shorts())
				}
				if c.name == "gap" && (!f[1].params.Truncated || *f[1].params.Cursor == *f[0].params.Cursor) {
					t.Errorf("replica %d: active %v", i, f[1].raw)
				}
				if c.ends {
					<-l.done
				}
			}
			all := c.name == "error" || c.name == "gap" || c.name == "terminate"
			for i, l := range bobs {
				if got := len(l.frames()) == 2; got != all {
					t.Errorf("bob's stream at replica %d: %v", i, l.shorts())
				}
			}
		})
	}
}

// REP-13: a type that was terminated is closed in every process, after the crash of the one that was
// asked and in one that starts later, until one registers it again while it serves.
func TestREP13ATerminatedTypeStaysClosed(t *testing.T) {
	schema := pgtest.Schema(t)
	open := func() *Server {
		s := newMember(t, schema, postgres.Options{}, Options{}).Server
		register(t, s, "e", Hooks[filterArgs, incident]{})
		return s
	}
	refuses := func(s *Server) bool {
		_, rerr := call(s, "", wire.MethodPoll, `{"name":"e"}`)
		return rerr != nil && rerr.Code == -32012 && string(rerr.Data) == `{"reason":"closed"}`
	}
	a, b := open(), open()
	if _, err := a.Admin().Terminate(t.Context(), Target{Event: "e"}, events.Forbidden("closed")); err != nil {
		t.Fatal(err)
	}
	if !refuses(a) {
		t.Fatal("it is open where it was terminated")
	}
	if err := a.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "closed at the other", func() bool { return refuses(b) })
	c := open()
	if !refuses(c) {
		t.Fatal("it is open in a process that starts later")
	}
	register(t, c, "e", Hooks[filterArgs, incident]{})
	if refuses(c) {
		t.Fatal("registering it again does not open it")
	}
	waitUntil(t, "open at the other", func() bool { return !refuses(b) })
	if refuses(open()) {
		t.Fatal("it is closed in a process that starts after that")
	}
}

// REP-13: a target by id may live in another process: that is no error, and happens there.
func TestREP13TargetsElsewhere(t *testing.T) {
	schema := pgtest.Schema(t)
	a, b := newMember(t, schema, postgres.Options{}, Options{}), newMember(t, schema, postgres.Options{}, Options{})
	register(t, a.Server, "e", Hooks[filterArgs, incident]{})
	register(t, b.Server, "e", Hooks[filterArgs, incident]{})
	l := streamAs(t, b.Server, "ann", `{"name":"e"}`)
	waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	id := b.Subscriptions()[0].ID
	if _, err := a.Admin().RaiseError(t.Context(), Target{ID: id}, events.Upstream("slow")); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the error", func() bool { return len(l.frames()) == 2 })
	if _, err := a.Admin().RaiseGap(t.Context(), Target{ID: id}); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "the gap", func() bool { return len(l.frames()) == 3 })
	if f := l.frames(); !f[2].params.Truncated || *f[2].params.Cursor == *f[0].params.Cursor {
		t.Errorf("active: %s", f[2].raw)
	}
	if _, err := a.Admin().Terminate(t.Context(), Target{ID: id}, nil); err != nil {
		t.Fatal(err)
	}
	<-l.done
	if _, err := a.Admin().RaiseError(t.Context(), Target{Event: "unknown"}, events.Upstream("slow")); !errors.Is(err, events.ErrNotFound) {
		t.Errorf("an unknown type: %v", err)
	}
}

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
	if err := a.Recheck(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Admin().Terminate(t.Context(), Target{Event: "f"}, events.Forbidden("closed")); err != nil {
		t.Fatal(err)
	}
	allowed.Store(false)
	// Retention deletes what b has not read; then it looks.
	pgtest.Exec(t, pgtest.URL(t), fmt.Sprintf(`UPDATE %s.logs SET kept = head WHERE name = '/control'`, schema),
		fmt.Sprintf(`DELETE FROM %s.entries e USING %[1]s.logs l WHERE e.log = l.id AND l.name = '/control'`, schema))
	log, _, err := b.control.at(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.(store.SharedLog).CatchUp(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := a.RefreshVisibility(t.Context()); err != nil { // an order that wakes b
		t.Fatal(err)
	}
	if _, err := log.(store.SharedLog).CatchUp(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	<-l.done
	<-f.done
	if got := f.frames(); got[len(got)-1].method != wire.NotificationTerminated {
		t.Errorf("got %v", f.shorts())
	}
	waitUntil(t, "the type is closed", func() bool { return b.types["f"].Refuses() != nil })
}

// REP-13: when the others cannot be told, the operator hears of it; here it has happened all the same.
func TestREP13OthersCannotBeTold(t *testing.T) {
	m := newMember(t, pgtest.Schema(t), postgres.Options{}, Options{})
	register(t, m.Server, "e", Hooks[filterArgs, incident]{})
	l := streamAs(t, m.Server, "ann", `{"name":"e"}`)
	waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	m.store.Close()
	if err := m.Revoke(t.Context(), "ann"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Revoke: %v", err)
	}
	<-l.done
	if _, err := m.Admin().RevokePrincipal(t.Context(), "ann"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("RevokePrincipal: %v", err)
	}
	if _, err := m.Admin().Terminate(t.Context(), Target{Event: "e"}, nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("Terminate: %v", err)
	}
}

// REP-13: what only emits can give orders, too.
func TestREP13OrdersOfAWorker(t *testing.T) {
	schema := pgtest.Schema(t)
	m := newMember(t, schema, postgres.Options{}, Options{})
	register(t, m.Server, "e", Hooks[filterArgs, incident]{})
	l := streamAs(t, m.Server, "ann", `{"name":"e"}`)
	waitUntil(t, "active", func() bool { return len(l.frames()) > 0 })
	worker, _ := newEmitOnly(t, schema, Options{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if err := worker.Revoke(t.Context(), "ann"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	<-l.done
}
