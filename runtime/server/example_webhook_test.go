package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A server delivers by webhook to a callback on loopback, which only the option AllowOrigins makes
// reachable. The callback answers the challenge and verifies what it gets.
func ExampleOptions_webhooks() {
	ctx := context.Background()
	secret := webhook.NewSecret()
	arrived := make(chan string, 1)
	verifier := webhook.Verifier{Secrets: []webhook.Secret{secret}}
	callback := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if _, err := verifier.Verify(r.Header, body); err != nil {
			http.Error(w, "not for me", http.StatusBadRequest)
			return
		}
		var m struct{ Type, Challenge, EventID string }
		if json.Unmarshal(body, &m) != nil {
			return
		}
		if m.Type == wire.EnvelopeVerification {
			fmt.Fprintf(w, `{"challenge":%q}`, m.Challenge)
			return
		}
		arrived <- m.EventID
	}))
	defer callback.Close()
	roots := x509.NewCertPool()
	roots.AddCert(callback.Certificate())

	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{
		Webhooks: webhooks.New(webhooks.Options{
			Callbacks: callbacks.Options{AllowOrigins: []string{callback.URL}, TLS: &tls.Config{RootCAs: roots}},
		}),
		Operators: operators.New(),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer es.Shutdown(ctx)
	created, err := server.Register(es, incidentCreated, server.Hooks[arguments, payload]{})
	if err != nil {
		fmt.Println(err)
		return
	}

	params := fmt.Sprintf(`{"name":"incident.created","arguments":{"severity":"P1"},"delivery":{"mode":"webhook","url":%q,"secret":%q}}`,
		callback.URL+"/hook", secret.Text())
	if err := subscribe(ctx, es, "alice", params); err != nil {
		fmt.Println(err)
		return
	}
	for _, severity := range []string{"P2", "P1"} {
		if err := created.Emit(ctx, payload{IncidentID: "INC-1", Severity: severity}, events.WithID("evt_"+severity)); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("delivered", <-arrived)

	infos, err := es.Admin().List(ctx, "", 10)
	fmt.Println(len(infos), infos[0].Principal, infos[0].State, err)
	// Output:
	// delivered evt_P1
	// 1 alice active <nil>
}
