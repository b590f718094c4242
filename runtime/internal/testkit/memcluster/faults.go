package memcluster

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Faults configures faults between a store and its cluster. A step has the name of its method, such as "Renew". Steps
// of an owner have a prefix, as in "Owned.SaveProgress". Steps of a log are followed by the log's name, as in "Append
// incidents". The name "news incidents" stands for notifications of other stores' appends. The functions can be called
// concurrently.
type Faults struct {
	// Fail returns an error to make a step fail without any effect, or nil.
	Fail func(op string) error
	// Lost reports whether the response of a step is lost. The step then takes effect, but returns
	// [store.ErrUncertain].
	Lost func(op string) bool
	// Latency is how long a request takes to reach the cluster. It also applies to notifications of other stores'
	// appends.
	Latency time.Duration
	// Deaf suppresses notifications of other stores' appends. The store then finds these appends only by requests.
	Deaf bool
}

// Inject replaces the faults of the store. The zero value removes all faults.
func (s *Store) Inject(f Faults) {
	s.mu.Lock()
	s.faults = f
	logs := s.openLogs()
	s.mu.Unlock()
	for _, l := range logs {
		l.notify() // deliver entries that were appended while the store was deaf
	}
}

// openLogs returns the open logs. The caller must hold s.mu.
func (s *Store) openLogs() (all []*Log) {
	for _, l := range s.logs {
		all = append(all, l)
	}
	return all
}

// begin waits for the latency of a request. It returns an error if the request does not reach the cluster.
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

// responseError returns the error of a step that has taken effect, or nil if its response is not lost.
func (f *Faults) responseError(op string) error {
	if f.Lost != nil && f.Lost(op) {
		return fmt.Errorf("%s: %w", op, store.ErrUncertain)
	}
	return nil
}

// Slow delays every change of a record by d after its fence has been checked.
func (c *Cluster) Slow(d time.Duration) {
	c.step <- struct{}{}
	defer func() { <-c.step }()
	c.slow = d
}

// Unmark deletes all marks of a log, as if no owner had stored any.
func (c *Cluster) Unmark(log string) {
	c.step <- struct{}{}
	defer func() { <-c.step }()
	maps.DeleteFunc(c.marks, func(m mark, _ store.Position) bool { return m.log == log })
}

// Outlive ends a lease as if it had expired, without notifying its replica.
func (c *Cluster) Outlive(fence uint64) {
	c.step <- struct{}{}
	defer func() { <-c.step }()
	delete(c.leases, fence)
}
