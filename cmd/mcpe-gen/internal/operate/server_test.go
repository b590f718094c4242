package operate

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
)

// E1, E6, SRV-8: a server's operator pauses the subscriptions of a host, lets them go on, and has the events sent that
// were given up; each is in the audit log with its actor.
func TestManyAtServer(t *testing.T) {
	var refuse atomic.Bool
	var mu sync.Mutex
	came := map[string]int{} // by webhook-id
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		came[r.Header.Get("webhook-id")]++
	}))
	defer endpoint.Close()
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), server.Options{Operators: operators.New(), Logger: slog.New(slog.DiscardHandler),
		Webhooks: webhooks.New(webhooks.Options{Callbacks: callbacks.Options{AllowOrigins: []string{endpoint.URL}}, Retry: webhooks.Retry{Schedule: []time.Duration{0}}})})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := es.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	schema := json.RawMessage(`{"type":"object"}`)
	emit, err := server.Register(es, events.Type[struct{}, struct{}]{Info: events.Info{Name: "ping", Description: "A ping.", InputSchema: schema, PayloadSchema: schema}},
		server.Hooks[struct{}, struct{}]{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		_, err := es.Admin().Subscribe(t.Context(), operator.SubscribeRequest{SubscriptionKey: operator.SubscriptionKey{Principal: "ann", Event: "ping", URL: fmt.Sprint(endpoint.URL, "/", i)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	h, err := admin.NewHandler(es, admin.Options{Logger: slog.New(slog.DiscardHandler), Hosts: []string{"127.0.0.1"}, Authenticate: admin.Tokens(map[string]string{"olga": "secret"})})
	if err != nil {
		t.Fatal(err)
	}
	console := httptest.NewServer(h)
	defer console.Close()
	run := func(verb string, more ...string) string {
		t.Helper()
		var out strings.Builder
		o := Options{URL: console.URL, Token: "secret", Verb: verb, Rate: 1000, Wait: DefaultWait, Filters: map[string]string{"host": strings.TrimPrefix(endpoint.URL, "http://")}, From: map[string]string{}, Stdout: &out, Stderr: &out}
		if len(more) > 0 {
			o.From["since"] = more[0]
		}
		if err := Run(t.Context(), o); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		return out.String()
	}
	for _, verb := range []string{"pause", "unpause"} {
		for _, n := range []int{4, 0} {
			if got, want := run(verb), fmt.Sprintf("%s: %d done, 0 skipped, 0 failed\n", verb, n); got != want {
				t.Errorf("%s", got)
			}
		}
	}
	refuse.Store(true)
	for i := range 3 {
		if err := emit.Emit(t.Context(), struct{}{}, events.WithID(fmt.Sprint("evt_", i))); err != nil {
			t.Fatal(err)
		}
	}
	for deadline := time.Now().Add(time.Minute); ; {
		given, _, err := es.Admin().Abandoned(t.Context(), operator.Filter{}, time.Time{}, time.Time{}, "", 100)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("%d are given up, %v", len(given), err)
		}
		if len(given) == 12 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	refuse.Store(false)
	for _, n := range []int{12, 0} {
		if got, want := run("retry", "1h"), fmt.Sprintf("retry: %d done, 0 skipped, 0 failed\n", n); got != want {
			t.Errorf("%s", got)
		}
	}
	if got, want := run("replay", "1h"), "replay: 4 done, 0 skipped, 0 failed\n"; got != want {
		t.Errorf("%s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	for i := range 3 {
		if n := came[fmt.Sprint("evt_", i)]; n < 4 { // the replay may be on its way
			t.Errorf("evt_%d came %d times", i, n)
		}
	}
	entries, _, err := es.Admin().Audit(t.Context(), operator.AuditFilter{Actor: "olga", Principal: "ann"}, 0, 100)
	if err != nil || len(entries) != 4+4+12+4 || entries[0].Verb != "replay" || entries[23].Verb != "pause" {
		t.Errorf("%d entries: %+v %v", len(entries), entries, err)
	}
}
