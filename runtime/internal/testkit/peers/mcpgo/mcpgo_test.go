package mcpgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mcpclient "github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	mcpserver "github.com/mark3labs/mcp-go/server"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/overlay"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	ours "github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

type tick struct {
	Seq int `json:"seq"`
}

// eras are those that mcp-go speaks: by initialize, and by requests that stand alone.
var eras = []string{wire.RevisionLegacy, wire.RevisionStateless}

// A caller sends requests of the extension by mcp-go's transport, since its client has none for methods that it does not
// know.
type caller struct {
	t    *testing.T
	c    *mcpclient.Client
	era  string
	next int
}

func (c *caller) call(method string, params map[string]any) *transport.JSONRPCResponse {
	c.t.Helper()
	c.next++
	request := transport.JSONRPCRequest{JSONRPC: mcp.JSONRPC_VERSION, ID: mcp.NewRequestId(fmt.Sprint("peer-", c.next)), Method: method, Params: params}
	if c.era == wire.RevisionStateless {
		params["_meta"] = map[string]any{
			sdk.MetaKeyProtocolVersion: c.era, sdk.MetaKeyClientInfo: map[string]any{"name": "peer", "version": "1"},
			sdk.MetaKeyClientCapabilities: map[string]any{"extensions": map[string]any{wire.ExtensionID: map[string]any{}}}}
		request.Header = http.Header{"Mcp-Method": {method}}
	}
	response, err := c.c.GetTransport().SendRequest(c.t.Context(), request)
	if err != nil {
		c.t.Fatal(method, err)
	}
	return response
}

type page struct {
	Events []struct {
		EventID string
		Data    tick
	}
	Cursor string
}

// mcp-go's client gets what our server emits: by requests of the extension, by the tool, and its errors. It does so too
// where our server is next to one of mcp-go, with sessions or without, and gets the tools of both.
func TestClient(t *testing.T) {
	for name, handler := range map[string]func(*server.Server) http.Handler{
		"alone": func(es *server.Server) http.Handler { return ours.NewHandler(es, ours.HandlerOptions{}) },
		"overlaid": func(es *server.Server) http.Handler {
			return overlay.NewHandler(es, mcpserver.NewStreamableHTTPServer(peer(nil)), overlay.Options{})
		},
		"overlaid, stateless": func(es *server.Server) http.Handler {
			return overlay.NewHandler(es, mcpserver.NewStreamableHTTPServer(peer(nil), mcpserver.WithStateLess(true)), overlay.Options{})
		},
	} {
		for _, era := range eras {
			t.Run(name+" "+era, func(t *testing.T) { testClient(t, era, name != "alone", handler) })
		}
	}
}

func testClient(t *testing.T, era string, overlaid bool, handler func(*server.Server) http.Handler) {
	srv := sdk.NewServer(&sdk.Implementation{Name: "ours", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer es.Shutdown(context.Background())
	ticks, err := server.Register(es, events.Type[struct{}, tick]{Info: events.Info{Name: "tick", Description: "A tick.",
		InputSchema:   json.RawMessage(`{"type":"object","properties":{},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"seq":{"type":"integer"}},"required":["seq"]}`)}},
		server.Hooks[struct{}, tick]{})
	if err != nil {
		t.Fatal(err)
	}
	if err := es.AddWaitTool(); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(handler(es))
	defer web.Close()

	over, err := transport.NewStreamableHTTP(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := mcpclient.NewClient(over, mcpclient.WithProtocolVersion(era))
	defer c.Close()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	began, err := c.Initialize(t.Context(), mcp.InitializeRequest{Params: mcp.InitializeParams{
		ProtocolVersion: era, ClientInfo: mcp.Implementation{Name: "peer", Version: "1"}}})
	if err != nil || began.ProtocolVersion != era {
		t.Fatalf("%+v, %v", began, err)
	}
	if _, ok := c.GetServerCapabilities().Extensions[wire.ExtensionID]; !ok {
		t.Errorf("it sees no events in %+v", c.GetServerCapabilities())
	}
	tools, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
	if err != nil || !slices.ContainsFunc(tools.Tools, func(t mcp.Tool) bool { return t.Name == "events_wait" }) {
		t.Errorf("tools %+v, %v", tools, err)
	}
	if overlaid {
		res, err := c.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "echo"}})
		if err != nil || res.IsError || len(tools.Tools) != 2 {
			t.Errorf("tools %+v, echo: %+v, %v", tools, res, err)
		}
	}
	wait := func(args map[string]any) (p page) {
		t.Helper()
		res, err := c.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: "events_wait", Arguments: args}})
		if err != nil || res.IsError {
			t.Fatalf("%+v, %v", res, err)
		}
		text, _ := json.Marshal(res.StructuredContent)
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatal(err)
		}
		return p
	}

	request := caller{t: t, c: c, era: era}
	var list struct{ Events []struct{ Name string } }
	if r := request.call(wire.MethodList, map[string]any{}); json.Unmarshal(r.Result, &list) != nil || len(list.Events) != 1 || list.Events[0].Name != "tick" {
		t.Errorf("listed: %s %v", r.Result, r.Error)
	}
	poll := func(cursor any) (p page) {
		t.Helper()
		r := request.call(wire.MethodPoll, map[string]any{"name": "tick", "arguments": map[string]any{}, "cursor": cursor})
		if r.Error != nil || json.Unmarshal(r.Result, &p) != nil {
			t.Fatalf("%s %v", r.Result, r.Error)
		}
		return p
	}
	first, begun := poll(nil), wait(map[string]any{"events": []any{map[string]any{"name": "tick"}}, "waitSeconds": 0})
	if err := ticks.Emit(t.Context(), tick{7}, events.WithID("e7")); err != nil {
		t.Fatal(err)
	}
	waited := wait(map[string]any{"events": []any{map[string]any{"name": "tick"}}, "cursor": begun.Cursor, "waitSeconds": 5})
	for how, got := range map[string]page{"polled": poll(first.Cursor), "waited": waited} {
		if len(got.Events) != 1 || got.Events[0].EventID != "e7" || got.Events[0].Data.Seq != 7 || got.Cursor == "" {
			t.Errorf("%s: %+v", how, got)
		}
	}
	r := request.call(wire.MethodPoll, map[string]any{"name": "unknown", "cursor": nil})
	if r.Error == nil || r.Error.Code != int(wire.Sketch.Code(wire.NotFound)) && r.Error.Code != int(wire.SEP.Code(wire.NotFound)) {
		t.Errorf("refused by %+v", r.Error)
	}
}

// source is a server of mcp-go with the events e1 to e100, of which head are there. It has no handlers for methods that it
// does not know: those of the extension are answered before it, and all else, sessions and capabilities, is its own.
type source struct {
	era    string // that requests have to be of
	head   atomic.Int64
	opened atomic.Int64 // streams
}

func (s *source) event(n int64) string {
	return fmt.Sprintf(`{"eventId":"e%d","name":"tick","timestamp":"2026-01-01T00:00:00Z","data":{"seq":%d}`, n, n)
}

func (s *source) from(params json.RawMessage) int64 {
	var p struct{ Cursor *string }
	_ = json.Unmarshal(params, &p)
	if p.Cursor == nil {
		return s.head.Load()
	}
	n, _ := strconv.ParseInt(*p.Cursor, 10, 64)
	return n
}

func (s *source) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var m struct {
			ID, Params json.RawMessage
			Method     string
		}
		if json.Unmarshal(body, &m) != nil || !strings.HasPrefix(m.Method, "events/") {
			next.ServeHTTP(w, r)
			return
		}
		if r.Header.Get("Mcp-Protocol-Version") != s.era || s.era == wire.RevisionLegacy && r.Header.Get("Mcp-Session-Id") == "" {
			http.Error(w, "neither era nor session", http.StatusBadRequest)
			return
		}
		if m.Method == wire.MethodStream {
			s.stream(w, r, m.ID, s.from(m.Params))
			return
		}
		result := `{"events":[{"name":"tick","description":"A tick.","delivery":["push","poll"],"inputSchema":{"type":"object"},"payloadSchema":{"type":"object"}}]}`
		if m.Method == wire.MethodPoll {
			at, all := s.from(m.Params), []string{}
			to := min(at+10, s.head.Load())
			for n := at + 1; n <= to; n++ {
				all = append(all, s.event(n)+"}")
			}
			result = fmt.Sprintf(`{"events":[%s],"cursor":"%d","truncated":false,"hasMore":%t,"nextPollMs":1000}`, strings.Join(all, ","), to, to < s.head.Load())
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	})
}

func (s *source) stream(w http.ResponseWriter, r *http.Request, id json.RawMessage, at int64) {
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(kind, params string) {
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/events/%s\",\"params\":%s,\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s}}}\n\n", kind, params, id)
		w.(http.Flusher).Flush()
	}
	send("active", fmt.Sprintf(`{"cursor":"%d","truncated":false`, at))
	s.opened.Add(1)
	for r.Context().Err() == nil {
		for ; at < s.head.Load(); at++ {
			send("event", fmt.Sprintf(`%s,"cursor":"%d"`, s.event(at+1), at+1))
		}
		send("heartbeat", fmt.Sprintf(`{"cursor":"%d"`, at))
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// peer makes a server of mcp-go with one tool.
func peer(extensions map[string]any) *mcpserver.MCPServer {
	s := mcpserver.NewMCPServer("peer", "1", mcpserver.WithToolCapabilities(true), mcpserver.WithExtensions(extensions))
	s.AddTool(mcp.NewTool("echo"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return mcp.NewToolResultText("x"), nil
	})
	return s
}

// serve serves a server of mcp-go on loopback; front may answer before it.
func serve(t *testing.T, extensions map[string]any, front func(http.Handler) http.Handler) (url string) {
	web := httptest.NewServer(front(mcpserver.NewStreamableHTTPServer(peer(extensions))))
	t.Cleanup(web.Close)
	return web.URL
}

// Our client receives from a server of mcp-go each event once and in order, by poll and by push, in both eras.
func TestServer(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			s := source{era: era}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c, err := client.Connect(ctx, client.HTTP(serve(t, map[string]any{wire.ExtensionID: map[string]any{}}, s.before), nil),
				client.Options{ProtocolVersion: era, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for _, mode := range []string{wire.ModePush, wire.ModePoll} {
				sub, err := client.Subscribe(ctx, c, client.Dynamic("tick"), json.RawMessage(nil), client.WithMode(mode), client.WithCursor("0"))
				if err != nil {
					t.Fatal(mode, err)
				}
				s.head.Store(100)
				n := 0
				for ev, err := range sub.Events() {
					if n++; err != nil || ev.ID != fmt.Sprint("e", n) {
						t.Fatalf("%s: %v %v, want e%d", mode, ev, err, n)
					}
					if n == 100 {
						break
					}
				}
				if n != 100 {
					t.Errorf("%s: %d events: %v", mode, n, ctx.Err())
				}
			}
			if s.opened.Load() == 0 {
				t.Error("no stream was opened")
			}
		})
	}
}

// A server of mcp-go as it is has no events, and our client says that.
func TestServerWithoutEvents(t *testing.T) {
	for _, era := range eras {
		url := serve(t, nil, func(h http.Handler) http.Handler { return h })
		c, err := client.Connect(t.Context(), client.HTTP(url, nil), client.Options{ProtocolVersion: era, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(era, err)
		}
		if _, err := client.Subscribe(t.Context(), c, client.Dynamic("tick"), json.RawMessage(nil)); !errors.Is(err, client.ErrNoEvents) {
			t.Errorf("%s: %v", era, err)
		}
		c.Close()
	}
}
