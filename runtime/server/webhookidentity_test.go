package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/metertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// TestHOOK10Identity signs deliveries and challenges with the server's key too, and publishes it
// (HOOK-2, HOOK-10).
func TestHOOK10Identity(t *testing.T) {
	key, err := webhook.ParseSigningKey("whsk_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := webhook.NewIdentity(key)
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, func(o *Options) { o.webhook().Identity = identity }, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		rec := httptest.NewRecorder()
		w.KeySet().ServeHTTP(rec, httptest.NewRequest("GET", KeySetPath, nil))
		keys, err := webhook.ParseKeySet(rec.Body.Bytes())
		if err != nil || len(keys) != 1 {
			t.Fatal(keys, err, rec.Body.String())
		}
		for _, d := range append(w.r.all(), w.r.challenges()...) {
			if _, err := (webhook.Verifier{Keys: keys}).Verify(d.header, d.raw); err != nil || !d.signedBy(secretA) {
				t.Errorf("%s: %v %v", d.short(), err, d.header)
			}
		}
	})
}

// TestVerificationMetric counts verifications by method and outcome.
func TestVerificationMetric(t *testing.T) {
	m := &metertest.Meter{}
	bubble(t, func(o *Options) { o.Telemetry = m.Recorder(nil) }, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))
		w.r.on(refuseAll)
		call(w.Server, "bob", wire.MethodSubscribe, params(plain, secretA, ""))
		w.r.document = func(rw http.ResponseWriter) { fmt.Fprint(rw, `{"receivers":["/"]}`) }
		w.subscribe("carol", params(secure, secretA, ""))
		for _, of := range []string{"mcp.events.outcome=verified,mcp.events.verification=challenge", "mcp.events.outcome=verified,mcp.events.verification=well-known",
			"error.type=challenge_failed,mcp.events.outcome=refused,mcp.events.verification=challenge"} {
			if n := m.Counted()["mcp.events.webhook.verifications "+of]; n != 1 {
				t.Errorf("%s: %d of %v", of, n, m.Counted())
			}
		}
	})
}
