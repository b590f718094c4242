package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/performed"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// filter contains the arguments of the event type "e".
type filter struct {
	Severity *string  `json:"severity,omitzero"`
	MinLevel *float64 `json:"minLevel,omitzero"`
}

type incident struct {
	ID       string  `json:"id"`
	Severity string  `json:"severity,omitzero"`
	Level    float64 `json:"level,omitzero"`
}

func incidents() events.Type[filter, incident] {
	return events.Type[filter, incident]{Info: events.Info{Name: "e", Description: "An incident.",
		InputSchema:   json.RawMessage(`{"type":"object","properties":{"severity":{"type":"string"},"minLevel":{"type":"number"}},"additionalProperties":false}`),
		PayloadSchema: json.RawMessage(`{"type":"object","properties":{"id":{"type":"string"},"severity":{"type":"string"},"level":{"type":"number"}},"required":["id"]}`),
		Match:         []events.MatchRule{{Argument: "severity", Path: "/severity"}, {Argument: "minLevel", Path: "/level", Op: events.MatchMin}},
	}}
}

// A fleet is a set of servers with webhooks that share one store, and a receiver for their deliveries.
type fleet struct {
	*testing.T
	bubble   bool
	shortest time.Duration // the minimum lease
	Store
	watch    engine.Shared // used by no server
	options  server.Options
	lease    time.Duration // of the members
	webhooks webhooks.Options
	typ      events.Type[filter, incident]
	hooks    server.Hooks[filter, incident]
	// register registers the event type with a new server. By default, the type has an emitter.
	register func(s *server.Server) (*server.Emitter[incident], error)
	r        *receiver

	mu      sync.Mutex
	members []*member
}

// A member is a server of the fleet.
type member struct {
	*server.Server
	f       *fleet
	store   engine.Shared
	emitter *server.Emitter[incident]
	name    string
	gone    bool
}

// Admin returns the operator's view of the member. Its requests return once they are performed.
func (m *member) Admin() performed.Admin { return performed.Admin{Admin: m.Server.Admin()} }

func newFleet(t *testing.T, e Engine) *fleet {
	t.Helper()
	f := &fleet{T: t, bubble: e.Bubble, shortest: e.Lease, r: serve(t), typ: incidents()}
	f.register = func(s *server.Server) (*server.Emitter[incident], error) { return server.Register(s, f.typ, f.hooks) }
	f.Store = e.New(t)
	f.watch = f.Open()
	f.lease = 20 * time.Second // without a crash, no lease expires, even on a busy machine
	f.webhooks = webhooks.Options{Callbacks: f.r.callbacks(), Retry: webhooks.Retry{Jitter: -1}}
	f.options = server.Options{Logger: slog.New(slog.DiscardHandler)}
	if testing.Verbose() {
		f.options.Logger = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	return f
}

// start adds n servers to the fleet and waits until each of them owns its share of the shards.
func (f *fleet) start(n int) {
	f.Helper()
	for range n {
		f.join()
	}
	f.waitSettled()
}

func (f *fleet) join() *member {
	f.Helper()
	m := &member{f: f, store: f.Open()}
	f.mu.Lock()
	m.name = fmt.Sprint("r", len(f.members))
	f.mu.Unlock()
	o := f.options
	o.Store, o.Webhooks, o.Operators = m.store, webhooks.New(f.webhooks), operators.New()
	o.Replicas = replicas.New(replicas.Options{Name: m.name, Lease: max(f.lease, f.shortest)})
	var err error
	if m.Server, err = server.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), o); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := m.Shutdown(ctx); err != nil && !m.gone {
			f.Errorf("%s: Shutdown: %v", m.name, err)
		}
	})
	if m.emitter, err = f.register(m.Server); err != nil {
		f.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = append(f.members, m)
	return m
}

// alive returns the members that have been neither disconnected nor shut down.
func (f *fleet) alive() (all []*member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if !m.gone {
			all = append(all, m)
		}
	}
	return all
}

func (f *fleet) setGone(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.gone = true
}

// disconnect cuts a server off from its store, simulating a crash or a network failure. The server's lease remains
// until it expires.
func (f *fleet) disconnect(m *member) {
	f.Helper()
	f.setGone(m)
	if err := m.store.Close(); err != nil {
		f.Fatal(err)
	}
}

// leave shuts a server down.
func (f *fleet) leave(m *member) {
	f.Helper()
	f.setGone(m)
	if err := m.Shutdown(context.Background()); err != nil {
		f.Fatal(err)
	}
}

// wait polls until a condition is true. It fails after one minute. The limit is that high because a third delivery
// attempt is made only after 35 s.
func (f *fleet) wait(what string, done func() bool) {
	f.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("never: %s", what)
		}
	}
}

// soon is like wait, but in a bubble the condition must become true within two seconds.
func (f *fleet) soon(what string, done func() bool) {
	f.Helper()
	began := time.Now()
	f.wait(what, done)
	if took := time.Since(began); f.bubble && took > 2*time.Second {
		f.Errorf("%s: after %v", what, took)
	}
}

// waitForOrders waits until every process must have received an order (REP-11). Outside a bubble it waits longer,
// because the machine can be busy.
func (f *fleet) waitForOrders() {
	if f.bubble {
		time.Sleep(2 * time.Second)
	} else {
		time.Sleep(5 * time.Second)
	}
}

// idle waits while nothing is expected to arrive. It waits for a minute in a bubble and for a second otherwise.
func (f *fleet) idle() {
	if f.bubble {
		time.Sleep(time.Minute)
	} else {
		time.Sleep(time.Second)
	}
}

// owners returns the shards of the event type by the name of their owner. It also returns the number of shards without
// an owner.
func (f *fleet) owners() (has map[string][]int, free int) {
	f.Helper()
	c, err := f.watch.Cluster(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	names := map[uint64]string{}
	for _, r := range c.Replicas {
		names[r.Fence] = r.Name
	}
	has = map[string][]int{}
	for _, h := range c.Shards {
		switch name := names[h.Fence]; {
		case h.Shard.Topic != f.typ.Info.Name:
		case name == "":
			free++
		default:
			has[name] = append(has[name], h.Shard.Number)
		}
	}
	return has, free
}

// waitSettled waits until every shard of the event type has an owner and each server has its share.
func (f *fleet) waitSettled() {
	f.Helper()
	f.wait("every shard is owned", func() bool {
		has, free := f.owners()
		all := f.alive()
		n := 0
		for _, m := range all {
			n += len(has[m.name])
		}
		fair := true
		for _, m := range all {
			fair = fair && len(has[m.name]) > 0 && len(has[m.name]) >= n/len(all)-2
		}
		return n > 0 && free == 0 && fair && len(has) == len(all)
	})
}

// owner returns the member that delivers to the subscription.
func (f *fleet) owner(id string) (owner *member) {
	f.Helper()
	sub, ok, err := f.watch.Subscription(context.Background(), id)
	if err != nil || !ok {
		f.Fatal(ok, err)
	}
	f.wait("the subscription has an owner", func() bool {
		has, _ := f.owners()
		for _, m := range f.alive() {
			if slices.Contains(has[m.name], sub.Shard) {
				owner = m
				return true
			}
		}
		return false
	})
	return owner
}

// other returns a member that does not deliver to the subscription.
func (f *fleet) other(id string) *member {
	f.Helper()
	owner := f.owner(id)
	for _, m := range f.alive() {
		if m != owner {
			return m
		}
	}
	f.Fatal("every member owns it")
	return nil
}

// fence returns the fence of the member's lease.
func (f *fleet) fence(m *member) uint64 {
	f.Helper()
	c, err := f.watch.Cluster(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range c.Replicas {
		if r.Name == m.name {
			return r.Fence
		}
	}
	f.Fatalf("%s has no lease", m.name)
	return 0
}

// record returns the stored record of a subscription and whether it exists.
func (f *fleet) record(id string) (store.Subscription, bool) {
	f.Helper()
	sub, ok, err := f.watch.Subscription(context.Background(), id)
	if err != nil {
		f.Fatal(err)
	}
	return sub, ok
}

// live returns the total number of live subscriptions of all members.
func (f *fleet) live() (n int) {
	for _, m := range f.alive() {
		n += len(m.Subscriptions())
	}
	return n
}

// equal reports an error if got is not equal to want.
func (f *fleet) equal(what string, got []string, want ...string) {
	f.Helper()
	if !slices.Equal(got, want) {
		f.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A subscribeResult is the result of a subscribe request.
type subscribeResult struct {
	ID             string  `json:"id"`
	RefreshBefore  *string `json:"refreshBefore"`
	Cursor         *string `json:"cursor"`
	Truncated      bool    `json:"truncated"`
	DeliveryStatus *struct {
		Active bool `json:"active"`
	} `json:"deliveryStatus"`
}

// call sends a request with JSON params.
func (m *member) call(principal, method, params string) (json.RawMessage, *jsonrpc.Error) {
	m.f.Helper()
	raw, err := port.Of(m.Server).Call(context.Background(), port.Request{Method: method, Params: json.RawMessage(params), ID: json.RawMessage("1"),
		Principal: principal, Stateless: true, CanStream: true})
	if err == nil {
		return raw, nil
	}
	rerr, ok := err.(*jsonrpc.Error)
	if !ok {
		m.f.Fatalf("%s at %s: %v", method, m.name, err)
	}
	return nil, rerr
}

// params returns the params of a subscribe request. more contains additional members with a leading comma.
func params(url, secret, more string) string {
	return fmt.Sprintf(`{"name":"e","delivery":{"mode":"webhook","url":%q,"secret":%q}%s}`, url, secret, more)
}

func (m *member) subscribe(principal, p string) (s subscribeResult) {
	m.f.Helper()
	raw, rerr := m.call(principal, wire.MethodSubscribe, p)
	if rerr != nil {
		m.f.Fatalf("subscribe at %s: %s: %d %s %s", m.name, p, rerr.Code, rerr.Message, rerr.Data)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		m.f.Fatal(err)
	}
	return s
}

// tryUnsubscribe sends an unsubscribe request and returns its error.
func (m *member) tryUnsubscribe(principal, url string) *jsonrpc.Error {
	m.f.Helper()
	_, rerr := m.call(principal, wire.MethodUnsubscribe, fmt.Sprintf(`{"name":"e","delivery":{"url":%q}}`, url))
	return rerr
}

func (m *member) unsubscribe(principal, url string) {
	m.f.Helper()
	if rerr := m.tryUnsubscribe(principal, url); rerr != nil {
		m.f.Fatalf("unsubscribe at %s: %d %s", m.name, rerr.Code, rerr.Message)
	}
}

func (m *member) emit(i incident) {
	m.f.Helper()
	if err := m.emitter.Emit(context.Background(), i, events.WithID(i.ID)); err != nil {
		m.f.Fatal(err)
	}
}
