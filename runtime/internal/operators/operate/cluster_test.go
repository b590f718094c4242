package operate_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A process is one that shares its store with others.
type process struct {
	operate.Processes
	fence  uint64
	owned  map[string]int
	oldest time.Duration
	heard  time.Time
	fails  error
}

func (p *process) Status() (uint64, map[string]int, bool) { return p.fence, p.owned, true }
func (p *process) OutboxAge() time.Duration               { return p.oldest }
func (p *process) LastLook() time.Time                    { return p.heard }

// An idleHost has no connections.
type idleHost struct{ operate.Host }

func (idleHost) Streams() []operate.Stream     { return nil }
func (idleHost) Pollers() []operate.Connection { return nil }

// Conflicts returns the first replica.
func (p *process) Conflicts(of engine.Cluster) (found []operator.SchemaConflict, err error) {
	for _, r := range of.Replicas[:min(1, len(of.Replicas))] {
		found = append(found, operator.SchemaConflict{Older: []string{r.Name}})
	}
	return found, p.fails
}

// K10: an operator sees who shares the store, what nobody does, and what waits; where a process is alone there is
// nothing to see.
func TestSRV8Cluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := newBed(t, setup{}).Admin.Cluster(t.Context()); !errors.Is(err, events.ErrUnsupported) {
			t.Errorf("alone: %v", err)
		}
		st := memcluster.New().Open()
		p := &process{}
		a := operate.New(operate.Options{Store: st, Processes: p, Now: time.Now, Host: idleHost{}})
		ctx := t.Context()
		var fences []uint64
		for _, name := range []string{"a", "b"} {
			l, err := st.Join(ctx, name, time.Minute, nil, nil)
			must(t, err)
			fences = append(fences, l.Fence)
		}
		for topic, n := range map[string]int{"e": 4, engine.OutboxTopic: 1} {
			_, err := st.Establish(ctx, topic, n)
			must(t, err)
		}
		claim := func(fence uint64, shards ...engine.Shard) {
			for _, s := range shards {
				won, err := st.Claim(ctx, fence, []engine.ShardFence{{Shard: s}})
				must(t, err)
				if len(won) != 1 {
					t.Fatalf("%s is not free", s)
				}
			}
		}
		claim(fences[0], engine.Shard{Topic: "e"}, engine.Shard{Topic: "e", Number: 1}, engine.Shard{Topic: engine.OutboxTopic})
		claim(fences[1], engine.Shard{Topic: "e", Number: 2})
		p.fence, p.owned, p.oldest, p.heard = fences[0], map[string]int{"e": 2, engine.OutboxTopic: 1}, time.Minute, time.Now()
		c, err := a.Cluster(ctx)
		must(t, err)
		if len(c.Replicas) != 2 || c.Replicas[0].Name != "a" || !c.Replicas[0].This || c.Replicas[0].Shards["e"] != 2 || c.Replicas[0].Shards[engine.OutboxTopic] != 1 ||
			c.Replicas[1].This || c.Replicas[1].Shards["e"] != 1 || c.Unowned["e"] != 1 || len(c.Unowned) != 1 || !c.Leased || !c.HeardAt.Equal(time.Now()) ||
			c.OutboxAge == nil || *c.OutboxAge != time.Minute || len(c.Conflicts) != 1 || c.Conflicts[0].Older[0] != "a" {
			t.Errorf("%+v", c)
		}
		if c.Replicas[0].Figures == nil || c.Replicas[1].Figures != nil || !slices.Equal(c.Missing, []string{"b has not written its figures."}) {
			t.Errorf("figures: %+v", c)
		}
		p.fails = errTest
		if _, err := a.Cluster(ctx); !errors.Is(err, errTest) {
			t.Errorf("conflicts that cannot be found: %v", err)
		}
		p.fails = nil
		p.fence, p.owned = 0, map[string]int{}
		time.Sleep(2 * time.Minute)
		c, err = a.Cluster(ctx)
		must(t, err)
		if len(c.Replicas) != 0 || c.Leased || c.Unowned["e"] != 4 || c.OutboxAge != nil {
			t.Errorf("after the leases: %+v", c)
		}
		st.Inject(memcluster.Faults{Fail: func(string) error { return errTest }})
		c, err = a.Cluster(ctx)
		must(t, err)
		if len(c.Replicas) != 0 || !slices.Equal(c.Missing, []string{"The processes that share the store cannot be read, so their figures are missing."}) {
			t.Errorf("with a store that cannot be read: %+v", c)
		}
	})
}
