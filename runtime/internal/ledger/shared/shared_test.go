package shared_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger/shared"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func on(t *testing.T, e engine.Engine, durable bool) *shared.Store {
	t.Helper()
	s, err := shared.Open(t.Context(), e, durable)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The ledger passes the suites of stores on the engine of one process and on that of several.
func TestStores(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *shared.Store{
		"one process":       func(t *testing.T) *shared.Store { return on(t, memory.New(), false) },
		"several processes": func(t *testing.T) *shared.Store { return on(t, memory.NewDB().Open(), true) },
	} {
		t.Run(name, func(t *testing.T) {
			storetest.TestStore(t, func(t *testing.T) store.Store { return open(t) })
			storetest.TestSubscriptions(t, func(t *testing.T) store.SubscriptionStore { return open(t) })
			enginetest.TestAttemptPasses(t, func(t *testing.T) enginetest.Attempts { return open(t) })
			enginetest.TestActions(t, func(t *testing.T) domain.Actions { return open(t) }, nil)
		})
	}
}

// A network makes calls of engines slow, and can lose the answers of commits.
type network struct {
	latency time.Duration
	lose    int64        // one of so many answers of commits is lost; 0 loses none
	slow    atomic.Int64 // nanoseconds of a commit that changes a subscription
	commits atomic.Int64
}

func (n *network) wrap(e engine.Engine) engine.Engine {
	return faults.Wrap(e, faults.Plan{Before: func(c faults.Call) faults.Fault {
		wait := n.latency
		if c.Commit != nil && slices.ContainsFunc(c.Commit.Writes, ofSubscription) {
			wait += time.Duration(n.slow.Load())
		}
		time.Sleep(wait)
		if c.Commit != nil && n.lose > 0 && n.commits.Add(1)%n.lose == 0 {
			return faults.Unanswered
		}
		return faults.None
	}})
}

func ofSubscription(w store.Write) bool {
	return strings.HasPrefix(w.Key, "sub/") || strings.HasPrefix(w.Key, "pro/")
}

// It passes the suite of shared stores with two processes, on a fast network, on a slow one, and if answers are lost.
func TestShared(t *testing.T) {
	for name, open := range map[string]func() *network{
		"fast":         func() *network { return &network{} },
		"slow":         func() *network { return &network{latency: 3 * time.Millisecond} },
		"lost answers": func() *network { return &network{lose: 3} },
	} {
		t.Run(name, func(t *testing.T) {
			var n *network
			enginetest.TestShared(t, enginetest.Shared{
				Run: synctest.Test,
				Open: func(t *testing.T) (a, b domain.Shared) {
					n = open()
					db := memory.NewDB()
					return on(t, n.wrap(db.Open()), true), on(t, n.wrap(db.Open()), true)
				},
				Slow: func(*testing.T, domain.Shared) { n.slow.Store(int64(20 * time.Millisecond)) },
			})
		})
	}
}
