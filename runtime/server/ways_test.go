package server

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// TestVER1Ways accepts a callback by allow-list without a packet, by an operator's record, and by
// the origin's well-known document without a challenge (VER-1).
func TestVER1Ways(t *testing.T) {
	bubble(t, func(o *Options) {
		o.webhook().AllowReceivers = []string{"https://trusted.test", "https://partly.test:8443/hooks"}
	}, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		for _, u := range []string{"https://trusted.test/", "https://TRUSTED.test:443/any?x", "https://partly.test:8443/hooks", "https://partly.test:8443/hooks/1", "https://partly.test:8443/x/../hooks/1"} {
			w.subscribe("alice", params(u, secretA, ""))
		}
		if n := w.r.packets(); n != 0 {
			t.Errorf("%d connections for allowed receivers", n)
		}
		w.r.on(func(rw http.ResponseWriter, d *delivered) bool { rw.WriteHeader(500); return true })
		for _, u := range []string{"https://partly.test:8443/hooksevil", "https://partly.test/hooks", "https://partly.test:8443/hooks/../x", "https://sub.trusted.test/"} {
			if _, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(u, secretA, "")); rerr == nil {
				t.Errorf("%s is accepted", u)
			}
		}
		err := w.live().Store().PutVerification(t.Context(), store.Verification{Principal: "alice", URL: secure, Method: "stored"})
		if err != nil {
			t.Fatal(err)
		}
		w.subscribe("alice", params(secure, secretA, ""))
		if _, rerr := call(w.Server, "bob", wire.MethodSubscribe, params(secure, secretA, "")); rerr == nil {
			t.Error("VER-3: the record serves another principal")
		}
	})
	bubble(t, nil, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.r.on(func(rw http.ResponseWriter, d *delivered) bool { rw.WriteHeader(500); return d.body.Type != "" })
		w.r.document = func(rw http.ResponseWriter) {
			rw.Header().Set("Cache-Control", "max-age=600")
			fmt.Fprint(rw, `{"receivers":["/hooks/","/exact"],"later":1}`)
		}
		for i, c := range []struct {
			url string
			ok  bool
		}{{secure, true}, {"https://receiver.test/exact", true}, {"https://receiver.test/hooks/", true}, {"https://receiver.test/hooks", false},
			{"https://receiver.test/hooks/../admin", false}, {"https://receiver.test/hooks/%2e%2e/admin", false}, {"https://receiver.test/hooks%2Fx", false},
			{"https://receiver.test/", false}, {plain, false}} {
			_, rerr := call(w.Server, fmt.Sprint("p", i), wire.MethodSubscribe, params(c.url, secretA, ""))
			if (rerr == nil) != c.ok {
				t.Errorf("%s: %v, want accepted %v", c.url, rerr, c.ok)
			}
		}
		if w.r.fetched != 1 {
			t.Errorf("the document was fetched %d times", w.r.fetched)
		}
		w.settle(10 * time.Minute)
		w.r.document = nil
		if _, rerr := call(w.Server, "new", wire.MethodSubscribe, params(secure, secretA, "")); rerr == nil || w.r.fetched != 2 {
			t.Errorf("consent outlives its document: %v, fetched %d times", rerr, w.r.fetched)
		}
	})
}
