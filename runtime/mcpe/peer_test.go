package mcpe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/peertest"
)

// A peer keeps what came.
type peer struct {
	*peertest.Peer
	mu       sync.Mutex
	messages []*jsonrpc.Request // notifications of the server
	order    []string           // "<method> <subscription>" of notifications, "id <n>" of responses
	calls    func(*jsonrpc.Request) any
}

// dial connects a peer.
func (g *rig) dial(version string) *peer {
	g.t.Helper()
	p := &peer{}
	p.Peer = peertest.Dial(g.t, g.es, &g.ran, version, `{"sampling":{}}`, p.take)
	g.stops = append(g.stops, p.HangUp)
	return p
}

func (p *peer) take(m jsonrpc.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m := m.(type) {
	case *jsonrpc.Response:
		p.order = append(p.order, "id "+fmt.Sprint(m.ID.Raw()))
	case *jsonrpc.Request:
		if m.IsCall() {
			if p.calls != nil {
				result, _ := json.Marshal(p.calls(m))
				go p.Conn.Write(context.Background(), &jsonrpc.Response{ID: m.ID, Result: result})
			}
			return
		}
		var about struct{ SubscriptionID string }
		_ = json.Unmarshal(m.Params, &about)
		p.order = append(p.order, m.Method+" "+about.SubscriptionID)
		p.messages = append(p.messages, m)
	}
}

// listen opens subscriptions/listen with the opt-in.
func (p *peer) listen() {
	p.T.Helper()
	p.Start("subscriptions/listen", p.Params(`{"notifications":{}}`, `"io.modelcontextprotocol/mcpe":true`))
	synctest.Wait()
}

type result = peertest.Result

// ok calls a tool that has to succeed and reads its result into v.
func (p *peer) ok(tool, args string, v any) {
	p.T.Helper()
	r := p.Call(tool, args)
	if r.IsError {
		p.T.Fatalf("%s(%s): %s", tool, args, r.Structured)
	}
	if len(r.Content) != 1 || r.Content[0].Type != "text" || r.Content[0].Text != string(r.Structured) {
		p.T.Fatalf("%s: content %v differs from structuredContent %s", tool, r.Content, r.Structured)
	}
	if v != nil {
		if err := json.Unmarshal(r.Structured, v); err != nil {
			p.T.Fatal(err)
		}
	}
}

// fails calls a tool that has to be refused with the code, in a message that holds all of words.
func (p *peer) fails(tool, args string, code int, words ...string) *result {
	p.T.Helper()
	r := p.Call(tool, args)
	var content struct {
		Error struct {
			Code          int
			Name, Message string
			RetryAfterMs  int64
		}
	}
	if json.Unmarshal(r.Structured, &content) != nil || !r.IsError || content.Error.Code != code {
		p.T.Errorf("%s(%s): %s, want error %d", tool, args, r.Structured, code)
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
		p.T.Errorf("%s(%s): error %+v beside %v", tool, args, content.Error, r.Content)
	}
	for _, w := range words {
		if !strings.Contains(string(r.Structured), w) {
			p.T.Errorf("%s(%s): %s does not say %q", tool, args, r.Structured, w)
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
	p.T.Helper()
	s := &subscription{}
	p.ok("events_subscribe", args, s)
	return s
}

func (p *peer) list(args string) []subscription {
	p.T.Helper()
	var l struct{ Subscriptions []subscription }
	p.ok("events_list", args, &l)
	return l.Subscriptions
}

// got waits until nothing moves and takes the notifications that have come: "method id:ns", where ns
// are the payloads' numbers.
func (p *peer) got() string {
	p.T.Helper()
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
	p.T.Helper()
	if got := p.got(); got != what {
		p.T.Errorf("notified of %q, want %q", got, what)
	}
}
