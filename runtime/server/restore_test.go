package server

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

func durably(o *Options) { o.Store = durableMemory{memory.New()} }

func refuseAll(rw http.ResponseWriter, d *delivered) bool {
	rw.WriteHeader(http.StatusServiceUnavailable)
	return true
}

// TestSUB11Restart restarts a server over its store: the subscription goes on by itself, with its
// secrets, its place, its verification and its code family, after OnSubscribe (SUB-11, SRV-3).
func TestSUB11Restart(t *testing.T) {
	bubble(t, func(o *Options) { durably(o); o.Codes = CodesAuto }, func(t *testing.T, w *world) {
		hooks := &journal{}
		h := Hooks[filterArgs, incident]{
			OnSubscribe: func(_ context.Context, s Subscription, a *filterArgs) error {
				hooks.add("on " + *a.Severity)
				return nil
			},
			OnUnsubscribe: func(context.Context, Subscription, *filterArgs) { hooks.add("off") },
		}
		e := register(t, w.Server, "e", h)
		p1 := params(plain, secretA, `,"arguments":{"severity":"P1"},"ttlMs":36000000`)
		raw, err := w.inside().Call(t.Context(), port.Request{Method: wire.MethodSubscribe, Params: []byte(p1), Principal: "alice", Stateless: true, DeclaresExtension: true})
		if err != nil {
			t.Fatal(err)
		}
		var s subscribed
		json.Unmarshal(raw, &s)
		_, err = w.inside().Call(t.Context(), port.Request{Method: wire.MethodSubscribe, Params: []byte(params(plain, secretB, `,"arguments":{"severity":"P1"},"ttlMs":36000000`)), Principal: "alice", Stateless: true, DeclaresExtension: true})
		if err != nil {
			t.Fatal(err)
		}
		w.r.on(refuseAll)
		emit(t, e, incident{ID: "i1", Severity: "P1"})
		emit(t, e, incident{ID: "other", Severity: "P2"})
		w.settle(time.Second)
		w.restart(nil)
		w.r.on(func(http.ResponseWriter, *delivered) bool { hooks.add("delivery"); return false })
		before := len(w.r.all())
		w.settle(10 * time.Second)
		if n := len(w.r.all()); n != before {
			t.Fatalf("%d deliveries before the type is registered", n-before)
		}
		e = register(t, w.Server, "e", h)
		w.settle(time.Second)
		emit(t, e, incident{ID: "i2", Severity: "P1"})
		w.settle(time.Minute)
		wantStrings(t, "delivered", w.r.shorts()[before:], "i1", "i2")
		for _, d := range w.r.all()[before:] {
			if !d.signedBy(secretA) || !d.signedBy(secretB) {
				t.Errorf("dual signing is lost: %v", d.header)
			}
		}
		wantStrings(t, "hooks", hooks.lines(), "on P1", "on P1", "delivery", "delivery")
		if i, err := w.Admin().Get(t.Context(), s.ID); err != nil || i.State != operator.StateActive || i.ExpiresAt.Sub(i.RefreshedAt).Round(time.Microsecond) != 10*time.Hour {
			t.Errorf("%+v %v", i, err)
		}
		w.subscribe("alice", p1)
		if n := len(w.r.challenges()); n != 1 {
			t.Errorf("verified again: %d challenges", n)
		}
		w.Revoke(t.Context(), "alice")
		w.settle(time.Second)
		if got := w.r.last().short(); got != `terminated -32012 Forbidden {"reason":"access revoked"}` {
			t.Errorf("D2: after a refresh by a caller without the extension: %s", got)
		}
	})
	bubble(t, func(o *Options) { durably(o); o.Codes = CodesAuto }, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		if _, err := w.inside().Call(t.Context(), port.Request{Method: wire.MethodSubscribe, Params: []byte(params(plain, secretA, "")), Principal: "alice", DeclaresExtension: true}); err != nil {
			t.Fatal(err)
		}
		w.restart(nil)
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.settle(time.Second)
		w.Revoke(t.Context(), "alice")
		w.settle(time.Second)
		wantStrings(t, "D2", w.r.shorts(), `terminated -32024 Forbidden {"reason":"access revoked"}`)
	})
}

// TestEVOLAtRestart registers a type with other schemas than the stored subscriptions were made
// under, or not at all (EVOL-1 to EVOL-3, SUB-11).
func TestEVOLAtRestart(t *testing.T) {
	changed := incidentType("e")
	changed.PayloadSchema = json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}},"required":["id"]}`)
	tightened := incidentType("e")
	tightened.InputSchema = json.RawMessage(`{"type":"object","properties":{"severity":{"type":"string","enum":["P1"]}},"additionalProperties":false}`)
	tightened.Match = filterRules[:1]
	widened := incidentType("e")
	widened.PayloadSchema = json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"severity":{"type":"string"},"service":{"type":"string"},` +
		`"level":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}},"secret":{"type":"string","maxLength":20},"note":{"type":"string"}},"required":["id"]}`)
	for _, c := range []struct {
		name string
		typ  *events.Type[filterArgs, incident]
		o    []TypeOption
		want []string
	}{
		{"EVOL-3 additive", &widened, nil, []string{"i1"}},
		{"EVOL-2 payloadSchema", &changed, nil, []string{`terminated -32014 Unsupported {"feature":"payloadSchema","reason":"schema_changed"}`}},
		{"EVOL-2 inputSchema", &tightened, nil, []string{`terminated -32014 Unsupported {"feature":"inputSchema","reason":"schema_changed"}`}},
		{"EVOL-1 not registered any more", nil, nil, []string{`terminated -32011 NotFound {"kind":"event"}`}},
		{"webhook is not offered any more", &widened, []TypeOption{WithoutWebhook()}, []string{`terminated -32014 Unsupported {"feature":"deliveryMode","value":"webhook"}`}},
	} {
		bubble(t, durably, func(t *testing.T, w *world) {
			e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
			w.subscribe("alice", params(plain, secretA, `,"ttlMs":7200000`))
			w.r.on(refuseAll)
			emit(t, e, incident{ID: "i1"})
			w.settle(time.Second)
			before := len(w.r.all())
			w.restart(nil)
			w.r.on(nil)
			if c.typ != nil {
				if _, err := Register(w.Server, *c.typ, Hooks[filterArgs, incident]{}, c.o...); err != nil {
					t.Fatal(err)
				}
			}
			w.settle(2 * time.Minute)
			if got := w.r.shorts()[before:]; !equalStrings(got, c.want) {
				t.Errorf("%s: delivered %q, want %q", c.name, got, c.want)
			}
			if n := len(w.Subscriptions()); (n == 1) != (len(c.want[0]) == 2) {
				t.Errorf("%s: %d live", c.name, n)
			}
			// What ended stays ended, and is told once.
			w.restart(nil)
			register(t, w.Server, "e", Hooks[filterArgs, incident]{})
			w.settle(2 * time.Minute)
			if c.name != "EVOL-3 additive" && len(w.r.shorts()) != before+1 {
				t.Errorf("%s: told again: %q", c.name, w.r.shorts()[before:])
			}
		})
	}
}

// restartStore counts what is read from its logs.
type restartStore struct {
	durableMemory
	reads, entries atomic.Int64
}

type restartLog struct {
	store.EventLog
	s *restartStore
}

func (s *restartStore) OpenLog(ctx context.Context, name string, o store.LogOptions) (store.EventLog, error) {
	l, err := s.durableMemory.OpenLog(ctx, name, o)
	return &restartLog{l, s}, err
}

func (l *restartLog) Read(ctx context.Context, after store.Position, limit int) (store.Batch, error) {
	b, err := l.EventLog.Read(ctx, after, limit)
	l.s.reads.Add(1)
	l.s.entries.Add(int64(len(b.Entries)))
	return b, err
}

// TestTrap15Restart has many subscriptions that nothing concerns: a restart reads nothing again
// for them, although they were begun long ago (trap 15).
func TestTrap15Restart(t *testing.T) {
	s := &restartStore{durableMemory: durableMemory{memory.New()}}
	bubble(t, func(o *Options) {
		o.Store = s
		o.webhook().AllowReceivers = []string{"http://receiver.test"}
		o.webhook().Quota = webhooks.Quota{PerPrincipal: -1}
	}, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		const n = 300
		for i := range n {
			w.subscribe("alice", params(plain, secretA, fmt.Sprintf(`,"ttlMs":7200000,"arguments":{"tag":"t%d"}`, i)))
		}
		w.settle(time.Second)
		s.reads.Store(0)
		for i := range 2000 {
			emit(t, e, incident{ID: fmt.Sprint("i", i), Tags: []string{"nobody's"}})
		}
		w.settle(time.Minute)
		if got := s.reads.Load(); got != 0 {
			t.Errorf("%d reads for events that concern nobody", got)
		}
		w.restart(nil)
		s.reads.Store(0)
		s.entries.Store(0)
		e = register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.settle(time.Minute)
		if got := s.entries.Load(); got > n {
			t.Errorf("a restart read %d entries again in %d reads", got, s.reads.Load())
		}
		emit(t, e, incident{ID: "last", Tags: []string{"t7"}})
		w.settle(time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "last")
	})
}

// TestRestartOfMemoryLog keeps the subscriptions but not the log, as for types without replay or a
// lost file: those with replay are told of the gap (CUR-1, D7).
func TestRestartOfMemoryLog(t *testing.T) {
	for _, noReplay := range []bool{false, true} {
		bubble(t, func(o *Options) { o.Store = &forgetfulStore{memory.New()} }, func(t *testing.T, w *world) {
			typ := incidentType("e")
			typ.NoReplay = noReplay
			e, err := Register(w.Server, typ, Hooks[filterArgs, incident]{})
			if err != nil {
				t.Fatal(err)
			}
			if s := w.subscribe("alice", params(plain, secretA, "")); (s.Cursor == nil) != noReplay {
				t.Errorf("CUR-3: %+v", s)
			}
			for i := range 5 {
				emit(t, e, incident{ID: fmt.Sprint("old", i)})
			}
			w.settle(time.Second)
			before := len(w.r.all())
			w.restart(nil)
			if e, err = Register(w.Server, typ, Hooks[filterArgs, incident]{}); err != nil {
				t.Fatal(err)
			}
			w.settle(time.Second)
			emit(t, e, incident{ID: "new"})
			w.settle(time.Second)
			want := []string{"gap", "new"}
			if noReplay {
				want = []string{"new"}
			}
			wantStrings(t, "delivered", w.r.shorts()[before:], want...)
			if s := w.subscribe("alice", params(plain, secretA, "")); s.Truncated == noReplay {
				t.Errorf("D7: %+v", s)
			}
		})
	}
}

// forgetfulStore keeps subscriptions and forgets logs.
type forgetfulStore struct{ *memory.Store }

func (*forgetfulStore) OpenLog(_ context.Context, _ string, o store.LogOptions) (store.EventLog, error) {
	return memory.NewLog(o), nil
}

// A bareStore is a store of a user's own: it has what the interfaces ask for and nothing else.
type bareStore struct {
	store.Store
	store.SubscriptionStore
}

// SUB-11, EVOL-1: webhooks of a server on a store of a user's own go on after a restart, and end with their event type.
func TestSUB11StoreOfOnesOwn(t *testing.T) {
	bubble(t, func(o *Options) {
		kept := memory.New()
		o.Store = bareStore{durableMemory{kept}, kept}
	}, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		register(t, w.Server, "gone", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))
		w.subscribe("alice", strings.Replace(params(plain, secretA, ""), `"name":"e"`, `"name":"gone"`, 1))
		w.r.on(refuseAll)
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		w.restart(nil)
		w.r.on(nil)
		before := len(w.r.all())
		e = register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		emit(t, e, incident{ID: "i2"})
		w.settle(30 * time.Second)
		wantStrings(t, "after a restart", slices.Sorted(slices.Values(w.r.shorts()[before:])), "i1", "i2")
		w.settle(time.Minute)
		if got := w.r.last().short(); !strings.Contains(got, "NotFound") {
			t.Errorf("of an event type that nobody registers: %s", got)
		}
		if r, err := w.Admin().List(t.Context(), "", 10); err != nil || len(r) != 1 || r[0].Event != "e" {
			t.Errorf("%+v %v", r, err)
		}
	})
}

// TestSUB11OperatorWhileRestoring acts on subscriptions that the restoring has yet to come to.
func TestSUB11OperatorWhileRestoring(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		var alice []subscribed
		for i := range 20 {
			alice = append(alice, w.subscribe("alice", params(plain, secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i))))
			w.subscribe("bob", params(plain, secretB, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i)))
		}
		emit(t, e, incident{ID: "i1", Level: 19})
		w.settle(time.Second)
		before := len(w.r.shorts())
		w.restart(nil)
		slow := make(chan struct{})
		register(t, w.Server, "e", Hooks[filterArgs, incident]{OnSubscribe: func(_ context.Context, sub Subscription, a *filterArgs) error {
			if *a.MinLevel < 15 || sub.Principal == "bob" {
				<-slow
			}
			return nil
		}})
		synctest.Wait()
		admin := w.Admin()
		if err := admin.End(t.Context(), alice[15].ID, nil); err != nil {
			t.Errorf("End: %v", err)
		}
		if n, err := admin.Terminate(t.Context(), operator.Target{ID: alice[16].ID}, nil); n != 1 || err != nil {
			t.Errorf("Terminate: %d, %v", n, err)
		}
		if n, err := admin.RaiseGap(t.Context(), operator.Target{ID: alice[17].ID}); n != 1 || err != nil {
			t.Errorf("RaiseGap: %d, %v", n, err)
		}
		if err := admin.Resume(t.Context(), alice[18].ID); err != nil {
			t.Errorf("Resume: %v", err)
		}
		if err := admin.Replay(t.Context(), alice[19].ID, *alice[19].Cursor, 0); err != nil {
			t.Errorf("Replay: %v", err)
		}
		w.settle(time.Second)
		if _, err := admin.RevokePrincipal(t.Context(), "bob"); err != nil {
			t.Errorf("RevokePrincipal: %v", err)
		}
		if _, err := admin.RaiseGap(t.Context(), operator.Target{Event: "e"}); err != nil {
			t.Errorf("RaiseGap of the type: %v", err)
		}
		close(slow)
		w.settle(time.Minute)
		if n := len(w.Subscriptions()); n != 18 {
			t.Errorf("%d subscriptions", n)
		}
		got := map[string]int{}
		for _, s := range w.r.shorts()[before:] {
			got[s]++
		}
		want := map[string]int{"i1": 1, "gap": 19, `terminated -32012 Forbidden {"reason":"access revoked"}`: 21,
			`terminated -32012 Forbidden {"reason":"terminated"}`: 1}
		if !maps.Equal(got, want) {
			t.Errorf("delivered %v, want %v", got, want)
		}
	})
}
