package server

import (
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// durableMemory is a memory store that claims to survive.
type durableMemory struct{ *memory.Store }

func (durableMemory) Durable() bool { return true }

// TestSUB10Principals keeps two principals with one callback and one filter apart (SUB-10).
func TestSUB10Principals(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
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
	}, func(t *testing.T, w *world) {
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
