package clustertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/clustertest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// inMemory runs the suite on stores whose times differ from that of their cluster by what ahead returns. n counts the
// stores of a test, and age is the time since its begin.
func inMemory(t *testing.T, ahead func(n int, age time.Duration) time.Duration) {
	clustertest.Run(t, clustertest.Engine{
		New: func(*testing.T) clustertest.Store {
			c, n, began := memcluster.New(), 0, time.Now()
			return clustertest.Store{
				Open: func() engine.Shared {
					number := n
					n++
					return &memoryStore{c.Open(), func() time.Duration { return ahead(number, time.Since(began)) }}
				},
				Unmark: c.Unmark,
				Silence: func(s engine.Shared, log string) {
					s.(*memoryStore).Inject(memcluster.Faults{Fail: func(op string) error {
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

func TestMemory(t *testing.T) {
	inMemory(t, func(int, time.Duration) time.Duration { return 0 })
}

// REP-8, REP-13: no process needs the same time as another.
func TestMemoryClocksApart(t *testing.T) {
	inMemory(t, func(n int, _ time.Duration) time.Duration { return time.Duration(n%3) * 450 * time.Millisecond })
}

// REP-8, REP-13: the clock of the store may be set back under the processes.
func TestMemoryClockSetBack(t *testing.T) {
	inMemory(t, func(_ int, age time.Duration) time.Duration {
		if age < 3*time.Second {
			return 0
		}
		return -30 * time.Second
	})
}

// A memoryStore tells a time that differs from that of its cluster.
type memoryStore struct {
	*memcluster.Store
	ahead func() time.Duration
}

func (s *memoryStore) Now(ctx context.Context) (time.Time, error) {
	now, err := s.Store.Now(ctx)
	return now.Add(s.ahead()), err
}

func (s *memoryStore) Join(ctx context.Context, name string, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	l, err := s.Store.Join(ctx, name, ttl, types, report)
	l.Now = l.Now.Add(s.ahead())
	return l, err
}

func (s *memoryStore) Renew(ctx context.Context, fence uint64, ttl time.Duration, types map[string]string, report json.RawMessage) (engine.Lease, error) {
	l, err := s.Store.Renew(ctx, fence, ttl, types, report)
	l.Now = l.Now.Add(s.ahead())
	return l, err
}
