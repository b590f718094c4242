package main

import (
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// emitWriters is the number of concurrent writers across all replicas and types.
const emitWriters = 48

var (
	emitTypes    = []int{1, manyTypes}
	emitReplicas = []int{1, 3, 6}
)

// emitTargets are the minimum ratios to the limit, by types and replicas.
var emitTargets = map[[2]int]string{{1, 1}: "≥ 0.40", {1, 3}: "≥ 0.40"}

// An emitCluster is a set of replicas on a dedicated PostgreSQL server, with an equal number of processes that insert
// rows directly. The server is dedicated because a replica that does not emit would read the events of the others.
type emitCluster struct{ raw, replicas []*process }

// benchEmits measures emits at replicas. The limit is the same number of processes, which insert the same rows for the
// same writers and batch waiting rows into one statement.
func benchEmits(b *bench) {
	clusters := map[int]*emitCluster{}
	for _, n := range emitReplicas {
		address, ok := b.database("emits")
		if !ok {
			return
		}
		c := &emitCluster{}
		clusters[n] = c
		for range n {
			c.raw = append(c.raw, b.start("raw", address))
			c.replicas = append(c.replicas, b.start("replica", address))
		}
	}
	emits := func(processes []*process, types, writers int) func() float64 {
		return func() float64 {
			r, err := writeRate(processes, types, writers, b.duration)
			b.check(err)
			return r
		}
	}
	for _, types := range emitTypes {
		for _, n := range emitReplicas {
			m := b.inTurns(emits(clusters[n].raw, types, emitWriters/n), emits(clusters[n].replicas, types, emitWriters/n))
			what := fmt.Sprintf("emits, types: %d, replicas: %d, writers: %d in all; limit: batched INSERTs", types, n, emitWriters)
			b.against(what, m[0], m[1], rate, emitTargets[[2]int{types, n}])
		}
	}
	const several = 3
	m := b.inTurns(emits(clusters[1].replicas, manyTypes, emitWriters), emits(clusters[several].replicas, manyTypes, emitWriters))
	what := fmt.Sprintf("emits, types: %d, replicas: %d, writers: %d in each; limit: one replica", manyTypes, several, emitWriters)
	b.against(what, m[0], m[1], rate, "≥ 1.00")
}

// writeRate makes processes write occurrences of the given number of types with the given number of writers each. It
// returns the sum of their rates.
func writeRate(processes []*process, types, writers int, d time.Duration) (float64, error) {
	rates := make([]float64, len(processes))
	var asked errgroup.Group
	for i, p := range processes {
		asked.Go(func() error {
			return p.ask(fmt.Sprintf("%s?types=%d&writers=%d&for=%s", loadPath, types, writers, d), &rates[i])
		})
	}
	err := asked.Wait()
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum, err
}
