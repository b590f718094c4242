package behaviour

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/golden/ingress/want/hooksserver"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// The generated handler of an event file's `from:` emits what the fields say, and of a body that is the payload
// what the payload describes.
func TestGeneratedIngress(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "a", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer es.Shutdown(t.Context())
	opened, err := hooksserver.RegisterIssueOpened(es, hooksserver.IssueOpenedHooks{})
	if err != nil {
		t.Fatal(err)
	}
	push, err := hooksserver.RegisterPush(es, hooksserver.PushHooks{})
	if err != nil {
		t.Fatal(err)
	}
	service, err := ingress.NewGitHub(ingress.GitHubOptions{Secrets: []string{"of the webhook"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (hooksserver.GitHubIngress{Push: push}).Handler(service, ingress.Options{}); err == nil || !strings.Contains(err.Error(), "issue.opened") {
		t.Errorf("a forgotten emitter: %v", err)
	}
	handler, err := hooksserver.GitHubIngress{IssueOpened: opened, Push: push}.Handler(service, ingress.Options{})
	if err != nil {
		t.Fatal(err)
	}
	carrier := transport.NewHandler(es, transport.HandlerOptions{})
	poll := func(name string, cursor any) (r wire.PollResult) {
		params, _ := json.Marshal(map[string]any{"name": name, "cursor": cursor, "_meta": map[string]any{
			mcp.MetaKeyProtocolVersion: wire.RevisionStateless, mcp.MetaKeyClientInfo: &mcp.Implementation{Name: "c", Version: "1"}, mcp.MetaKeyClientCapabilities: map[string]any{}}})
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"events/poll","params":`+string(params)+`}`))
		for k, v := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
			"Mcp-Protocol-Version": wire.RevisionStateless, "Mcp-Method": wire.MethodPoll} {
			req.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		carrier.ServeHTTP(w, req)
		var answer struct{ Result wire.PollResult }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%s: %v", w.Body, err)
		}
		return answer.Result
	}
	for _, c := range []struct{ event, github, body, want string }{
		{"issue.opened", "issues", `{"action":"opened","repository":{"full_name":"a/b"},"issue":{"number":7,"milestone":null,"closed_at":null,"labels":[{"name":"bug"}]}}`,
			`{"repo":"a/b","issue":{"number":7},"labels":["bug"]}`},
		{"issue.opened", "issues", `{"action":"opened","repository":{"full_name":"a/b"},"issue":{"number":7,"milestone":{"title":null},"labels":[]}}`,
			`{"repo":"a/b","issue":{"number":7,"milestone":null},"labels":[]}`},
		{"push", "push", `{"ref":"refs/heads/main","forced":false,"commits":[1],"repository":{"id":1,"full_name":"a/b"}}`,
			`{"ref":"refs/heads/main","forced":false,"repository":{"full_name":"a/b"}}`},
	} {
		now := poll(c.event, nil).Cursor
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
		mac := hmac.New(sha256.New, []byte("of the webhook"))
		mac.Write([]byte(c.body))
		for k, v := range map[string]string{"Content-Type": "application/json", "X-GitHub-Event": c.github, "X-GitHub-Delivery": c.want,
			"X-Hub-Signature-256": "sha256=" + hex.EncodeToString(mac.Sum(nil))} {
			r.Header.Set(k, v)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if got := poll(c.event, now).Events; w.Code != http.StatusNoContent || len(got) != 1 || string(got[0].Data) != c.want {
			t.Errorf("status %d, received %+v, want %s", w.Code, got, c.want)
		}
	}
}
