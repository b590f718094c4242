package memcluster

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// Faults say what goes wrong between a store and its cluster. Steps are named after the methods, such as
// "Renew"; those of an owner are, for example, "Owned.SaveProgress", and those of a log have its name after a space:
// "Append incidents", and "news incidents" for what comes unasked. The functions are called from many goroutines.
type Faults struct {
	// Fail returns the error of a step, which is not done then; nil lets it pass.
	Fail func(op string) error
	// Lost reports whether the answer of a step is lost: it is done, and the error is [store.ErrUncertain].
	Lost func(op string) bool
	// Latency is how long a request is under way before its step begins, and news of another's append before
	// this store has it.
	Latency time.Duration
	// Deaf tells that no news of others' appends come: they are found by asking.
	Deaf bool
}

// Inject replaces the faults of the store; the zero value ends them.
func (s *Store) Inject(f Faults) {
	s.mu.Lock()
	s.faults = f
	logs := s.opened()
	s.mu.Unlock()
	for _, l := range logs {
		l.news() // what came while it was deaf
	}
}

// opened returns the logs; s.mu is held.
func (s *Store) opened() (all []*Log) {
	for _, l := range s.logs {
		all = append(all, l)
	}
	return all
}

// begin lets a request travel, or returns why it does not arrive.
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

// answer returns the error of a step that was done.
func (f *Faults) answer(op string) error {
	if f.Lost != nil && f.Lost(op) {
		return fmt.Errorf("%s: %w", op, store.ErrUncertain)
	}
	return nil
}

// Slow has every change of a record take so long, after its hold was checked.
func (c *Cluster) Slow(d time.Duration) {
	c.step <- struct{}{}
	defer func() { <-c.step }()
	c.slow = d
}

// Unmark forgets how far a log was offered, as if no owner had noted it.
func (c *Cluster) Unmark(log string) {
	c.step <- struct{}{}
	defer func() { <-c.step }()
	maps.DeleteFunc(c.marks, func(m mark, _ store.Position) bool { return m.log == log })
}

// Outlive ends the lease as if its time were over, which its replica does not know.
func (c *Cluster) Outlive(fence uint64) {
	c.step <- struct{}{}
	defer func() { <-c.step }()
	delete(c.leases, fence)
}
