package transport

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// MCPE-NOTE-5: HTTP+SSE carries a session's calls, and what adapters send to it after their replies.
// Its peer is remote.
func TestSSEHandler(t *testing.T) {
	g := newRig(t, server.Options{})
	local := make(chan bool, 1)
	g.callers(func(c port.Caller) {
		c.AfterReply(func() { port.Of(g.es).Send(c.Session, hello("1")) })
		local <- c.Local
	})
	ts := httptest.NewServer(NewSSEHandler(g.srv, g.es, nil))
	defer func() { g.stop(); ts.CloseClientConnections(); ts.Close(); ts.Client().CloseIdleConnections() }()
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, ts.URL+"/sse", nil)
	resp, err := ts.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	f := feedOf(t, resp, cancel)
	endpoint := ts.URL + f.next()
	post := func(body string) int {
		t.Helper()
		resp, err := ts.Client().Post(endpoint, contentTypeJSON, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	post(initializeRequest("2024-11-05"))
	f.want("")
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	post(`{"jsonrpc":"2.0","id":5.50,"method":"tools/call","params":{"name":"noop","arguments":{}}}`)
	if got := f.want(""); string(got.id) != "5.50" /* CAP-6 */ || got.result == nil {
		t.Errorf("reply %s %s", got.id, got.error)
	}
	if got := f.want("test/hello"); string(got.params) != `{"n":1}` {
		t.Errorf("got %s", got.params)
	}
	if <-local {
		t.Error("a peer over HTTP passes for a local one")
	}
	f.cancel()
	f.over()
	for _, c := range []struct {
		method, url, kind string
		status            int
	}{
		{http.MethodPost, ts.URL + "/sse", contentTypeJSON, http.StatusNotFound},
		{http.MethodPost, endpoint, "text/plain", http.StatusUnsupportedMediaType},
		{http.MethodDelete, endpoint, contentTypeJSON, http.StatusMethodNotAllowed},
	} {
		req, _ := http.NewRequest(c.method, c.url, strings.NewReader(`{}`))
		req.Header.Set("Content-Type", c.kind)
		resp, err := ts.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s %s: %d, want %d", c.method, c.url, resp.StatusCode, c.status)
		}
	}
}

// The SDK's own client of HTTP+SSE finds nothing missing.
func TestSSEHandlerWithTheSDKsClient(t *testing.T) {
	g := newRig(t, server.Options{})
	ts := httptest.NewServer(NewSSEHandler(g.srv, g.es, nil))
	defer func() { g.stop(); ts.CloseClientConnections(); ts.Close(); ts.Client().CloseIdleConnections() }()
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: ts.URL, HTTPClient: ts.Client()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "noop", Arguments: map[string]any{}}); err != nil {
		t.Error(err)
	}
	cs.Close()
}
