package server

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/cluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// A fleet are servers with webhooks on one store, and the receiver of what they deliver.
type fleet struct {
	t       testing.TB
	open    func() engine.Shared // the store, as another process does
	options Options
	hooks   Hooks[filterArgs, incident]
	payload string // the payloadSchema of who joins; "" for the usual one, "none" for no type at all
	input   string // its inputSchema
	r       *receiver

	mu      sync.Mutex
	members []*sailor
	n       int
}

// A sailor is one of them.
type sailor struct {
	*Server
	store   engine.Shared
	emitter *Emitter[incident]
	name    string
	gone    bool
}

// sail has n servers on one store in memory, in a bubble; change edits the fleet before they join.
func sail(t *testing.T, n int, change func(*fleet), run func(t *testing.T, f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := memcluster.New()
		f := newFleet(t, func() engine.Shared { return c.Open() })
		if change != nil {
			change(f)
		}
		for range n {
			f.join()
		}
		f.settled()
		run(t, f)
	})
}

// onPostgres opens the store of a database of the test's own.
func onPostgres(t testing.TB) (schema string, open func() engine.Shared) {
	t.Helper()
	schema = pgtest.Schema(t)
	return schema, func() engine.Shared { return openShared(t, schema, postgres.Options{}) }
}

func newFleet(t testing.TB, open func() engine.Shared) *fleet {
	t.Helper()
	f := &fleet{t: t, open: open}
	f.r, f.options = newReceiver(t)
	f.options.replica().Lease = 3 * time.Second
	if testing.Verbose() {
		f.options.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	return f
}

func (f *fleet) join() *sailor {
	f.t.Helper()
	o := f.options
	f.n++
	o.Replicas = replicas.New(replicas.Options{Name: fmt.Sprint("r", f.n), Lease: f.options.replica().Lease})
	o.Store = f.open()
	m := &sailor{Server: newServer(f.t, o), store: o.Store.(engine.Shared), name: o.replica().Name}
	m.emitter = f.register(m.Server, f.payload)
	f.t.Cleanup(func() { m.report(f.t) })
	f.mu.Lock()
	defer f.mu.Unlock()
	f.members = append(f.members, m)
	return m
}

// report says after a failure what the server delivers to, and what has come of it.
func (m *sailor) report(t testing.TB) {
	if !t.Failed() {
		return
	}
	t.Logf("%s hears: %t, last read of the control log: %v", m.name, m.processes().(*cluster.Many).Heard(), m.processes().(*cluster.Many).LastLook())
	m.live().Each(anyWebhook, func(h *subscriber.Live) {
		attempts, err := m.Admin().Attempts(context.Background(), h.ID)
		t.Logf("%s delivers to %s %s: %+v, %+v, %+v %v", m.name, h.ID, h.Handle.URL(), h.Handle.Status(), h.Handle.Base(), attempts, err)
	})
}

// register registers "e" with a payloadSchema, or none when it is empty.
func (f *fleet) register(s *Server, payload string) *Emitter[incident] {
	f.t.Helper()
	typ := incidentType("e")
	switch payload {
	case "":
	case "none":
		return nil
	default:
		typ.PayloadSchema = json.RawMessage(payload)
	}
	if f.input != "" {
		typ.InputSchema = json.RawMessage(f.input)
	}
	e, err := Register(s, typ, f.hooks)
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

func (f *fleet) afloat() (all []*sailor) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		if !m.gone {
			all = append(all, m)
		}
	}
	return all
}

// sink ends a server as a crash would.
func (f *fleet) sink(m *sailor) {
	f.mu.Lock()
	m.gone = true
	f.mu.Unlock()
	m.processes().(*cluster.Many).Crash()
	go m.processes().(*cluster.Many).Log.Shutdown() // it waits for nobody
}

// leave shuts a server down.
func (f *fleet) leave(m *sailor) {
	f.t.Helper()
	f.mu.Lock()
	m.gone = true
	f.mu.Unlock()
	if err := m.Shutdown(context.Background()); err != nil {
		f.t.Fatal(err)
	}
}

// settled waits until every shard of the type is owned by somebody who has read it, and all have a share.
func (f *fleet) settled() {
	f.t.Helper()
	waitUntil(f.t, "every shard is owned", func() bool {
		n, fair := 0, true
		all := f.afloat()
		for _, m := range all {
			has := m.live().Settled("e")
			n += has
			fair = fair && has >= cluster.Shards/len(all)-2
		}
		return n == cluster.Shards && fair
	})
}

// owner is who delivers to the subscription.
func (f *fleet) owner(id string) (m *sailor) {
	f.t.Helper()
	waitUntil(f.t, "the subscription is live", func() bool {
		for _, m = range f.afloat() {
			if m.live().Get(id) != nil {
				return true
			}
		}
		return false
	})
	return m
}

func (m *sailor) subscribe(t testing.TB, principal, p string) (s subscribed) {
	t.Helper()
	raw, rerr := call(m.Server, principal, wire.MethodSubscribe, p)
	if rerr != nil {
		t.Fatalf("subscribe at %s: %s: %d %s %s", m.name, p, rerr.Code, rerr.Message, rerr.Data)
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// to returns what came for a callback, in the order of coming.
func (r *receiver) to(url string) (ids []string) {
	for _, d := range r.all() {
		if d.url == url {
			ids = append(ids, d.short())
		}
	}
	return ids
}

// covers reports whether got has all of want and nothing else.
func covers(got, want []string) bool {
	set := slices.Compact(slices.Sorted(slices.Values(got)))
	return slices.Equal(set, slices.Sorted(slices.Values(want)))
}
