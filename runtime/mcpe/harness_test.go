package mcpe_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	_ "time/tzdata"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type arguments struct {
	Repo string `json:"repo,omitempty"`
}

type payload struct {
	N    int    `json:"n"`
	Text string `json:"text,omitempty"`
}

func typeOf(name string, info *events.MCPE) events.Type[arguments, payload] {
	return events.Type[arguments, payload]{Info: events.Info{
		Name: name, Description: "About " + name + ".",
		InputSchema:   json.RawMessage(`{"type":"object","properties":{"repo":{"type":"string"}},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"},"text":{"type":"string"}},"required":["n"]}`),
		MCPE:          info,
	}}
}

// A rig is a server with MCPE on it.
type rig struct {
	t     testing.TB
	srv   *mcp.Server
	es    *server.Server
	a     *mcpe.Adapter
	emits map[string]*server.Emitter[payload]
	ran   sync.WaitGroup
	stops []func()
}

// newRig makes a server with the types github.push, github.issue.opened (high, tags ops and bugs)
// and slack.message (low).
func newRig(t testing.TB, so server.Options, o mcpe.Options) *rig {
	t.Helper()
	g := &rig{t: t, emits: map[string]*server.Emitter[payload]{}}
	g.srv = mcp.NewServer(&mcp.Implementation{Name: "test", Version: "7"}, nil)
	if so.Logger == nil {
		so.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if g.es, err = server.New(g.srv, so); err != nil {
		t.Fatal(err)
	}
	if g.a, err = mcpe.New(g.es, o); err != nil {
		t.Fatal(err)
	}
	g.register("github.push", nil)
	g.register("github.issue.opened", &events.MCPE{Priority: "high", Tags: []string{"ops", "bugs"}})
	g.register("slack.message", &events.MCPE{Priority: "low"})
	g.register("hidden.type", &events.MCPE{Disabled: true})
	return g
}

func (g *rig) register(name string, info *events.MCPE) {
	g.t.Helper()
	e, err := server.Register(g.es, typeOf(name, info), server.Hooks[arguments, payload]{})
	if err != nil {
		g.t.Fatal(err)
	}
	g.emits[name] = e
}

// emit emits payloads n with ids "<name>-<n>".
func (g *rig) emit(name string, ns ...int) {
	g.t.Helper()
	for _, n := range ns {
		if err := g.emits[name].Emit(context.Background(), payload{N: n}, events.WithID(fmt.Sprintf("%s-%d", name, n))); err != nil {
			g.t.Fatal(err)
		}
	}
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
}

// bubble runs f in a synctest bubble with a rig that is stopped at its end.
func bubble(t *testing.T, o mcpe.Options, f func(g *rig)) {
	t.Helper()
	bubbleWith(t, server.Options{}, o, f)
}

func bubbleWith(t *testing.T, so server.Options, o mcpe.Options, f func(g *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, so, o)
		defer g.stop()
		f(g)
	})
}

const legacy, modern = "2025-11-25", "2026-07-28"

// as is a principal for everybody.
func as(name string) func(context.Context, *mcp.RequestExtra) string {
	return func(context.Context, *mcp.RequestExtra) string { return name }
}

func cron(expression, more string) string {
	return `{"channels":["cron"],"cronSchedule":{"expression":"` + expression + `"` + more + `}}`
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func handlerOf(g *rig) http.Handler {
	return transport.NewHandler(g.es, transport.HandlerOptions{})
}

// fixed resolves every name to one public address.
type fixed struct{}

func (fixed) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.215.14")}, nil
}

func serve(ctx context.Context, g *rig, t mcp.Transport) { _ = transport.Run(ctx, g.es, t) }
