package client

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func TestMain(m *testing.M) {
	if runChild() || runConsumer() || runHooked() || runHandling() {
		return
	}
	goleak.VerifyTestMain(m)
}

// A carrier is one way and era to reach a fake server.
type carrier struct {
	name   string
	http   bool
	legacy bool
}

var carriers = []carrier{
	{"stdio-legacy", false, true}, {"stdio-2026", false, false},
	{"http-legacy", true, true}, {"http-2026", true, false},
}

// A request is what a fake server was sent.
type request struct {
	Method string
	Params json.RawMessage
	Header http.Header
}

// A fake is a scripted MCP server: it does on the wire what a test says, right or wrong.
type fake struct {
	caps   string // the capabilities object
	legacy bool
	codes  wire.Dialect

	list   func() []wire.Descriptor
	poll   func(p wire.PollParams) (any, *jsonrpc.Error)
	stream func(st *fakeStream) (any, *jsonrpc.Error)
	listen func(st *fakeStream) (any, *jsonrpc.Error)
	// refuse may answer an HTTP request before anything else looks at it.
	refuse func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Request) bool

	// hooks answers events/subscribe and events/unsubscribe.
	hooks *hooks
	// override may answer events/list in place of list.
	override func(m *jsonrpc.Request) any

	mu       sync.Mutex
	requests []request
	sessions map[string]chan []byte // legacy HTTP: id to its GET stream
	next     int
	open     map[*fakeStream]struct{}
	conns    map[mcp.Connection]struct{}
	done     chan struct{}
	wg       sync.WaitGroup
}

const bothCaps = `{"events":{"listChanged":false},"extensions":{"io.modelcontextprotocol/events":{"listChanged":false}}}`

func newFake(legacy bool) *fake {
	return &fake{caps: bothCaps, legacy: legacy, sessions: map[string]chan []byte{}, open: map[*fakeStream]struct{}{},
		conns: map[mcp.Connection]struct{}{}, done: make(chan struct{}),
		list: func() []wire.Descriptor { return []wire.Descriptor{descriptor("tick", "poll", "push")} }}
}

func descriptor(name string, modes ...string) wire.Descriptor {
	return wire.Descriptor{Name: name, Description: "d", Delivery: modes,
		InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object"}`)}
}

// sent returns the requests of one method so far.
func (f *fake) sent(method string) []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var found []request
	for _, r := range f.requests {
		if r.Method == method {
			found = append(found, r)
		}
	}
	return found
}

func (f *fake) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = nil
}

func (f *fake) methods() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, r := range f.requests {
		all = append(all, r.Method)
	}
	return all
}

func (f *fake) streams() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open)
}

func (f *fake) note(m *jsonrpc.Request, h http.Header) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = append(f.requests, request{m.Method, m.Params, h})
}

func (f *fake) err(kind wire.Kind, data string) *jsonrpc.Error {
	return &jsonrpc.Error{Code: f.codes.Code(kind), Message: kind.String(), Data: json.RawMessage(data)}
}

// A fakeStream is one open events/stream or listen request.
type fakeStream struct {
	ctx   context.Context
	id    any
	p     wire.StreamParams
	write func([]byte) error
}

func (st *fakeStream) raw(frame string) error { return st.write([]byte(frame)) }

// send writes a notification of the stream; params is the JSON object without _meta.
func (st *fakeStream) send(method, params string) error {
	id, _ := json.Marshal(st.id)
	sep := ","
	if params == "{}" {
		sep = ""
	}
	return st.raw(fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s%s"_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`,
		method, strings.TrimSuffix(params, "}"), sep, id))
}

func (st *fakeStream) active(cursor string) {
	st.send(wire.NotificationActive, cursorJSON(cursor, `,"truncated":false`))
}
func (st *fakeStream) truncated(cursor string) {
	st.send(wire.NotificationActive, cursorJSON(cursor, `,"truncated":true`))
}
func (st *fakeStream) heartbeat(cursor string) {
	st.send(wire.NotificationHeartbeat, cursorJSON(cursor, ""))
}
func (st *fakeStream) event(id, cursor string) error {
	return st.send(wire.NotificationEvent, eventJSON(id, cursor))
}
func (st *fakeStream) terminated(e *jsonrpc.Error) {
	b, _ := json.Marshal(e)
	st.send(wire.NotificationTerminated, fmt.Sprintf(`{"error":%s}`, b))
}

func cursorJSON(cursor, more string) string {
	c := "null"
	if cursor != "" {
		c = fmt.Sprintf("%q", cursor)
	}
	return fmt.Sprintf(`{"cursor":%s%s}`, c, more)
}

func eventJSON(id, cursor string) string {
	c := ""
	switch cursor {
	case "-":
	case "":
		c = `,"cursor":null`
	default:
		c = fmt.Sprintf(`,"cursor":%q`, cursor)
	}
	return fmt.Sprintf(`{"eventId":%q,"name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{"n":%q}%s}`, id, id, c)
}

func (f *fake) capabilities() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.caps
}

// change makes the server one with other capabilities.
func (f *fake) change(caps string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.caps = caps
}

// answer handles everything but streams.
func (f *fake) answer(m *jsonrpc.Request) (any, *jsonrpc.Error) {
	switch m.Method {
	case "server/discover":
		if f.legacy {
			return nil, &jsonrpc.Error{Code: -32601, Message: "Method not found"}
		}
		return json.RawMessage(`{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":` + f.capabilities() + `}`), nil
	case "initialize":
		return json.RawMessage(`{"protocolVersion":"2025-11-25","serverInfo":{"name":"fake","version":"1"},"capabilities":` + f.capabilities() + `}`), nil
	case wire.MethodList:
		if f.override != nil {
			return f.override(m), nil
		}
		return wire.ListResult{Events: f.list()}, nil
	case wire.MethodPoll:
		var p wire.PollParams
		if err := json.Unmarshal(m.Params, &p); err != nil || f.poll == nil {
			return nil, &jsonrpc.Error{Code: -32602, Message: fmt.Sprint(err)}
		}
		return f.poll(p)
	case wire.MethodSubscribe, wire.MethodUnsubscribe:
		if f.hooks != nil {
			return f.hooks.answer(m)
		}
	}
	return nil, &jsonrpc.Error{Code: -32601, Message: "Method not found"}
}

func (f *fake) script(m *jsonrpc.Request) func(*fakeStream) (any, *jsonrpc.Error) {
	switch m.Method {
	case wire.MethodStream:
		return f.stream
	case methodListen:
		return f.listen
	}
	return nil
}

// run plays a stream's script. The final message is nil when the script said to close without one.
func (f *fake) run(ctx context.Context, m *jsonrpc.Request, play func(*fakeStream) (any, *jsonrpc.Error), write func([]byte) error) []byte {
	st := &fakeStream{ctx: ctx, id: m.ID.Raw(), write: write}
	json.Unmarshal(m.Params, &st.p)
	f.mu.Lock()
	f.open[st] = struct{}{}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.open, st)
		f.mu.Unlock()
	}()
	res, rpc := play(st)
	if res == nil && rpc == nil || ctx.Err() != nil {
		return nil
	}
	return encode(m, res, rpc)
}

func encode(m *jsonrpc.Request, res any, rpc *jsonrpc.Error) []byte {
	r := &jsonrpc.Response{ID: m.ID}
	if rpc != nil {
		r.Error = rpc
	} else {
		r.Result, _ = json.Marshal(res)
	}
	b, err := jsonrpc.EncodeMessage(r)
	if err != nil {
		panic(err)
	}
	return b
}

var empty = json.RawMessage(`{}`)

// serveConn plays the server on one message-based connection.
func (f *fake) serveConn(conn mcp.Connection) {
	f.mu.Lock()
	f.conns[conn] = struct{}{}
	f.mu.Unlock()
	f.wg.Go(func() {
		var streams sync.WaitGroup
		cancels := map[string]context.CancelFunc{}
		defer func() {
			for _, cancel := range cancels {
				cancel()
			}
			conn.Close()
			streams.Wait()
		}()
		write := func(b []byte) error {
			m, err := jsonrpc.DecodeMessage(b)
			if err != nil {
				return err
			}
			return conn.Write(context.Background(), m)
		}
		for {
			msg, err := conn.Read(context.Background())
			if err != nil {
				return
			}
			m, ok := msg.(*jsonrpc.Request)
			if !ok {
				continue
			}
			f.note(m, nil)
			if !m.IsCall() {
				if m.Method == "notifications/cancelled" {
					var p struct {
						RequestID json.RawMessage `json:"requestId"`
					}
					json.Unmarshal(m.Params, &p)
					if cancel := cancels[string(p.RequestID)]; cancel != nil {
						cancel()
					}
				}
				continue
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancels[idText(m.ID.Raw())] = cancel
			streams.Go(func() {
				defer cancel()
				if play := f.script(m); play != nil {
					if final := f.run(ctx, m, play, write); final != nil {
						write(final)
					}
					return
				}
				write(encode2(f.answer(m))(m))
			})
		}
	})
}

func encode2(res any, rpc *jsonrpc.Error) func(*jsonrpc.Request) []byte {
	return func(m *jsonrpc.Request) []byte { return encode(m, res, rpc) }
}

// notifyAll sends a session notification: on connections, or on the GET streams.
func (f *fake) notifyAll(method string) {
	b := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":%q,"params":{}}`, method)
	f.mu.Lock()
	conns, sessions := slices.Collect(maps.Keys(f.conns)), slices.Collect(maps.Values(f.sessions))
	f.mu.Unlock()
	for _, c := range conns {
		m, _ := jsonrpc.DecodeMessage(b)
		c.Write(context.Background(), m)
	}
	for _, s := range sessions {
		s <- b
	}
}

// forgetSessions makes every legacy HTTP session unknown, as a restart does.
func (f *fake) forgetSessions() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sessions = map[string]chan []byte{}
}

// cut closes every message-based connection, as the death of a process does.
func (f *fake) cut() {
	f.mu.Lock()
	conns := f.conns
	f.conns = map[mcp.Connection]struct{}{}
	f.mu.Unlock()
	for c := range conns {
		c.Close()
	}
}

// transport returns the client's side of a carrier to f, and ends it with the test.
func (f *fake) transport(t *testing.T, c carrier) mcp.Transport {
	f.legacy = c.legacy
	if !c.http {
		t.Cleanup(func() { f.cut(); f.wg.Wait() })
		return Dial(func(ctx context.Context) (mcp.Transport, error) {
			mine, theirs := mcp.NewInMemoryTransports()
			conn, err := theirs.Connect(ctx)
			if err != nil {
				return nil, err
			}
			f.serveConn(conn)
			return mine, nil
		})
	}
	return HTTP("http://fake/mcp", f.httpClient(t))
}

// connect makes a client of f that is closed with the test.
func connect(t *testing.T, f *fake, c carrier, o Options) *Client {
	t.Helper()
	tr := f.transport(t, c)
	cl, err := Connect(t.Context(), tr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cl.Close() })
	return cl
}

// hold keeps a stream open until the client goes away.
func hold(st *fakeStream) (any, *jsonrpc.Error) {
	<-st.ctx.Done()
	return nil, nil
}
