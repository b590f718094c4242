package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/throwaway"
)

// emitWriters is the number of concurrent writers across all replicas and types.
const emitWriters = 48

var (
	emitTypes    = []int{1, 4, manyTypes}
	emitReplicas = []int{1, 3, 6}
)

// emitTargets are the minimum ratios to the limit, by types and replicas.
var emitTargets = map[[2]int]string{{1, 1}: "≥ 0.40", {1, 3}: "≥ 0.33"}

// An emitCluster is a set of replicas on a dedicated PostgreSQL server, with an equal number of processes that insert
// rows directly. The server is dedicated because a replica that does not emit would read the events of the others.
type emitCluster struct{ raw, replicas []*process }

// benchEmits measures emits at replicas. The limit is the same number of processes, which insert the same rows for the
// same writers and batch waiting rows into one statement.
func benchEmits(ctx context.Context, s settings) ([]row, error) {
	clusters := map[int]*emitCluster{}
	for _, n := range emitReplicas {
		address, stop, err := database()
		if errors.Is(err, throwaway.ErrMissing) {
			fmt.Fprintln(os.Stderr, "bench: NOT MEASURED: emits, since PostgreSQL is not installed")
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer stop()
		c := &emitCluster{}
		clusters[n] = c
		for range n {
			for kind, into := range map[string]*[]*process{"raw": &c.raw, "replica": &c.replicas} {
				p, err := startIn(ctx, kind, address)
				if err != nil {
					return nil, err
				}
				defer p.stop()
				*into = append(*into, p)
			}
		}
	}
	var rows []row
	for _, types := range emitTypes {
		for _, n := range emitReplicas {
			limit, ours, err := measureInTurns(s.rounds,
				func() (float64, error) { return writeRate(clusters[n].raw, types, emitWriters/n, s.duration) },
				func() (float64, error) { return writeRate(clusters[n].replicas, types, emitWriters/n, s.duration) })
			if err != nil {
				return nil, err
			}
			what := fmt.Sprintf("emits, types: %d, replicas: %d, writers: %d in all; limit: batched INSERTs", types, n, emitWriters)
			rows = append(rows, row{what, perSecond(limit), perSecond(ours), ours / limit, emitTargets[[2]int{types, n}]})
		}
	}
	const several = 3
	one, more, err := measureInTurns(s.rounds,
		func() (float64, error) { return writeRate(clusters[1].replicas, manyTypes, emitWriters, s.duration) },
		func() (float64, error) {
			return writeRate(clusters[several].replicas, manyTypes, emitWriters, s.duration)
		})
	what := fmt.Sprintf("emits, types: %d, replicas: %d, writers: %d in each; limit: one replica", manyTypes, several, emitWriters)
	return append(rows, row{what, perSecond(one), perSecond(more), more / one, "≥ 1.00"}), err
}

// measureInTurns measures two rates alternately and returns their medians.
func measureInTurns(rounds int, limit, ours func() (float64, error)) (l, o float64, err error) {
	var limits, own []float64
	for range rounds {
		l, err := limit()
		if err != nil {
			return 0, 0, fmt.Errorf("limit: %w", err)
		}
		o, err := ours()
		if err != nil {
			return 0, 0, fmt.Errorf("ours: %w", err)
		}
		limits, own = append(limits, l), append(own, o)
	}
	return median(limits), median(own), nil
}

// writeRate makes processes write occurrences of the given number of types with the given number of writers each. It
// returns the sum of their rates.
func writeRate(processes []*process, types, writers int, d time.Duration) (float64, error) {
	rates, errs := make([]float64, len(processes)), make([]error, len(processes))
	var wg sync.WaitGroup
	for i, p := range processes {
		wg.Go(func() {
			text, err := p.get(fmt.Sprintf("%s?types=%d&writers=%d&for=%s", loadPath, types, writers, d))
			if err == nil {
				rates[i], err = strconv.ParseFloat(text, 64)
			}
			errs[i] = err
		})
	}
	wg.Wait()
	sum := 0.0
	for _, r := range rates {
		sum += r
	}
	return sum, errors.Join(errs...)
}
