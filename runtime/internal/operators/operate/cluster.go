package operate

import (
	"cmp"
	"context"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func (a *Admin) Cluster(ctx context.Context) (operator.Cluster, error) {
	p := a.o.Processes
	fence, _, ok := p.Status()
	shared, _ := a.o.Store.(engine.Shared)
	if !ok || shared == nil {
		return operator.Cluster{}, fmt.Errorf("this process does not share its store: %w", events.NewError(wire.Unsupported, map[string]string{"feature": "cluster"}))
	}
	m := a.reports(ctx)
	c := operator.Cluster{Replicas: []operator.Replica{}, Leased: fence != 0, Unowned: map[string]int{}, Generation: shared.Generation(), HeardAt: p.LastLook(),
		Freshness: m.freshness()}
	var err error
	if c.Conflicts, err = p.Conflicts(m.Cluster); err != nil {
		return operator.Cluster{}, err
	}
	place := map[*replica]int{}
	for _, r := range m.replicas {
		if r.Fence == 0 { // this process, without a lease
			continue
		}
		place[r] = len(c.Replicas)
		d := operator.Replica{Name: r.Name, This: r.this, Shards: map[string]int{}, ReportedAt: r.report.At}
		if r.missing == "" {
			d.Figures, c.OutboxAge = r.report.figures(), cmp.Or(r.report.Outbox, c.OutboxAge)
		}
		c.Replicas = append(c.Replicas, d)
	}
	for _, h := range m.Shards {
		if r := m.owners[h.Shard]; r != nil {
			c.Replicas[place[r]].Shards[h.Shard.Topic]++
		} else {
			c.Unowned[h.Shard.Topic]++
		}
	}
	return c, nil
}
