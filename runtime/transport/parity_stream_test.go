package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// PUSH-11: what the SDK refuses of events/poll it refuses of events/stream, with the same status
// and code, before anything is opened.
func TestStreamBehindTheSameChecks(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[3]
	c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{MaxBody: 64 << 10})))
	for _, row := range parityRows() {
		if row.direct || row.status == http.StatusOK || row.method != "" {
			continue
		}
		if row.header[headerMethod] == wire.MethodStream { // made for the others
			continue
		}
		t.Run(row.name, func(t *testing.T) {
			if row.body == nil {
				row.body = withParams(`{"name":"tick"}`)
			}
			var got [2]string
			for i, method := range []string{wire.MethodPoll, wire.MethodStream} {
				header := map[string]string{headerVersion: m.version, headerMethod: method}
				for k, v := range row.header {
					header[k] = v
				}
				resp := c.post(context.Background(), row.body(method), header)
				a, form := answerOf(t, resp)
				code := "none"
				if message, ok := a.Message.(map[string]any); ok {
					code = fmt.Sprint(message["error"].(map[string]any)["code"])
				}
				got[i] = fmt.Sprintf("%d %s %s", a.Status, code, form)
			}
			if got[0] != got[1] {
				t.Errorf("poll %q, stream %q", got[0], got[1])
			}
		})
	}
	if len(g.opened) > 0 {
		t.Error("a stream was opened")
	}
}

// A legacy stream is bound to its session and the session's user.
func TestStreamBoundToItsSession(t *testing.T) {
	httpModes(t, func(t *testing.T, m mode) {
		if m.modern() {
			return
		}
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{}).(*httpClient)
		for name, row := range map[string]struct {
			header map[string]string
			status int
		}{
			"unknown session":  {map[string]string{"Mcp-Session-Id": "zzz"}, 404},
			"another user":     {map[string]string{"Authorization": "Bearer bob"}, 403},
			"no token":         {map[string]string{"Authorization": "-"}, 401},
			"stateless header": {map[string]string{headerVersion: wire.RevisionStateless, headerMethod: wire.MethodStream}, 400},
			"unknown version":  {map[string]string{headerVersion: "2024-01-01"}, 400},
			"no session":       {map[string]string{"Mcp-Session-Id": "-"}, 200}, // with an error: not initialized
		} {
			if m.overlay && name == "no session" {
				continue // next answers a ping without a session
			}
			resp := c.post(context.Background(), m.request(`1`, wire.MethodStream, `{"name":"tick"}`), row.header)
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			events := mediaType(resp.Header.Get("Content-Type")) == sse.ContentType // as the SDK writes a JSON-RPC error
			if resp.StatusCode != row.status || events != (row.status == 200) {
				t.Errorf("%s: %s %s %s", name, resp.Status, resp.Header.Get("Content-Type"), body)
			}
		}
		if len(g.opened) > 0 {
			t.Error("a stream was opened")
		}
	})
}

// Legacy revisions without sessions, as Streamable.Stateless makes them, carry streams as well, and
// promise no list_changed.
func TestLegacyWithoutSessions(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[2]
	c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{Streamable: &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true}})))
	if got := string(port.Of(g.es).Capabilities(false)); got != `{"listChanged":false}` {
		t.Errorf("capability %s", got)
	}
	f := c.stream(`1`, `{"name":"tick"}`)
	f.want(wire.NotificationActive)
	g.emit(1)
	f.want(wire.NotificationEvent)
	f.cancel()
	recv(t, g.ended, "freed")
}

// CLI-9, D1: the SDK's own client works with the front and with Run, and is not disturbed by
// notifications that it does not know.
func TestStockClient(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		changed := make(chan struct{}, 10)
		client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
		})
		var transport mcp.Transport
		if m.http {
			ts := g.listen(m, NewHandler(g.es, HandlerOptions{}))
			transport = &mcp.StreamableClientTransport{Endpoint: ts.URL, HTTPClient: ts.Client()}
		} else {
			a, b := mcp.NewInMemoryTransports()
			ctx, cancel := context.WithCancel(context.Background())
			ran := make(chan error, 1)
			go func() { ran <- Run(ctx, g.es, a) }()
			defer func() { cancel(); <-ran }()
			transport = b
		}
		ctx := context.Background()
		cs, err := client.Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: m.version})
		if err != nil {
			t.Fatal(err)
		}
		defer cs.Close()
		if got := cs.InitializeResult(); got.ProtocolVersion != m.version || got.Capabilities.Extensions[wire.ExtensionID] == nil {
			t.Errorf("initialized %+v", got)
		}
		if err := mcp.AddSendingCustomMethod[*rawParams, *rawResult](client, wire.MethodList); err != nil {
			t.Fatal(err)
		}
		g.addType("tock")
		for range 3 {
			if _, err := mcp.CallCustomMethod[*rawParams, *rawResult](ctx, cs, wire.MethodList, &rawParams{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "noop"}); err != nil {
			t.Fatal(err)
		}
		mcp.AddTool(g.srv, &mcp.Tool{Name: "more"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
		recv(t, changed, "tools/list_changed")
	})
}
