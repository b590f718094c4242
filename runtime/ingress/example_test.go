package ingress_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

type pushed struct {
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
}

// Generated code holds the description, and a struct with a method that makes the handler of all event types
// that come from one service.
var push = events.Info{
	Name:        "push",
	Description: "Commits were pushed.",
	InputSchema: json.RawMessage(`{"type":"object"}`),
	PayloadSchema: json.RawMessage(`{"type":"object","properties":{"repository":{"type":"string"},"ref":{"type":"string"}},` +
		`"required":["repository","ref"]}`),
}

// A webhook of GitHub becomes an event; sent again, it is the same one.
func Example() {
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "hooks", Version: "1"}, nil), server.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer es.Shutdown(context.Background())
	emitter, err := server.Register(es, events.Type[struct{}, pushed]{Info: push}, server.Hooks[struct{}, pushed]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	service, err := ingress.NewGitHub(ingress.GitHubOptions{Secrets: []string{"of the webhook"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	handler, err := ingress.NewHandler(service, ingress.Options{}, ingress.To(emitter, push, ingress.From{
		Provider: ingress.ProviderGitHub, Event: "push",
		Fields: []ingress.Field{{Target: "/repository", Source: "/repository/full_name"}, {Target: "/ref", Source: "/ref"}},
	}))
	if err != nil {
		fmt.Println(err)
		return
	}

	// What GitHub does.
	send := func(secret string) int {
		const body = `{"ref":"refs/heads/main","repository":{"full_name":"octo/demo"},"pusher":{"name":"ada"}}`
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		r := httptest.NewRequest(http.MethodPost, "/github", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-GitHub-Event", "push")
		r.Header.Set("X-GitHub-Delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958")
		r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code
	}
	fmt.Println(send("of the webhook"), send("of the webhook"), send("guessed"))
	// Output: 204 204 401
}
