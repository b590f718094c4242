package mcpc_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/peertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const legacy, modern = peertest.Legacy, peertest.Modern

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
	InputSchema:  json.RawMessage(`{"type":"object","properties":{"steps":{"$ref":"#/$defs/Steps"},"fail":{"type":"string"}},"required":["steps"],"additionalProperties":false,"$defs":{"Steps":{"type":"integer","minimum":0}}}`),
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

// A peer keeps the order of what came, and the callbacks.
type peer struct {
	*peertest.Peer
	mu       sync.Mutex
	order    []string // "id <n>", "callback <event>", "<method> <message>"
	messages []task.Message
}

// dial connects a peer.
func (g *rig) dial(version string) *peer {
	g.t.Helper()
	p := &peer{}
	p.Peer = peertest.Dial(g.t, g.es, &g.ran, version, `{}`, func(m jsonrpc.Message) { p.take(g.t, m) })
	g.stops = append(g.stops, p.HangUp)
	return p
}

func (p *peer) take(t testing.TB, m jsonrpc.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m := m.(type) {
	case *jsonrpc.Response:
		id := fmt.Sprint(m.ID.Raw())
		if id != "MCPC_CALLBACK" {
			p.order = append(p.order, "id "+id)
			return
		}
		var r peertest.Result
		if err := json.Unmarshal(m.Result, &r); err != nil || len(r.Content) != 1 {
			t.Errorf("callback %s: %v", m.Result, err)
			return
		}
		msg := messages(t, &r)[0]
		p.order = append(p.order, "callback "+msg.Event)
		p.messages = append(p.messages, msg)
	case *jsonrpc.Request:
		var n struct {
			Progress float64
			Message  string
		}
		_ = json.Unmarshal(m.Params, &n)
		p.order = append(p.order, fmt.Sprintf("%s %v %s", m.Method, n.Progress, n.Message))
	}
}

func messages(t testing.TB, r *peertest.Result) []task.Message {
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

func text(r *peertest.Result) string {
	var all []string
	for _, b := range r.Content {
		all = append(all, b.Text)
	}
	return strings.Join(all, "\n")
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
