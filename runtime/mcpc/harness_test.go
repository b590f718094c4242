package mcpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const legacy, modern = "2025-11-25", "2026-07-28"

type arguments struct {
	Steps int    `json:"steps"`
	Fail  string `json:"fail,omitzero"`
}

type update struct {
	Step int `json:"step"`
}

type result struct {
	Total int `json:"total"`
}

// count is the tool of most tests: as many updates as steps.
var count = task.Type[arguments, update, result]{Info: task.Info{
	Name: "count", Description: "Counts.",
	InputSchema:  json.RawMessage(`{"type":"object","properties":{"steps":{"type":"integer","minimum":0},"fail":{"type":"string"}},"required":["steps"],"additionalProperties":false}`),
	UpdateSchema: json.RawMessage(`{"type":"object","properties":{"step":{"type":"integer","maximum":100}},"required":["step"]}`),
	ResultSchema: json.RawMessage(`{"type":"object","properties":{"total":{"type":"integer"}},"required":["total"]}`),
}}

func counts(_ context.Context, a arguments, t *mcpc.Task[update]) (result, error) {
	for i := range a.Steps {
		if err := t.Update(update{i + 1}); err != nil {
			return result{}, err
		}
	}
	return result{a.Steps}, nil
}

var quiet = slog.New(slog.DiscardHandler)

// A rig is a server with MCPC on it.
type rig struct {
	t     testing.TB
	srv   *mcp.Server
	es    *server.Server
	a     *mcpc.Adapter
	ran   sync.WaitGroup
	stops []func()
}

func newRig(t testing.TB, so server.Options, o mcpc.Options, f mcpc.Func[arguments, update, result]) *rig {
	t.Helper()
	g := &rig{t: t, srv: mcp.NewServer(&mcp.Implementation{Name: "test", Version: "7"}, nil)}
	if so.Logger == nil {
		so.Logger = quiet
	}
	var err error
	if g.es, err = server.New(g.srv, so); err != nil {
		t.Fatal(err)
	}
	if g.a, err = mcpc.New(g.es, o); err != nil {
		t.Fatal(err)
	}
	if f == nil {
		f = counts
	}
	if err := mcpc.RegisterTask(g.a, count, f); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *rig) stop() {
	for _, stop := range g.stops {
		stop()
	}
	g.es.Shutdown(context.Background())
	if err := g.a.Shutdown(context.Background()); err != nil {
		g.t.Error(err)
	}
	g.ran.Wait()
	if left := g.a.Tasks(); len(left) > 0 {
		g.t.Errorf("tasks are left: %+v", left)
	}
}

// bubble runs f in a synctest bubble with a rig that is stopped at its end.
func bubble(t *testing.T, o mcpc.Options, work mcpc.Func[arguments, update, result], f func(g *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{}, o, work)
		defer g.stop()
		f(g)
	})
}

// A peer speaks JSON-RPC to the rig over an in-memory transport, without a client of anybody's.
type peer struct {
	t       testing.TB
	conn    mcp.Connection
	version string
	hangUp  func()

	mu       sync.Mutex
	last     int
	answers  map[string]chan *jsonrpc.Response
	order    []string // what came, in order: "id <n>", "callback <event>", "<method> <message>"
	messages []task.Message
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
		p.rpc("initialize", `{"protocolVersion":"`+legacy+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
		p.send(&jsonrpc.Request{Method: "notifications/initialized", Params: json.RawMessage(`{}`)})
		p.rpc("ping", `{}`)
	}
	return p
}

func (p *peer) read() {
	for {
		m, err := p.conn.Read(context.Background())
		p.mu.Lock()
		if err != nil {
			for _, c := range p.answers {
				close(c)
			}
			p.answers = nil
			p.mu.Unlock()
			return
		}
		switch m := m.(type) {
		case *jsonrpc.Response:
			id := fmt.Sprint(m.ID.Raw())
			if id == "MCPC_CALLBACK" {
				var r toolResult
				if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Content) != 1 {
					p.t.Errorf("callback %s: %v", m.Result, err)
					break
				}
				msg := r.messages(p.t)[0]
				p.order = append(p.order, "callback "+msg.Event)
				p.messages = append(p.messages, msg)
				break
			}
			p.order = append(p.order, "id "+id)
			if c := p.answers[id]; c != nil {
				c <- m
				delete(p.answers, id)
			}
		case *jsonrpc.Request:
			var n struct {
				Progress float64
				Message  string
			}
			_ = json.Unmarshal(m.Params, &n)
			p.order = append(p.order, fmt.Sprintf("%s %v %s", m.Method, n.Progress, n.Message))
		}
		p.mu.Unlock()
	}
}

func (p *peer) send(m jsonrpc.Message) {
	if err := p.conn.Write(context.Background(), m); err != nil {
		p.t.Errorf("writing: %v", err)
	}
}

const modernMeta = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}`

// params adds what the era wants to params, and more _meta.
func (p *peer) params(params, meta string) string {
	if p.version == modern {
		meta = strings.TrimSuffix(modernMeta+","+meta, ",")
	}
	if meta == "" {
		return params
	}
	sep := ","
	if params == `{}` {
		sep = ""
	}
	return strings.TrimSuffix(params, "}") + sep + `"_meta":{` + meta + "}}"
}

// start sends a request and returns where its answer comes.
func (p *peer) start(method, params string) (id int, answer chan *jsonrpc.Response) {
	p.mu.Lock()
	p.last++
	id = p.last
	answer = make(chan *jsonrpc.Response, 1)
	p.answers[strconv.Itoa(id)] = answer
	p.mu.Unlock()
	made, _ := jsonrpc.MakeID(float64(id))
	p.send(&jsonrpc.Request{ID: made, Method: method, Params: json.RawMessage(params)})
	return id, answer
}

func (p *peer) rpc(method, params string) *jsonrpc.Response {
	p.t.Helper()
	_, answer := p.start(method, p.params(params, ""))
	res, ok := <-answer
	if !ok {
		p.t.Fatalf("%s: connection ended", method)
	}
	return res
}

// A toolResult is a tool's result as it came.
type toolResult struct {
	IsError bool `json:"isError"`
	Content []struct {
		Type, Text string
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
}

func (r *toolResult) messages(t testing.TB) []task.Message {
	t.Helper()
	var all []task.Message
	for _, b := range r.Content {
		m, ok, err := task.Parse(b.Text)
		if err != nil || !ok || b.Type != "text" {
			t.Errorf("%q is no message: %v", b.Text, err)
		}
		all = append(all, m)
	}
	return all
}

func (r *toolResult) text() string {
	var all []string
	for _, b := range r.Content {
		all = append(all, b.Text)
	}
	return strings.Join(all, "\n")
}

// call calls a tool.
func (p *peer) call(tool, args string) *toolResult {
	p.t.Helper()
	res := p.rpc("tools/call", `{"name":"`+tool+`","arguments":`+args+`}`)
	if res.Error != nil {
		p.t.Fatalf("%s: %v", tool, res.Error)
	}
	r := &toolResult{}
	if err := json.Unmarshal(res.Result, r); err != nil {
		p.t.Fatal(err)
	}
	return r
}

// heard are the callbacks so far, as "task event result".
func (p *peer) heard() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	for _, m := range p.messages {
		all = append(all, m.TaskID+" "+m.Event+" "+string(m.Result))
	}
	return all
}

func (p *peer) came() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.order...)
}

// withTask are the arguments of count with the newer metadata.
func withTask(steps int, id string) string {
	return fmt.Sprintf(`{"steps":%d,"mcpc_params":{"session_id":"s","task_id":%q}}`, steps, id)
}
