package verify

import (
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// A failureBudget bounds failed verifications per destination host and per principal in a sliding
// minute (VER-3). Successes cost nothing, so that a busy receiver that many share is not
// throttled; but as long as the outcome of those under way is open, no more of them run than may
// still fail: the rest waits.
type failureBudget struct {
	mu      sync.Mutex
	byKey   map[budgetKey]*failures
	sweepAt int
}

type budgetKey struct{ kind, name string }

type failures struct {
	at      []time.Time // ascending, within the window
	running int
	waiting []chan struct{} // closed when something has changed
}

const (
	budgetWindow = time.Minute
	// minSweep is how many keys are kept without a look at whether they still count.
	minSweep = 1024
)

var errOverBudget = events.NewError(wire.ResourceExhausted, map[string]string{"limit": "verifications"})

// begin takes part in the budget of both keys, waiting for others' outcomes where it has to. The
// caller calls finish with the outcome.
func (b *failureBudget) begin(ctx context.Context, principal, host string, limit int) (finish func(ok bool), err error) {
	keys := [2]budgetKey{{"host", host}, {"principal", principal}}
	for {
		wait, over := b.enter(keys, limit)
		if over {
			return nil, errOverBudget
		}
		if wait == nil {
			var once sync.Once
			return func(ok bool) { once.Do(func() { b.leave(keys, ok) }) }, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded {
				return nil, fault.Undecided()
			}
			return nil, ctx.Err()
		}
	}
}

// enter takes a place under both keys; wait is not nil when one of them has none yet.
func (b *failureBudget) enter(keys [2]budgetKey, limit int) (wait chan struct{}, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.sweep(now)
	var both [2]*failures
	for i, k := range keys {
		f := b.get(k, now)
		if len(f.at) >= limit {
			return nil, true
		}
		if len(f.at)+f.running >= limit {
			wait = make(chan struct{})
			f.waiting = append(f.waiting, wait)
			return wait, false
		}
		both[i] = f
	}
	both[0].running++
	both[1].running++
	return nil, false
}

func (b *failureBudget) leave(keys [2]budgetKey, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, k := range keys {
		f := b.get(k, now)
		f.running--
		if !ok {
			f.at = append(f.at, now)
		}
		for _, w := range f.waiting {
			close(w)
		}
		f.waiting = nil
	}
}

// get returns the key's failures without those that are too old to count.
func (b *failureBudget) get(k budgetKey, now time.Time) *failures {
	if b.byKey == nil {
		b.byKey = map[budgetKey]*failures{}
	}
	f := b.byKey[k]
	if f == nil {
		f = &failures{}
		b.byKey[k] = f
	}
	f.prune(now)
	return f
}

// sweep forgets keys with nothing to remember, each time that their number has doubled.
func (b *failureBudget) sweep(now time.Time) {
	if len(b.byKey) < max(b.sweepAt, minSweep) {
		return
	}
	for k, f := range b.byKey {
		if f.prune(now); len(f.at)+f.running+len(f.waiting) == 0 {
			delete(b.byKey, k)
		}
	}
	b.sweepAt = 2 * len(b.byKey)
}

func (f *failures) prune(now time.Time) {
	n := 0
	for n < len(f.at) && now.Sub(f.at[n]) >= budgetWindow {
		n++
	}
	f.at = f.at[n:]
}
