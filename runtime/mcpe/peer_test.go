package mcpe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// A peer speaks JSON-RPC to the rig over an in-memory transport, without a client of anybody's.
type peer struct {
	t       testing.TB
	conn    mcp.Connection
	version string
	hangUp  func()

	mu       sync.Mutex
	last     int
	answers  map[string]chan *jsonrpc.Response
	messages []*jsonrpc.Request // notifications of the server
	order    []string           // "<method> <subscription>" of notifications, "id <n>" of responses
	calls    func(*jsonrpc.Request) any
}

// dial connects a peer; a legacy one shakes hands.
func (g *rig) dial(version string) *peer {
	g.t.Helper()
	ct, st := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	g.ran.Go(func() { _ = transport.Run(ctx, g.es, st) })
	conn, err := ct.Connect(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	p := &peer{t: g.t, conn: conn, version: version, answers: map[string]chan *jsonrpc.Response{}}
	g.ran.Go(p.read)
	p.hangUp = sync.OnceFunc(func() { conn.Close(); cancel() })
	g.stops = append(g.stops, p.hangUp)
	if version == legacy {
		p.rpc("initialize", `{"protocolVersion":"`+legacy+`","capabilities":{"sampling":{}},"clientInfo":{"name":"c","version":"1"}}`)
		p.send(&jsonrpc.Request{Method: "notifications/initialized", Params: json.RawMessage(`{}`)})
		p.rpc("ping", `{}`)
	}
	return p
}

func (p *peer) read() {
	for {
		m, err := p.conn.Read(context.Background())
		if err != nil {
			p.mu.Lock()
			for _, c := range p.answers {
				close(c)
			}
			p.answers = map[string]chan *jsonrpc.Response{}
			p.mu.Unlock()
			return
		}
		p.mu.Lock()
		switch m := m.(type) {
		case *jsonrpc.Response:
			id := fmt.Sprint(m.ID.Raw())
			p.order = append(p.order, "id "+id)
			if c := p.answers[id]; c != nil {
				c <- m
				delete(p.answers, id)
			}
		case *jsonrpc.Request:
			if m.IsCall() {
				if p.calls != nil {
					result, _ := json.Marshal(p.calls(m))
					go p.conn.Write(context.Background(), &jsonrpc.Response{ID: m.ID, Result: result})
				}
				break
			}
			var about struct{ SubscriptionID string }
			_ = json.Unmarshal(m.Params, &about)
			p.order = append(p.order, m.Method+" "+about.SubscriptionID)
			p.messages = append(p.messages, m)
		}
		p.mu.Unlock()
	}
}

func (p *peer) send(m jsonrpc.Message) {
	if err := p.conn.Write(context.Background(), m); err != nil {
		p.t.Errorf("writing: %v", err)
	}
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}`

// params adds what the era wants to params.
func (p *peer) params(params, meta string) string {
	if p.version != modern {
		return params
	}
	if meta != "" {
		meta = "," + meta
	}
	sep := ","
	if params == `{}` {
		sep = ""
	}
	return strings.TrimSuffix(params, "}") + sep + modernMeta + meta + "}}"
}

// start sends a request and returns where its answer comes.
func (p *peer) start(method, params string) chan *jsonrpc.Response {
	p.mu.Lock()
	p.last++
	n := p.last
	c := make(chan *jsonrpc.Response, 1)
	p.answers[strconv.Itoa(n)] = c
	p.mu.Unlock()
	id, _ := jsonrpc.MakeID(float64(n))
	p.send(&jsonrpc.Request{ID: id, Method: method, Params: json.RawMessage(params)})
	return c
}

func (p *peer) rpc(method, params string) *jsonrpc.Response {
	p.t.Helper()
	res, ok := <-p.start(method, p.params(params, ""))
	if !ok {
		p.t.Fatalf("%s: connection ended", method)
	}
	return res
}

// listen opens subscriptions/listen with the opt-in.
func (p *peer) listen() {
	p.t.Helper()
	p.start("subscriptions/listen", p.params(`{"notifications":{}}`, `"io.modelcontextprotocol/mcpe":true`))
	synctest.Wait()
}

// A result is a tool's result as it came.
type result struct {
	IsError bool `json:"isError"`
	Content []struct {
		Type, Text string
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
}

// call calls a tool.
func (p *peer) call(tool, args string) *result {
	p.t.Helper()
	res := p.rpc("tools/call", `{"name":"`+tool+`","arguments":`+args+`}`)
	if res.Error != nil {
		p.t.Fatalf("%s: %v", tool, res.Error)
	}
	r := &result{}
	if err := json.Unmarshal(res.Result, r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// ok calls a tool that has to succeed and reads its result into v.
func (p *peer) ok(tool, args string, v any) {
	p.t.Helper()
	r := p.call(tool, args)
	if r.IsError {
		p.t.Fatalf("%s(%s): %s", tool, args, r.Structured)
	}
	if len(r.Content) != 1 || r.Content[0].Type != "text" || r.Content[0].Text != string(r.Structured) {
		p.t.Fatalf("%s: content %v differs from structuredContent %s", tool, r.Content, r.Structured)
	}
	if v != nil {
		if err := json.Unmarshal(r.Structured, v); err != nil {
			p.t.Fatal(err)
		}
	}
}

// fails calls a tool that has to be refused with the code, in a message that holds all of words.
func (p *peer) fails(tool, args string, code int, words ...string) *result {
	p.t.Helper()
	r := p.call(tool, args)
	var content struct {
		Error struct {
			Code          int
			Name, Message string
			RetryAfterMs  int64
		}
	}
	if json.Unmarshal(r.Structured, &content) != nil || !r.IsError || content.Error.Code != code {
		p.t.Errorf("%s(%s): %s, want error %d", tool, args, r.Structured, code)
		return r
	}
	// Of events_unsubscribe the first text is the structured content: the original client reads success there.
	said := []string{content.Error.Message}
	if tool == "events_unsubscribe" {
		said = []string{string(r.Structured), content.Error.Message}
	}
	got := make([]string, len(r.Content))
	for i, block := range r.Content {
		got[i] = block.Text
	}
	if content.Error.Name == "" || !slices.Equal(got, said) {
		p.t.Errorf("%s(%s): error %+v beside %v", tool, args, content.Error, r.Content)
	}
	for _, w := range words {
		if !strings.Contains(string(r.Structured), w) {
			p.t.Errorf("%s(%s): %s does not say %q", tool, args, r.Structured, w)
		}
	}
	return r
}

type subscription struct {
	ID, SubscriptionID, ClientID, Status, CreatedAt, UpdatedAt, ExpiresAt, NextRun string
	PendingEvents                                                                  *int
	Filter, Delivery, Handler                                                      json.RawMessage
	Warnings                                                                       []string
}

func (p *peer) subscribe(args string) *subscription {
	p.t.Helper()
	s := &subscription{}
	p.ok("events_subscribe", args, s)
	return s
}

func (p *peer) list(args string) []subscription {
	p.t.Helper()
	var l struct{ Subscriptions []subscription }
	p.ok("events_list", args, &l)
	return l.Subscriptions
}

// got waits until nothing moves and takes the notifications that have come: "method id:ns", where ns
// are the payloads' numbers.
func (p *peer) got() string {
	p.t.Helper()
	synctest.Wait()
	p.mu.Lock()
	all := p.messages
	p.messages = nil
	p.mu.Unlock()
	var lines []string
	for _, m := range all {
		if strings.HasPrefix(m.Method, "notifications/") && m.Method != "notifications/message" {
			continue
		}
		lines = append(lines, describe(m))
	}
	return strings.Join(lines, " ")
}

type event struct {
	ID, Type string
	Data     payload
	Metadata struct {
		SourceEventID, Timestamp, Priority string
		Tags                               []string
	}
}

func describe(m *jsonrpc.Request) string {
	var params struct {
		SubscriptionID string
		Event          *event
		Events         []event
	}
	if err := json.Unmarshal(m.Params, &params); err != nil {
		return m.Method + " " + err.Error()
	}
	if params.Event != nil {
		params.Events = append(params.Events, *params.Event)
	}
	var ns []string
	for _, e := range params.Events {
		ns = append(ns, strconv.Itoa(e.Data.N))
	}
	return strings.TrimPrefix(m.Method, "events/") + "(" + strings.Join(ns, ",") + ")"
}

// notifications waits until nothing moves and takes what has come of a method.
func (p *peer) notifications(method string) []*jsonrpc.Request {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []*jsonrpc.Request
	p.messages = slices.DeleteFunc(p.messages, func(m *jsonrpc.Request) bool {
		if m.Method == method {
			found = append(found, m)
		}
		return m.Method == method
	})
	return found
}

// want compares what has come.
func (p *peer) want(what string) {
	p.t.Helper()
	if got := p.got(); got != what {
		p.t.Errorf("notified of %q, want %q", got, what)
	}
}
