package memcluster

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Faults are faults between a store and its cluster. Steps are named after the methods, such as "Renew"; steps of an
// owner have a prefix, such as "Owned.SaveProgress", and steps of a log have its name after a space: "Append
// incidents". "news incidents" are the notifications of other stores' appends. The functions are called from many
// goroutines.
type Faults struct {
	// Fail returns an error to make a step fail without effect, or nil.
	Fail func(op string) error
	// Lost reports whether the answer of a step is lost: the step has its effect, and the error is
	// [store.ErrUncertain].
	Lost func(op string) bool
	// Latency is how long a request takes to reach the cluster. A notification of another store's append takes as
	// long.
	Latency time.Duration
	// Deaf suppresses notifications of other stores' appends: the store finds them only by requests.
	Deaf bool
}

// Inject replaces the faults of the store; the zero value ends them.
func (s *Store) Inject(f Faults) {
	s.mu.Lock()
	s.faults = f
	logs := s.opened()
	s.mu.Unlock()
	for _, l := range logs {
		l.news() // deliver entries that were appended while the store was deaf
	}
}

// opened returns the open logs. The caller holds s.mu.
func (s *Store) opened() (all []*Log) {
	for _, l := range s.logs {
		all = append(all, l)
	}
	return all
}

// begin waits for the latency of a request, or returns why it does not arrive.
func (s *Store) begin(ctx context.Context, op string) (Faults, error) {
	if err := ctx.Err(); err != nil {
		return Faults{}, err
	}
	s.mu.Lock()
	f, closed := s.faults, s.closed
	s.mu.Unlock()
	if closed {
		return f, store.ErrClosed
	}
	if f.Fail != nil {
		if err := f.Fail(op); err != nil {
			return f, err
		}
	}
	if f.Latency > 0 {
		travel := time.NewTimer(f.Latency)
		defer travel.Stop()
		select {
		case <-travel.C:
		case <-ctx.Done():
			return f, ctx.Err()
		}
	}
	return f, nil
}

// answer returns the error of a step that had its effect.
func (f *Faults) answer(op string) error {
	if f.Lost != nil && f.Lost(op) {
		return fmt.Errorf("%s: %w", op, store.ErrUncertain)
	}
	return nil
}

// Slow makes every change of a record take that long, after the check of its hold.
func (c *Cluster) Slow(d time.Duration) {
	c.step <- struct{}{}
	defer func() { <-c.step }()
	c.slow = d
}

// Unmark deletes the marks of a log, as if no owner had stored one.
func (c *Cluster) Unmark(log string) {
	c.step <- struct{}{}
	defer func() { <-c.step }()
	maps.DeleteFunc(c.marks, func(m mark, _ store.Position) bool { return m.log == log })
}

// Outlive ends the lease as if it had expired, without its replica's knowledge.
func (c *Cluster) Outlive(fence uint64) {
	c.step <- struct{}{}
	defer func() { <-c.step }()
	delete(c.leases, fence)
}
