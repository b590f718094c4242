package mcpeclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpeclient"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpe/mcpewire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child()
		return
	}
	goleak.VerifyTestMain(m)
}

// exampleServer is a rig outside of tests.
func exampleServer() *rig { return newRig(&testing.B{}, server.Options{}) }

type arguments struct {
	Repo string `json:"repo,omitempty"`
}

type payload struct {
	N int `json:"n"`
}

var pushed = events.Type[arguments, payload]{Info: events.Info{
	Name: "github.push", Description: "A push.",
	InputSchema:   json.RawMessage(`{"type":"object","properties":{"repo":{"type":"string"}}}`),
	PayloadSchema: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`),
	MCPE:          &events.MCPE{Priority: "high"},
}}

// A rig is a real server that can be connected to again and again.
type rig struct {
	t    testing.TB
	srv  *mcp.Server
	es   *server.Server
	a    *mcpe.Adapter
	push *server.Emitter[payload]
	more map[string]*server.Emitter[payload] // of types beside github.push

	mu   sync.Mutex
	down bool // nobody can connect
	cut  []func()
	runs sync.WaitGroup
}

func newRig(t testing.TB, so server.Options) *rig { return newRigWith(t, so, mcpe.Options{}) }

func newRigWith(t testing.TB, so server.Options, o mcpe.Options) *rig {
	t.Helper()
	g := &rig{t: t, more: map[string]*server.Emitter[payload]{}, srv: mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)}
	so.Logger = slog.New(slog.DiscardHandler)
	o.Logger = so.Logger
	var err error
	if g.es, err = server.New(g.srv, so); err != nil {
		t.Fatal(err)
	}
	if g.a, err = mcpe.New(g.es, o); err != nil {
		t.Fatal(err)
	}
	if g.push, err = server.Register(g.es, pushed, server.Hooks[arguments, payload]{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"github.issue.opened", "gitlab.push"} {
		typ := pushed
		typ.Name, typ.MCPE = name, &events.MCPE{Priority: "low", Tags: []string{"ops"}}
		if g.more[name], err = server.Register(g.es, typ, server.Hooks[arguments, payload]{}); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func (g *rig) stop() {
	g.es.Shutdown(context.Background())
	if err := g.a.Shutdown(context.Background()); err != nil {
		g.t.Error(err)
	}
	g.drop()
	g.runs.Wait()
}

// drop cuts every connection.
func (g *rig) drop() { g.interrupt(false) }

// interrupt cuts every connection; with down nobody can connect again.
func (g *rig) interrupt(down bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.down = down
	for _, f := range g.cut {
		f()
	}
	g.cut = nil
}

func (g *rig) dial(context.Context) (mcp.Transport, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down {
		return nil, errors.New("nobody is there")
	}
	ct, st := mcp.NewInMemoryTransports()
	ctx, cancel := context.WithCancel(context.Background())
	g.runs.Go(func() { _ = transport.Run(ctx, g.es, st) })
	g.cut = append(g.cut, cancel)
	return ct, nil
}

func (g *rig) connect(version string) *client.Client {
	g.t.Helper()
	c, err := client.Connect(g.t.Context(), client.Dial(g.dial), client.Options{ProtocolVersion: version})
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// connected runs f in a bubble with a server and a client that speaks a revision of the protocol to it.
func connected(t *testing.T, o server.Options, version string, f func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, o)
		defer g.stop()
		c := g.connect(version)
		defer c.Close()
		f(t, g, c, mcpeclient.New(c))
	})
}

// withoutMCPE runs f in a bubble with a client of a server that has no MCPE.
func withoutMCPE(t *testing.T, f func(t *testing.T, c *client.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
		c, err := client.Connect(t.Context(), client.Dial(func(context.Context) (mcp.Transport, error) {
			ct, st := mcp.NewInMemoryTransports()
			_, err := srv.Connect(context.Background(), st, nil)
			return ct, err
		}), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f(t, c)
	})
}

func (g *rig) emit(ns ...int) {
	g.t.Helper()
	for _, n := range ns {
		if err := g.push.Emit(context.Background(), payload{n}); err != nil {
			g.t.Fatal(err)
		}
	}
}

type item struct {
	n   int
	gap bool
	err error
}

// items reads a subscription's iterator into a channel.
func items(sub *client.TypedSubscription[arguments, payload]) <-chan item {
	c := make(chan item, 100)
	go func() {
		defer close(c)
		for ev, err := range sub.Events() {
			if errors.As(err, new(*client.GapError)) {
				c <- item{gap: true}
				continue
			}
			c <- item{ev.Data.N, false, err}
		}
	}()
	return c
}

func next(t testing.TB, c <-chan item) item {
	t.Helper()
	select {
	case i, ok := <-c:
		if !ok {
			t.Fatal("the iteration has ended")
		}
		return i
	case <-time.After(10 * time.Minute): // of the bubble's clock
		t.Fatal("nothing comes")
	}
	return item{}
}

// Specification 12.2 MUST 1 and 2, MCPE-CAP-2, MCPE-NOTE-4: the typed iterator of a generated
// subscription receives by MCPE, on a session and on the listen request of 2026-07-28; when it is
// closed the subscription is removed (12.2 MUST 3).
func TestSubscribe(t *testing.T) {
	for _, version := range []string{wire.RevisionLegacy, wire.RevisionStateless} {
		t.Run(version, func(t *testing.T) {
			connected(t, server.Options{Principal: func(context.Context, *mcp.RequestExtra) string { return "ann" }}, version, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
				if ok, err := m.Supported(t.Context()); !ok || err != nil {
					t.Fatal(ok, err)
				}
				caps, err := m.Capabilities(t.Context())
				if err != nil || caps == nil || caps.ProtocolVersion != "2025-01-01" || caps.Subscriptions.MaxActive != 100 {
					t.Errorf("capabilities %+v, %v", caps, err)
				}
				sub, err := client.Subscribe(t.Context(), c, pushed, arguments{}, m.Via(mcpeclient.Options{Priority: []string{"high"}}))
				if err != nil {
					t.Fatal(err)
				}
				if sub.Subscription().Mode() != "mcpe" {
					t.Errorf("mode %q", sub.Subscription().Mode())
				}
				got := items(sub)
				g.emit(1, 2)
				for _, n := range []int{1, 2} {
					if i := next(t, got); i != (item{n: n}) {
						t.Fatalf("got %+v", i)
					}
				}
				if l, err := m.List(t.Context(), "active"); err != nil || len(l) != 1 || l[0].ClientID != "ann" {
					t.Fatalf("list %+v, %v", l, err)
				}
				sub.Close()
				if l, err := m.List(t.Context(), ""); err != nil || len(l) != 0 {
					t.Errorf("after Close the server has %+v, %v", l, err)
				}
			})
		})
	}
}

// Specification 12.2 SHOULD 1 and 2: batches and expiry.
func TestBatchAndExpiry(t *testing.T) {
	connected(t, server.Options{}, wire.RevisionLegacy, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
		d := &mcpewire.Delivery{Channels: []string{"cron"}, CronSchedule: &mcpewire.CronSchedule{Expression: "@hourly", Timezone: "UTC", AggregateEvents: true, MaxEventsPerDelivery: 10}}
		sub, err := client.Subscribe(t.Context(), c, pushed, arguments{}, m.Via(mcpeclient.Options{Delivery: d, ExpiresAt: time.Now().Add(90 * time.Minute)}))
		if err != nil {
			t.Fatal(err)
		}
		got := items(sub)
		g.emit(1, 2)
		time.Sleep(time.Hour)
		if a, b := next(t, got), next(t, got); a.n != 1 || b.n != 2 {
			t.Errorf("got %+v, %+v", a, b)
		}
		time.Sleep(31 * time.Minute)
		if i := next(t, got); !errors.Is(i.err, mcpeclient.ErrExpired) {
			t.Errorf("got %+v", i)
		}
	})
}

// Specification 12.2 SHOULD 3: after a loss of the session the subscription is found again by
// events_list, or made anew where it died with the session; either way the iterator tells of a gap.
func TestReconnect(t *testing.T) {
	for _, principal := range []string{"ann", ""} {
		t.Run("principal "+principal, func(t *testing.T) {
			connected(t, server.Options{Principal: func(context.Context, *mcp.RequestExtra) string { return principal }}, wire.RevisionLegacy, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
				sub, err := client.Subscribe(t.Context(), c, pushed, arguments{}, m.Via(mcpeclient.Options{}))
				if err != nil {
					t.Fatal(err)
				}
				before, _ := m.List(t.Context(), "")
				got := items(sub)
				g.emit(1)
				if i := next(t, got); i.n != 1 {
					t.Fatalf("got %+v", i)
				}
				g.drop()
				if i := next(t, got); !i.gap {
					t.Fatalf("got %+v, want a gap", i)
				}
				after, err := m.List(t.Context(), "")
				if err != nil || len(after) != 1 || (after[0].ID == before[0].ID) != (principal != "") {
					t.Fatalf("before %+v, after %+v, %v", before, after, err)
				}
				g.emit(2)
				if i := next(t, got); i.n != 2 {
					t.Fatalf("got %+v", i)
				}
			})
		})
	}
}

// Specification 12.2 MUST 3: when the client closes, what it subscribed to is removed first.
func TestCleanUpOnClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, server.Options{Principal: func(context.Context, *mcp.RequestExtra) string { return "ann" }})
		defer g.stop()
		c := g.connect(wire.RevisionLegacy)
		m := mcpeclient.New(c)
		if _, err := client.Subscribe(t.Context(), c, pushed, arguments{}, m.Via(mcpeclient.Options{})); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		c.Close()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("Close takes %v", took)
		}
		other := g.connect(wire.RevisionLegacy)
		defer other.Close()
		if l, err := mcpeclient.New(other).List(t.Context(), ""); err != nil || len(l) != 0 {
			t.Errorf("left %+v, %v", l, err)
		}
	})
}

// Shutdown removes what was subscribed to and leaves the connection; what it could not remove it says.
func TestShutdown(t *testing.T) {
	connected(t, server.Options{Principal: func(context.Context, *mcp.RequestExtra) string { return "ann" }}, wire.RevisionLegacy, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
		subscribe := func(m *mcpeclient.Client) {
			if _, err := client.Subscribe(t.Context(), c, pushed, arguments{}, m.Via(mcpeclient.Options{})); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		subscribe(m)
		if l, err := m.List(t.Context(), ""); err != nil || len(l) != 1 {
			t.Fatalf("subscribed to %+v, %v", l, err)
		}
		if err := m.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		if l, err := m.List(t.Context(), ""); err != nil || len(l) != 0 {
			t.Errorf("left %+v, %v", l, err)
		}
		late := mcpeclient.New(c)
		subscribe(late)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := late.Shutdown(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("without time: %v", err)
		}
	})
}

// What cannot be done is said at once: arguments, and servers that have no MCPE.
func TestRefusals(t *testing.T) {
	connected(t, server.Options{}, wire.RevisionLegacy, func(t *testing.T, g *rig, c *client.Client, m *mcpeclient.Client) {
		_, err := client.Subscribe(t.Context(), c, pushed, arguments{Repo: "x"}, m.Via(mcpeclient.Options{}))
		if err == nil || !strings.Contains(err.Error(), "arguments") {
			t.Errorf("arguments: %v", err)
		}
		var refusal *mcpeclient.Error
		_, err = client.Subscribe(t.Context(), c, pushed, arguments{}, m.Via(mcpeclient.Options{Priority: []string{"urgent"}}))
		if !errors.As(err, &refusal) || refusal.Code != mcpewire.CodeInvalidParams {
			t.Errorf("priority: %v", err)
		}
		if err := m.Unsubscribe(t.Context(), "none"); !errors.As(err, &refusal) || refusal.Code != mcpewire.CodeNotFound {
			t.Errorf("unknown id: %v", err)
		}
	})
	withoutMCPE(t, func(t *testing.T, c *client.Client) {
		m := mcpeclient.New(c)
		if ok, err := m.Supported(t.Context()); ok || err != nil {
			t.Errorf("Supported = %v, %v", ok, err)
		}
		if _, err := client.Subscribe(t.Context(), c, pushed, arguments{}, m.Via(mcpeclient.Options{})); !errors.Is(err, mcpeclient.ErrNoMCPE) {
			t.Errorf("a plain server: %v", err)
		}
	})
}

// Streamable HTTP, both eras, over real sockets.
func TestHTTP(t *testing.T) {
	for _, version := range []string{wire.RevisionLegacy, wire.RevisionStateless} {
		t.Run(version, func(t *testing.T) {
			g := newRig(t, server.Options{Principal: func(context.Context, *mcp.RequestExtra) string { return "ann" }})
			ts := httptest.NewServer(transport.NewHandler(g.es, transport.HandlerOptions{}))
			defer func() { g.stop(); ts.CloseClientConnections(); ts.Close(); ts.Client().CloseIdleConnections() }()
			c, err := client.Connect(t.Context(), client.HTTP(ts.URL, ts.Client()), client.Options{ProtocolVersion: version})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			m := mcpeclient.New(c)
			sub, err := client.Subscribe(t.Context(), c, pushed, arguments{}, m.Via(mcpeclient.Options{}))
			if err != nil {
				t.Fatal(err)
			}
			got := items(sub)
			deadline := time.After(time.Minute)
			for {
				g.emit(7) // a legacy client's stream may not be open yet
				select {
				case i := <-got:
					if i.n != 7 || i.err != nil {
						t.Fatalf("got %+v", i)
					}
					return
				case <-deadline:
					t.Fatal("nothing comes")
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
}
