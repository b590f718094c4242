package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/cluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A fleet is a set of servers with webhooks that serve the event type "e" on one store, and the receiver of their
// deliveries. Package clustertest tests more of them.
type fleet struct {
	servers  []*Server
	emitters []*Emitter[incident]
	r        *receiver
}

// newFleet starts a server on each store, which is a shared one opened again. It waits until each owns its share of the
// shards. change edits the options of all servers.
func newFleet(t testing.TB, change func(*Options), stores ...engine.Shared) *fleet {
	t.Helper()
	r, o := newReceiver(t)
	if change != nil {
		change(&o)
	}
	f := &fleet{r: r}
	for i, st := range stores {
		name := "" // the default
		if i > 0 {
			name = fmt.Sprint("r", i)
		}
		o.Store, o.Replicas = st, replicas.New(replicas.Options{Name: name, Lease: 3 * time.Second})
		s := newServer(t, o)
		f.servers, f.emitters = append(f.servers, s), append(f.emitters, register(t, s, "e", Hooks[filterArgs, incident]{}))
	}
	f.settled(t)
	return f
}

// world is the view of one server.
func (f *fleet) world(t testing.TB, i int) *world { return &world{Server: f.servers[i], t: t, r: f.r} }

// settled waits until every shard of the type is owned by a server that has read it, and all have a share.
func (f *fleet) settled(t testing.TB) {
	t.Helper()
	waitUntil(t, "every shard is owned", func() bool {
		n, fair := 0, true
		for _, s := range f.servers {
			has := s.live().Settled("e")
			n += has
			fair = fair && has >= cluster.Shards/len(f.servers)-2
		}
		return n == cluster.Shards && fair
	})
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
