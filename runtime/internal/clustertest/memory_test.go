package clustertest_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/clustertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func TestMemory(t *testing.T) {
	clustertest.Run(t, clustertest.Engine{
		New: func(*testing.T) clustertest.Store {
			c := memcluster.New()
			return clustertest.Store{
				Open:   func() engine.Shared { return c.Open() },
				Unmark: c.Unmark,
				Silence: func(s engine.Shared, log string) {
					s.(*memcluster.Store).Inject(memcluster.Faults{Fail: func(op string) error {
						if strings.HasSuffix(op, " "+log) {
							return errors.New("it does not get through")
						}
						return nil
					}})
				},
			}
		},
		Run:    synctest.Test,
		Bubble: true,
	})
}
