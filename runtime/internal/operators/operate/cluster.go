package operate

import (
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func (a *Admin) Cluster(ctx context.Context) (operator.Cluster, error) {
	p := a.o.Processes
	fence, owned, ok := p.Status()
	shared, _ := a.o.Store.(engine.Shared)
	if !ok || shared == nil {
		return operator.Cluster{}, fmt.Errorf("this process does not share its store: %w", events.NewError(wire.Unsupported, map[string]string{"feature": "cluster"}))
	}
	found, err := shared.Cluster(ctx)
	if err != nil {
		return operator.Cluster{}, fmt.Errorf("reading the processes that share the store: %w", err)
	}
	c := operator.Cluster{Replicas: []operator.Replica{}, Leased: fence != 0, Unowned: map[string]int{}, Generation: shared.Generation(), HeardAt: p.LastLook()}
	place := map[uint64]int{}
	for i, r := range found.Replicas {
		place[r.Fence] = i
		c.Replicas = append(c.Replicas, operator.Replica{Name: r.Name, This: r.Fence == fence, Shards: map[string]int{}})
	}
	for _, h := range found.Shards {
		if i, ok := place[h.Fence]; ok {
			c.Replicas[i].Shards[h.Shard.Topic]++
		} else {
			c.Unowned[h.Shard.Topic]++
		}
	}
	if owned[engine.OutboxTopic] > 0 {
		age := p.OutboxAge()
		c.OutboxAge = &age
	}
	return c, nil
}
