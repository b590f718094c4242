package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// durableMemory is a memory store that claims to survive.
type durableMemory struct{ *memory.Store }

func (durableMemory) Durable() bool { return true }

// TestSUB5Refresh refreshes with another secret: deliveries are signed with both for the grace
// window, so that a receiver that knows only one accepts them, and with the new one after it
// (SUB-5, trap 6).
// subscriber.Subscriptions.refresh, ring.Of, ring.Stored and webhook.Ring.Rotate carry it.
func TestSUB5Refresh(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		first := w.subscribe("alice", params(plain, secretA, `,"ttlMs":3600000`))
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		second := w.subscribe("alice", params(plain, secretB, `,"ttlMs":3600000,"cursor":"ignored on a live subscription"`))
		if second.ID != first.ID || second.Truncated || second.until(t) != time.Hour || *second.Cursor == *first.Cursor {
			t.Errorf("refresh gave %+v after %+v", second, first)
		}
		if d := second.DeliveryStatus; d == nil || !d.Active || d.LastDeliveryAt == nil || d.LastError != nil || d.FailedSince != nil {
			t.Errorf("HOOK-8: %+v", d)
		}
		check := func(id string, old, current bool) {
			t.Helper()
			emit(t, e, incident{ID: id})
			w.settle(subscriber.ReplyTime)
			d := w.r.last()
			if d.short() != id || d.signedBy(secretA) != old || d.signedBy(secretB) != current {
				t.Errorf("%s: %s, old %v, new %v", id, d.header.Get("webhook-signature"), d.signedBy(secretA), d.signedBy(secretB))
			}
		}
		check("i2", true, true)
		w.subscribe("alice", params(plain, secretB, "")) // the same secret extends nothing
		w.settle(5*time.Minute - 2*subscriber.ReplyTime - time.Nanosecond)
		check("i3", true, true)
		w.settle(time.Second)
		check("i4", false, true)
		if n := len(w.r.challenges()); n != 1 {
			t.Errorf("VER-3: %d challenges", n)
		}
	})
}

// TestHOOK8DeliveryStatus suspends a subscription: the refresh that reactivates it reports the
// state that it found, the next one that it is active; what was emitted meanwhile is delivered, and
// suspended time does not eat the retry window (HOOK-5, HOOK-8, trap 13).
// delivery.Handle.Refresh and resume carry it.
func TestHOOK8DeliveryStatus(t *testing.T) {
	bubble(t, func(o *Options) {
		o.webhook().Retry.Suspend = webhooks.Suspension{Min: 3, Window: time.Hour, Span: -1}
		o.webhook().Retry.Schedule = []time.Duration{0, time.Second, time.Second, time.Second}
		o.webhook().Retry.Window = time.Minute
	}, func(w *world) {
		t := w.t
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		s := w.subscribe("alice", params(plain, secretA, ""))
		fails := func(rw http.ResponseWriter, d *delivered) bool {
			if d.body.Type != "" {
				return false
			}
			http.Error(rw, "nothing of this may leak", http.StatusBadGateway)
			return true
		}
		w.r.on(fails)
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Minute)
		if st, err := w.Admin().State(t.Context(), s.ID); st != operator.StateSuspended || err != nil {
			t.Fatalf("%s %v", st, err)
		}
		before := len(w.r.all())
		emit(t, e, incident{ID: "i2"})
		w.settle(10 * time.Minute)
		if n := len(w.r.all()); n != before {
			t.Errorf("%d deliveries while suspended", n-before)
		}
		w.r.on(nil)
		found := w.subscribe("alice", params(plain, secretA, ""))
		if d := found.DeliveryStatus; d == nil || d.Active || d.LastError == nil || *d.LastError != wire.HTTP5xx || d.FailedSince == nil {
			raw, _ := json.Marshal(d)
			t.Errorf("found %s", raw)
		}
		w.settle(time.Minute)
		got := strings.Join(w.r.shorts()[before:], " ")
		if got != "i1 i2" && got != "i2 i1" {
			t.Errorf("after the refresh: %s", got)
		}
		if d := w.subscribe("alice", params(plain, secretA, "")).DeliveryStatus; d == nil || !d.Active || d.FailedSince != nil || d.LastDeliveryAt == nil {
			t.Errorf("next: %+v", d)
		}
	})
}

// TestSUB10Principals keeps two principals with one callback and one filter apart (SUB-10).
func TestSUB10Principals(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		a, b := w.subscribe("alice", params(plain, secretA, "")), w.subscribe("bob", params(plain, secretB, ""))
		if a.ID == b.ID || b.DeliveryStatus != nil {
			t.Fatalf("%+v %+v", a, b)
		}
		w.unsubscribe("alice", plain)
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "i1")
		if d := w.r.last(); d.header.Get("X-MCP-Subscription-Id") != b.ID || d.signedBy(secretA) {
			t.Errorf("%v", d.header)
		}
	})
}

// TestSUB4Identity subscribes with arguments and URLs that are one key, and with others that are
// not, whatever they mean (SUB-4, trap 9).
func TestSUB4Identity(t *testing.T) {
	bubble(t, func(o *Options) {
		o.webhook().AllowReceivers = []string{"https://receiver.test", "https://RECEIVER.test:443"}
	}, func(w *world) {
		t := w.t
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		id := func(url, arguments string) string {
			t.Helper()
			more := ""
			if arguments != "" {
				more = `,"arguments":` + arguments
			}
			return w.subscribe("alice", params(url, secretA, more)).ID
		}
		for _, class := range [][]string{
			{"", "null", "{}", " { } "},
			{`{"minLevel":1}`, `{"minLevel":1.0}`, `{"minLevel":1e0}`, `{ "minLevel" : 10e-1 }`},
			{`{"severity":"P1","service":"ä"}`, `{"service":"\u00e4","severity":"\u0050\u0031"}`},
			{`{"service":"ä"}`},  // not normalized: another text is another key
			{`{"redact":false}`}, // a default is not filled in
		} {
			for _, other := range class[1:] {
				if id(secure, class[0]) != id(secure, other) {
					t.Errorf("%s and %s are two keys", class[0], other)
				}
			}
		}
		seen := map[string]string{}
		for _, u := range []string{secure, secure + "/", strings.Replace(secure, "receiver", "RECEIVER", 1), strings.Replace(secure, ".test", ".test:443", 1), secure + "?a", strings.Replace(secure, "hooks", "%68ooks", 1), strings.Replace(secure, ".test", ".test.", 1)} {
			got := id(u, "")
			if other, ok := seen[got]; ok {
				t.Errorf("%s and %s are one key", u, other)
			}
			seen[got] = u
		}
		if got := id(secure, ""); got != wire.SubscriptionID("webhook", "alice", secure, "e", []byte("{}")) || got != w.subscribe("alice", params(secure, secretB, `,"ttlMs":5,"maxAgeMs":1`)).ID {
			t.Error("the id is not that of the key")
		}
	})
}

// failingStore fails where it is told to.
type failingStore struct {
	*memory.Store
	fail atomic.Pointer[string] // the operation that fails
}

// TestStoreFailures acknowledges nothing that is not stored: each failure is an internal error
// without its text, and leaves an existing subscription as it was (ERR-2, ERR-4).
func TestStoreFailures(t *testing.T) {
	f := &failingStore{Store: memory.New()}
	bubble(t, func(o *Options) { o.Store = f }, func(w *world) {
		t := w.t
		hooks := &journal{}
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{
			OnSubscribe:   func(context.Context, Subscription, *filterArgs) error { hooks.add("on"); return nil },
			OnUnsubscribe: func(context.Context, Subscription, *filterArgs) { hooks.add("off") },
		})
		failing := func(op string) {
			f.fail.Store(&op)
		}
		for _, op := range []string{"verification", "put verification", "put"} {
			failing(op)
			_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(plain, secretA, ""))
			wantError(t, rerr, -32603, "")
			f.fail.Store(nil)
			w.nothingLeft(hooks)
		}
		w.subscribe("alice", params(plain, secretA, ""))
		for _, op := range []string{"put", "get", "verification"} {
			failing(op)
			_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(plain, secretB, ""))
			wantError(t, rerr, -32603, "")
		}
		for _, op := range []string{"get", "delete"} {
			failing(op)
			_, rerr := call(w.Server, "alice", wire.MethodUnsubscribe, `{"name":"e","delivery":{"url":"`+plain+`"}}`)
			wantError(t, rerr, -32603, "")
		}
		f.fail.Store(nil)
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		if d := w.r.last(); d.short() != "i1" || !d.signedBy(secretA) || d.signedBy(secretB) {
			t.Errorf("%s %v", d.short(), d.header)
		}
		w.unsubscribe("alice", plain)
		w.nothingLeft(hooks)
	})
}
