package verify

import (
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// A failureBudget limits failed verifications per destination host and per principal in a sliding minute (VER-3). A
// host has a multiple of a principal's budget, so that the failures of one principal do not refuse the others.
// Successes cost nothing, so that a busy shared receiver is not throttled. But while the outcome of running
// verifications is open, at most as many run as may still fail; the rest waits.
type failureBudget struct {
	mu      sync.Mutex
	byKey   map[budgetKey]*failures
	sweepAt int
}

// A budgetKey is a principal or a host.
type budgetKey struct {
	kind budgetKind
	name string
}

type budgetKind uint8

const (
	ofPrincipal budgetKind = iota
	ofHost
	budgetKinds
)

// failures records the failures of one key.
type failures struct {
	at       []time.Time // ascending, within the window
	running  int
	waiting  []chan struct{} // closed when something has changed
	verified time.Time       // when a verification last succeeded; only for a host
}

const (
	budgetWindow = time.Minute
	// unknownHost and knownHost are how many times a principal's budget a host has. A host is known for trustFor after
	// a success.
	unknownHost = 2
	knownHost   = 4
	trustFor    = 10 * time.Minute
	// minSweep is the number of keys up to which none is swept.
	minSweep = 1024
)

var errOverBudget = events.NewError(wire.ResourceExhausted, map[string]string{"limit": "verifications"})

// bound returns how many failures a key may have, given the budget of a principal.
func (f *failures) bound(kind budgetKind, budget int, now time.Time) int {
	switch {
	case kind == ofPrincipal:
		return budget
	case f.trusts(now):
		return knownHost * budget
	default:
		return unknownHost * budget
	}
}

func (f *failures) trusts(now time.Time) bool {
	return !f.verified.IsZero() && now.Sub(f.verified) < trustFor
}

// begin reserves a verification in the budgets of the principal and the host. If necessary it waits for the outcome of
// others. The caller must call finish with the outcome.
func (b *failureBudget) begin(ctx context.Context, principal, host string, budget int) (finish func(ok bool), err error) {
	keys := [budgetKinds]budgetKey{
		ofPrincipal: {ofPrincipal, principal},
		ofHost:      {ofHost, host},
	}
	for {
		wait, err := b.enter(keys, budget)
		if err != nil {
			return nil, err
		}
		if wait == nil {
			var once sync.Once
			return func(ok bool) { once.Do(func() { b.leave(keys, ok) }) }, nil
		}
		select {
		case <-wait:
		case <-ctx.Done():
			if ctx.Err() == context.DeadlineExceeded {
				return nil, fault.Unverified(fault.ReasonUndecided)
			}
			return nil, ctx.Err()
		}
	}
}

// enter reserves a slot under all keys. wait is not nil if one of them is full. The error says whose failures exceed
// the budget; the principal's are checked first.
func (b *failureBudget) enter(keys [budgetKinds]budgetKey, budget int) (wait chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.sweep(now)
	var all [budgetKinds]*failures
	for i, k := range keys {
		f := b.get(k, now)
		bound := f.bound(k.kind, budget, now)
		switch {
		case len(f.at) >= bound && k.kind == ofHost:
			return nil, fault.Unverified(fault.ReasonOthers)
		case len(f.at) >= bound:
			return nil, errOverBudget
		case len(f.at)+f.running >= bound:
			wait = make(chan struct{})
			f.waiting = append(f.waiting, wait)
			return wait, nil
		}
		all[i] = f
	}
	for _, f := range all {
		f.running++
	}
	return nil, nil
}

func (b *failureBudget) leave(keys [budgetKinds]budgetKey, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, k := range keys {
		f := b.get(k, now)
		f.running--
		switch {
		case !ok:
			f.at = append(f.at, now)
		case k.kind == ofHost:
			f.verified = now
		}
		for _, w := range f.waiting {
			close(w)
		}
		f.waiting = nil
	}
}

// get returns the key's failures without the expired ones.
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

// sweep removes keys without state, each time their number has doubled.
func (b *failureBudget) sweep(now time.Time) {
	if len(b.byKey) < max(b.sweepAt, minSweep) {
		return
	}
	for k, f := range b.byKey {
		if f.prune(now); len(f.at)+f.running+len(f.waiting) == 0 && !f.trusts(now) {
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
