package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// rawSession speaks JSON-RPC to s through the SDK, over its in-memory transport.
type rawSession struct {
	t    *testing.T
	conn mcp.Connection
	next int
}

func connect(t *testing.T, s *Server) *rawSession {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	ss, err := s.mcp.Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := ours.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); ss.Wait() })
	return &rawSession{t: t, conn: conn}
}

func (r *rawSession) send(method, params string) *jsonrpc.Response {
	r.t.Helper()
	r.next++
	id, _ := jsonrpc.MakeID(float64(r.next))
	if err := r.conn.Write(r.t.Context(), &jsonrpc.Request{ID: id, Method: method, Params: json.RawMessage(params)}); err != nil {
		r.t.Fatal(err)
	}
	for {
		m, err := r.conn.Read(r.t.Context())
		if err != nil {
			r.t.Fatal(err)
		}
		if res, ok := m.(*jsonrpc.Response); ok {
			return res
		}
	}
}

func (r *rawSession) initialize() *jsonrpc.Response {
	res := r.send("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	if err := r.conn.Write(r.t.Context(), &jsonrpc.Request{Method: "notifications/initialized", Params: json.RawMessage(`{}`)}); err != nil {
		r.t.Fatal(err)
	}
	return res
}

const statelessMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/events":{}}}}`

// D1, CAP-1: both forms of the capability in initialize and server/discover, with what else is there.
func TestCapabilities(t *testing.T) {
	s := newServer(t, Options{})
	s.mcp.AddTool(&mcp.Tool{Name: "x", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	s.inside().SetListChanged(true, false)
	s.inside().SetListChanged(false, false) // never taken back
	for _, tc := range []struct {
		era, changed string
		res          *jsonrpc.Response
	}{
		{"legacy", "true", connect(t, s).initialize()},
		{"stateless", "false", connect(t, s).send("server/discover", `{`+statelessMeta+`}`)},
	} {
		if tc.res.Error != nil {
			t.Fatalf("%s: %v", tc.era, tc.res.Error)
		}
		var r struct {
			ResultType   string
			Capabilities map[string]json.RawMessage
		}
		var ext map[string]json.RawMessage
		json.Unmarshal(tc.res.Result, &r)
		json.Unmarshal(r.Capabilities["extensions"], &ext)
		want := `{"listChanged":` + tc.changed + `}`
		if string(r.Capabilities["events"]) != want || string(ext[wire.ExtensionID]) != want || r.Capabilities["tools"] == nil {
			t.Errorf("%s: %s", tc.era, tc.res.Result)
		}
		if tc.era == "stateless" && (!strings.Contains(string(tc.res.Result), `"resultType":"complete"`) || !strings.Contains(string(tc.res.Result), mcp.MetaKeyServerInfo)) {
			t.Errorf("the SDK's own members are lost: %s", tc.res.Result)
		}
	}
}

// D3, D4, D2, LIST-3: both eras through the SDK; params with all their bytes; nil params; errors
// with their data.
func TestThroughSDK(t *testing.T) {
	s := newServer(t, Options{Codes: CodesAuto})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	legacy, stateless := connect(t, s), connect(t, s)
	legacy.initialize()
	for _, tc := range []struct {
		name, meta string
		r          *rawSession
		notFound   int64
	}{{"legacy", `"_meta":{}`, legacy, -32011}, {"stateless", statelessMeta, stateless, -32023}} {
		res := tc.r.send(wire.MethodPoll, `{"name":"e","arguments":{"minLevel":1.50},"unknown":1,`+tc.meta+`}`)
		var p pollResult
		if res.Error != nil || json.Unmarshal(res.Result, &p) != nil || p.Cursor == nil {
			t.Fatalf("%s: %s %v", tc.name, res.Result, res.Error)
		}
		if complete := strings.Contains(string(res.Result), `"resultType":"complete"`); complete != (tc.name == "stateless") {
			t.Errorf("D3, %s: %s", tc.name, res.Result)
		}
		emit(t, e, incident{ID: tc.name, Level: 2})
		res = tc.r.send(wire.MethodPoll, fmt.Sprintf(`{"name":"e","arguments":{"minLevel":1.50},"cursor":%q,%s}`, *p.Cursor, tc.meta))
		if json.Unmarshal(res.Result, &p); len(p.Events) != 1 {
			t.Errorf("%s: %s", tc.name, res.Result)
		}
		res = tc.r.send(wire.MethodList, `{`+tc.meta+`}`)
		if !strings.Contains(string(res.Result), `"delivery":["poll"]`) {
			t.Errorf("%s: push is offered without a carrier: %s", tc.name, res.Result)
		}
		for params, want := range map[string]int64{`{"name":"none",` + tc.meta + `}`: tc.notFound, `{"name":"e","maxEvents":0,` + tc.meta + `}`: -32602,
			`{"name":"e","arguments":{"severity":"P9"},` + tc.meta + `}`: -32602} {
			var werr *jsonrpc.Error
			if res := tc.r.send(wire.MethodPoll, params); !errors.As(res.Error, &werr) || werr.Code != want || len(werr.Data) == 0 {
				t.Errorf("%s %s: %v", tc.name, params, res.Error)
			}
		}
		var werr *jsonrpc.Error
		if res := tc.r.send(wire.MethodStream, `{"name":"e",`+tc.meta+`}`); !errors.As(res.Error, &werr) || string(werr.Data) != `{"feature":"deliveryMode","value":"push"}` {
			t.Errorf("%s: a stream without a ticket: %v", tc.name, res.Error)
		}
	}
	for _, params := range []string{"", "null"} {
		if res := legacy.send(wire.MethodList, params); res.Error != nil {
			t.Errorf("list with params %q: %v", params, res.Error)
		}
		if res := legacy.send(wire.MethodPoll, params); res.Error == nil || !strings.Contains(res.Error.Error(), "InvalidParams") {
			t.Errorf("poll with params %q: %v", params, res.Error)
		}
	}
}

// PUSH-2, AUTH-3: a carried call brings the raw id and what its carrier can do; the caller is that of the request. What
// the handler accepts is its carrier's to run, also if middleware asks twice.
func TestCarried(t *testing.T) {
	s := newServer(t, Options{})
	register(t, s, "e", Hooks[filterArgs, incident]{})
	handle := s.middleware(func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		return s.serve(ctx, method, req.GetParams().(*rawParams))
	})
	const id = `9007199254740993`
	run := func(c *port.Carried) error {
		p := &rawParams{}
		_ = p.UnmarshalJSON(c.Params)
		p.Carried = c
		_, err := handle(t.Context(), c.Method, &mcp.ServerRequest[*rawParams]{Params: p, Extra: &mcp.RequestExtra{
			TokenInfo: &auth.TokenInfo{UserID: "ann", Expiration: time.Now().Add(-time.Hour)}}})
		return err
	}
	params := json.RawMessage(`{"name":"e","_meta":{"` + mcp.MetaKeyProtocolVersion + `":"` + wire.RevisionStateless + `"}}`)
	c := &port.Carried{Request: port.Request{Method: wire.MethodStream, Params: params, ID: json.RawMessage(id), Stateless: true, CanStream: true}}
	var first port.Stream
	for range 2 {
		if err := run(c); err != nil || c.Stream == first {
			t.Fatalf("%v, stream %v", err, c.Stream)
		}
		first = c.Stream
	}
	if subs := s.Subscriptions(); len(subs) != 1 || subs[0].Principal != "ann" {
		t.Errorf("%+v", subs)
	}
	final, err := c.Stream.Run(t.Context(), &recorder{id: id})
	if err != nil || !strings.Contains(string(final), `"`+wire.MetaSubscriptionID+`":`+id) || !strings.Contains(string(final), `"resultType":"complete"`) {
		t.Fatalf("final %s, %v", final, err)
	}
	c.CanStream, c.Stream = false, nil
	wantError(t, asRPC(run(c)), -32014, `{"feature":"deliveryMode","value":"push"}`)
}

// Receiving middleware of the author is found wherever and whenever it was added; that of this module is not taken for
// it.
func TestReceivingMiddleware(t *testing.T) {
	pass := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			return next(ctx, method, req)
		}
	}
	ours := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			return next(ctx, method, req)
		}
	}
	made := func(before ...mcp.Middleware) *Server {
		srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		srv.AddReceivingMiddleware(before...)
		s, err := New(srv, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := made()
	if s.inside().Receiving() != nil {
		t.Error("found where there is none")
	}
	if s.inside().AddMiddleware(ours); s.inside().Receiving() != nil {
		t.Error("that of an adapter is taken for the author's")
	}
	s.mcp.AddReceivingMiddleware(pass)
	if s.inside().Receiving() == nil {
		t.Error("not found above")
	}
	if s.inside().AddMiddleware(ours); s.inside().Receiving() == nil {
		t.Error("not found below that of an adapter")
	}
	if made(pass).inside().Receiving() == nil {
		t.Error("not found below")
	}
}

// The read tools: the next occurrences by cursor for clients that do not support events; refusals are tool
// errors; off unless registered.
func TestReadTools(t *testing.T) {
	s := newServer(t, Options{Authorize: func(_ context.Context, _, _ string, args json.RawMessage) error {
		if strings.Contains(string(args), "redact") {
			return errTest
		}
		return nil
	}})
	e := register(t, s, "e", Hooks[filterArgs, incident]{})
	c := connect(t, s)
	c.initialize()
	call := func(args string) (structured pollResult, isError bool, text string) {
		t.Helper()
		res := c.send("tools/call", `{"name":"read_e","arguments":`+args+`}`)
		if res.Error != nil {
			return structured, true, res.Error.Error()
		}
		var r struct {
			StructuredContent json.RawMessage
			Content           []struct{ Text string }
			IsError           bool
		}
		if err := json.Unmarshal(res.Result, &r); err != nil || len(r.Content) != 1 {
			t.Fatalf("%s: %v", res.Result, err)
		}
		json.Unmarshal(r.StructuredContent, &structured)
		if !r.IsError && string(r.StructuredContent) != r.Content[0].Text {
			t.Errorf("text %s is not the structured content %s", r.Content[0].Text, r.StructuredContent)
		}
		return structured, r.IsError, r.Content[0].Text
	}
	if _, isError, _ := call(`{}`); !isError {
		t.Fatal("the tool is there without being registered")
	}
	tool := readtool.Tool{Event: "e", CursorArgument: "after", MaxEventsArgument: "maxEvents", Tool: mcp.Tool{Name: "read_e",
		Description: "Reads.", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}}
	bad := tool
	bad.Tool.InputSchema = json.RawMessage(`{"type":"string"}`)
	if err := s.AddReadTools(tool, bad); err == nil {
		t.Fatal("a bad schema was taken")
	}
	if err := s.AddReadTools(tool); err != nil {
		t.Fatal(err)
	}
	first, _, _ := call(`{}`)
	if first.Cursor == nil || first.Truncated == nil || first.HasMore == nil || first.NextPollMs == nil || first.Events == nil {
		t.Fatalf("%+v", first)
	}
	for i := range 3 {
		emit(t, e, incident{ID: fmt.Sprint("x", i), Severity: "P1"})
		emit(t, e, incident{ID: fmt.Sprint("y", i), Severity: "P2"})
	}
	r, _, text := call(fmt.Sprintf(`{"severity":"P1","after":%q,"maxEvents":2}`, *first.Cursor))
	if wantStrings(t, "read", r.ids(), "x0", "x1"); !*r.HasMore || strings.Contains(text, "resultType") {
		t.Fatal(text)
	}
	for args, want := range map[string]string{`{"severity":"P9"}`: "InvalidParams", `{"cursor":"x"}`: "InvalidParams", `{"after":1}`: "/after",
		`{"maxEvents":0}`: "/maxEvents", `{"redact":true}`: "Forbidden"} {
		if _, isError, text := call(args); !isError || !strings.Contains(text, want) || strings.Contains(text, "secret") {
			t.Errorf("%s: %v %s", args, isError, text)
		}
	}
}

// CAP-2: a server without events answers every events/* method with -32601.
func TestServerWithoutEvents(t *testing.T) {
	c := connect(t, &Server{mcp: mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)})
	c.initialize()
	for _, method := range []string{wire.MethodList, wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe, wire.MethodUnsubscribe} {
		var werr *jsonrpc.Error
		if res := c.send(method, `{"name":"e"}`); !errors.As(res.Error, &werr) || werr.Code != -32601 {
			t.Errorf("%s: %v", method, res.Error)
		}
	}
	if _, err := New(nil, Options{}); err == nil {
		t.Error("a nil mcp.Server was taken")
	}
}
