package shared_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/clustertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/faults"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/engine/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/ledger/shared"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	domain "github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A connection is the store of one server, which a test can cut off.
type connection struct {
	*shared.Store
	engine   *faults.Engine
	silenced atomic.Pointer[string] // the log whose calls fail
}

// silence cuts the server off from a log, and from no other one any more.
func (c *connection) silence(log string) {
	c.silenced.Store(&log)
	c.engine.Lag(0)
	c.engine.Lag(-1, log)
}

// connect opens the DB for one more server. fault adds faults to its calls. Delayed copies of commits arrive from time to
// time.
func connect(t *testing.T, db *memory.DB, fault func(faults.Call) faults.Fault) *connection {
	t.Helper()
	c := &connection{}
	c.engine = faults.Wrap(db.Open(), faults.Plan{
		Before: func(call faults.Call) faults.Fault {
			if log := c.silenced.Load(); log != nil && strings.HasSuffix(call.Op, " "+*log) {
				return faults.Unsent
			}
			return fault(call)
		},
		After: func(call faults.Call, _ error) {
			if call.N%11 == 10 {
				c.engine.Deliver(context.Background())
			}
		},
	})
	c.Store = on(t, c.engine, true)
	return c
}

// unmark deletes the marks of a log.
func unmark(t *testing.T, e engine.Engine, log string) {
	t.Helper()
	if _, err := e.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"mark/" + log + "/", shared.MarkPrefix(log)} {
		page, err := e.Scan(t.Context(), prefix, "", store.MaxCommit)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			c := &store.Commit{Call: rand.Uint64() | 1, Writes: []store.Write{{Key: r.Key, On: r.Revision}}}
			if _, err := e.Commit(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Servers on the ledger pass the suite of clusters.
func TestCluster(t *testing.T) {
	for name, fault := range map[string]func() func(faults.Call) faults.Fault{
		"sound": func() func(faults.Call) faults.Fault { return func(faults.Call) faults.Fault { return faults.None } },
		"lost answers and late commits": func() func(faults.Call) faults.Fault {
			var commits atomic.Int64
			return func(c faults.Call) faults.Fault {
				if c.Commit == nil {
					return faults.None
				}
				switch commits.Add(1) % 9 {
				case 3:
					return faults.Unanswered
				case 6:
					return faults.Late
				case 8:
					return faults.Again
				}
				return faults.None
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			clustertest.Run(t, clustertest.Engine{
				New: func(t *testing.T) clustertest.Store {
					db, f := memory.NewDB(), fault()
					return clustertest.Store{
						Open:    func() domain.Shared { return connect(t, db, f) },
						Unmark:  func(log string) { unmark(t, db.Open(), log) },
						Silence: func(s domain.Shared, log string) { s.(*connection).silence(log) },
					}
				},
				Run:    synctest.Test,
				Bubble: true,
			})
		})
	}
}
