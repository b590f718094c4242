package memcluster_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func open(*testing.T) *memcluster.Store { return memcluster.New().Open() }

// The cluster passes the suites of all stores.
func TestStore(t *testing.T) {
	storetest.TestStore(t, func(t *testing.T) store.Store { return open(t) })
	storetest.TestSubscriptions(t, func(t *testing.T) store.SubscriptionStore { return open(t) })
	enginetest.TestAttempts(t, func(t *testing.T) enginetest.Attempts { return open(t) })
}

// It also passes with latency, and without notifications.
func TestShared(t *testing.T) {
	for name, faults := range map[string]memcluster.Faults{"at once": {}, "latency": {Latency: 3 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			var c *memcluster.Cluster
			enginetest.TestShared(t, enginetest.Shared{
				Run: synctest.Test,
				Open: func(t *testing.T) (a, b engine.Shared) {
					c = memcluster.New()
					x, y := c.Open(), c.Open()
					x.Inject(faults)
					y.Inject(faults)
					return x, y
				},
				Slow:  func(*testing.T, engine.Shared) { c.Slow(20 * time.Millisecond) },
				Begin: func(_ *testing.T, s engine.Shared) enginetest.Transaction { return s.(*memcluster.Store).Begin() },
			})
		})
	}
}
