package transport

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
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
	post(`{"jsonrpc":"2.0","id":"5.50","method":"tools/call","params":{"name":"noop","arguments":{}}}`)
	if got := f.want(""); string(got.id) != `"5.50"` || got.result == nil {
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

// An sseClient is one session over HTTP+SSE.
type sseClient struct {
	t        *testing.T
	hc       *http.Client
	endpoint string
	feed     *feed
}

// sse opens a session that speaks the oldest revision.
func (g *rig) sse(h http.Handler) *sseClient {
	g.t.Helper()
	ts := g.listen(modes[2], h)
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, ts.URL, nil)
	resp, err := ts.Client().Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	f := feedOf(g.t, resp, cancel)
	c := &sseClient{g.t.(*testing.T), ts.Client(), "http://127.0.0.1" + f.next(), f}
	c.post(http.StatusAccepted, initializeRequest("2024-11-05"))
	if got := f.want(""); !strings.Contains(string(got.result), "io.modelcontextprotocol/events") {
		g.t.Errorf("initialize advertises %s", got.result)
	}
	c.post(http.StatusAccepted, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

// post sends a message and returns the body of the answer to the POST.
func (c *sseClient) post(status int, body string) string {
	c.t.Helper()
	resp, err := c.hc.Post(c.endpoint, contentTypeJSON, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != status {
		c.t.Errorf("%.100s: %s %s", body, resp.Status, b)
	}
	return string(b)
}

// rpc calls and waits for the answer, which is the next message.
func (c *sseClient) rpc(id, method, params string) envelope {
	c.t.Helper()
	c.post(http.StatusAccepted, modes[0].request(id, method, params))
	got := c.feed.want("")
	if string(got.id) != id {
		c.t.Errorf("%s: id %s comes back as %s", method, id, got.id)
	}
	return got
}

// MCPE-NOTE-5, V6: what HTTP+SSE advertises works as on stdio: list, poll, stream with its cancel, held polls, the methods
// and notifications of adapters, and ids byte for byte.
func TestEventsOverSSE(t *testing.T) {
	g := newRig(t, server.Options{})
	method(t, g.srv, "x/said", func(context.Context) error { return nil })
	told := make(chan port.Notification, 10)
	port.Of(g.es).OnNotification("x/said", func(_ context.Context, n port.Notification) {
		told <- n
		port.Of(g.es).Send(n.Session, hello("5"))
	})
	c := g.sse(NewSSEHandler(g.srv, g.es, nil))
	if got := c.rpc(`1.0`, wire.MethodList, ""); !strings.Contains(string(got.result), `"tick"`) {
		t.Errorf("list: %s %s", got.result, got.error)
	}
	first := c.rpc(`"a\u0062"`, wire.MethodPoll, `{"name":"tick"}`)
	cursor := string(member(first.result, "cursor"))
	g.emit(1)
	if got := c.rpc(`9007199254740993`, wire.MethodPoll, `{"name":"tick","cursor":`+cursor+`}`); !strings.Contains(string(got.result), `"seq":1`) {
		t.Errorf("poll: %s %s", got.result, got.error)
	}
	if got := c.rpc(`2`, wire.MethodPoll, `{"name":"none"}`); errorOf(t, got).Code != -32011 {
		t.Errorf("poll of none: %s", got.error)
	}
	c.post(http.StatusAccepted, modes[0].request(`7.0`, wire.MethodStream, `{"name":"tick"}`))
	if got := c.feed.want(wire.NotificationActive); subscriptionID(got) != `7.0` {
		t.Errorf("active %s", got.params)
	}
	recv(t, g.opened, "the stream")
	for len(g.opened) > 0 {
		<-g.opened // of polls
	}
	g.emit(2)
	g.emit(3)
	for _, seq := range []string{"2", "3"} {
		if got := c.feed.want(wire.NotificationEvent); subscriptionID(got) != `7.0` || !strings.Contains(string(got.params), `"seq":`+seq) {
			t.Errorf("event %s", got.params)
		}
	}
	c.post(http.StatusAccepted, modes[0].request("", methodCancelled, cancelOf(`7`)))
	c.rpc(`3`, "tools/list", "{}") // the cancel is read
	g.emit(4)
	if got := c.rpc(`"x"`, "x/said", ""); got.result == nil { // and no event before it
		t.Errorf("an adapter's request: %s", got.error)
	}
	c.post(http.StatusAccepted, "{\n  \"jsonrpc\": \"2.0\",\r\n  \"method\": \"x/said\",\n  \"params\": {\"n\": 1}\n}\n")
	if n := recv(t, told, "an adapter's notification"); string(member(n.Params, "n")) != "1" || n.Session == "" {
		t.Errorf("%+v", n)
	}
	if got := c.feed.want("test/hello"); string(got.params) != `{"n":5}` {
		t.Errorf("the answer to a notification: %s", got.params)
	}
	c.post(http.StatusAccepted, modes[0].request(`8`, wire.MethodStream, `{"name":"tick"}`))
	c.feed.want(wire.NotificationActive)
	go g.stop()
	for {
		got := c.feed.want1()
		if got.method == "" {
			if string(got.id) != `8` || got.result == nil {
				t.Errorf("at the end of the server %s: %s %s", got.id, got.result, got.error)
			}
			break
		}
	}
	c.feed.over()
}

// What is no message is refused with the POST, and the session goes on; a cancelled call is not answered (POLL-9).
func TestSSERefusals(t *testing.T) { synctest.Test(t, sseRefusals) }

func sseRefusals(t *testing.T) {
	g, begun, over := newWaitRig(t, server.Options{})
	c := g.sse(NewSSEHandler(g.srv, g.es, &mcp.SSEOptions{MaxRequestBodyBytes: 2000}))
	for body, status := range map[string]int{
		``:  http.StatusBadRequest,
		`{`: http.StatusBadRequest,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`:                       http.StatusBadRequest,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}{}`:                       http.StatusBadRequest,
		`{"jsonrpc":"2.0","id":1,"method":"ping","id":2}`:                  http.StatusBadRequest,
		`{"jsonrpc":"2.0","id":1,"x":"` + strings.Repeat("x", 2000) + `"}`: http.StatusRequestEntityTooLarge,
	} {
		c.post(status, body)
	}
	c.post(http.StatusAccepted, modes[0].waitCall(`7`, `{"events":[{"name":"tick"}],"waitSeconds":55}`))
	recv(t, begun, "the call")
	c.post(http.StatusAccepted, modes[0].request(`7`, methodPing, ""))
	if got := errorOf(t, c.feed.want("")); got.Code != -32600 {
		t.Errorf("the id of an open call: %+v", got)
	}
	c.post(http.StatusAccepted, modes[0].request("", methodCancelled, cancelOf(`7`)))
	recv(t, over, "the call's end")
	synctest.Wait()
	if got := c.rpc(`8`, methodPing, ""); got.result == nil {
		t.Errorf("%s", got.error)
	}
	c.feed.cancel()
	c.feed.over()
	synctest.Wait()
	c.post(http.StatusNotFound, modes[0].request(`9`, methodPing, ""))
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

// SRV-6: a client that reads nothing holds neither the end of the server nor its handler.
func TestSSEStalledReader(t *testing.T) {
	g := newRig(t, server.Options{})
	h := NewSSEHandler(g.srv, g.es, nil)
	over := make(chan struct{})
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if r.Method == http.MethodGet {
			close(over)
		}
	}))
	defer func() { ts.CloseClientConnections(); ts.Close(); ts.Client().CloseIdleConnections() }()
	conn, err := net.Dial("tcp", ts.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /sse HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	head := make([]byte, 4096)
	var endpoint string
	for endpoint == "" {
		n, err := conn.Read(head)
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, ok := strings.Cut(string(head[:n]), sse.Head); ok {
			endpoint, _, _ = strings.Cut(rest, "\n")
		}
	}
	post := func(body string) {
		t.Helper()
		resp, err := ts.Client().Post(ts.URL+strings.TrimSpace(endpoint), contentTypeJSON, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	post(initializeRequest("2024-11-05"))
	post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	post(modes[0].request(`1`, wire.MethodStream, `{"name":"tick"}`))
	recv(t, g.opened, "the stream")
	note := strings.Repeat("x", 200<<10)
	for i := range 100 { // more than sockets hold
		if err := g.ticks.Emit(t.Context(), tickPayload{Seq: i, Note: note}); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(50 * time.Millisecond) // the socket fills up meanwhile, of which nothing tells
	began := time.Now()
	go g.stop()
	select {
	case <-over:
		t.Logf("ended after %v", time.Since(began))
	case <-time.After(patience):
		t.Error("the handler waits for a client that reads nothing")
	}
}

// AUTH-3: a call over HTTP+SSE belongs to the principal of its POST, for middleware, for the events methods and for tools.
// A POST of another principal than that of the GET is refused.
func TestSSEPrincipals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{})
		var seen []string
		g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				if x := req.GetExtra(); x != nil && x.TokenInfo != nil {
					seen = append(seen, method+" "+x.TokenInfo.UserID)
				}
				return next(ctx, method, req)
			}
		})
		mcp.AddTool(g.srv, &mcp.Tool{Name: "who"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: server.PrincipalOf(ctx)}}}, nil, nil
		})
		token := "ann"
		sse := NewSSEHandler(g.srv, g.es, nil)
		c := g.sse(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Authorization", "Bearer "+token)
			bearer(sse).ServeHTTP(w, r)
		}))
		if got := c.rpc(`1`, "tools/call", `{"name":"who","arguments":{}}`); !strings.Contains(string(got.result), `"ann"`) {
			t.Errorf("a tool: %s %s", got.result, got.error)
		}
		seen = nil
		if got := c.rpc(`2`, wire.MethodUnsubscribe, `{"name":"tick","delivery":{"mode":"webhook","url":"https://a.example"}}`); errorOf(t, got).Code == -32012 {
			t.Errorf("unsubscribe is forbidden: %s", got.error)
		}
		if want := []string{wire.MethodUnsubscribe + " ann"}; !slices.Equal(seen, want) {
			t.Errorf("middleware saw %q, want %q", seen, want)
		}
		c.post(http.StatusAccepted, modes[0].request(`3`, wire.MethodStream, `{"name":"tick"}`))
		c.feed.want(wire.NotificationActive)
		if subs := g.es.Subscriptions(); len(subs) != 1 || subs[0].Principal != "ann" {
			t.Errorf("%+v", subs)
		}
		token = "bob"
		c.post(http.StatusForbidden, modes[0].request(`4`, wire.MethodList, ``))
		g.stop()
		c.feed.over()
	})
}
