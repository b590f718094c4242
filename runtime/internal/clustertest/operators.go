package clustertest

import (
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// operatorTests are about what an operator sees and does of all processes by one of them.
var operatorTests = []test{
	{name: "SRV-8, REP-6: each process shows all of them, and what nobody does", run: clusterIsSeen},
}

func clusterIsSeen(f *fleet) {
	f.start(2)
	a, b := f.members[0], f.members[1]
	see := func(m *member) operator.Cluster {
		f.Helper()
		c, err := m.Admin().Cluster(f.Context())
		if err != nil {
			f.Fatal(err)
		}
		return c
	}
	for _, m := range []*member{a, b} {
		f.wait("all is well", func() bool {
			c := see(m)
			shards, duties, outboxes := 0, 0, 0
			for _, r := range c.Replicas {
				if r.This != (r.Name == m.name) {
					return false
				}
				shards += r.Shards[f.typ.Info.Name]
				duties += r.Shards["/outbox"] + r.Shards["/retention"]
				if r.This {
					outboxes = r.Shards["/outbox"]
				}
			}
			return len(c.Replicas) == 2 && c.Leased && len(c.Unowned) == 0 && shards == 16 && duties == 2 && !c.HeardAt.IsZero() && (c.OutboxAge != nil) == (outboxes > 0)
		})
	}
	f.sink(b)
	f.wait("the one that died is gone, and nothing is left undone", func() bool {
		c := see(a)
		return len(c.Replicas) == 1 && len(c.Unowned) == 0 && c.Replicas[0].Shards[f.typ.Info.Name] == 16 && c.OutboxAge != nil
	})
}
