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
// host has a multiple of a principal's budget, so that failures of one principal do not block others. Successes do not
// count, so that a busy shared receiver is not throttled. The remaining budget limits the number of concurrent
// verifications, because each of them may still fail. Further verifications wait.
type failureBudget struct {
	mu      sync.Mutex
	byKey   map[budgetKey]*failures
	sweepAt int
}

// A budgetKey identifies a principal or a host.
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

// failures contains the failures of one key.
type failures struct {
	at       []time.Time // ascending, within the window
	running  int
	waiting  []chan struct{} // closed when something has changed
	verified time.Time       // when a verification last succeeded; only for a host
}

const (
	budgetWindow = time.Minute
	// unknownFactor and knownFactor are the ratios of a host's budget to a principal's budget. A host is known for
	// trustTime after a success.
	unknownFactor = 2
	knownFactor   = 4
	trustTime     = 10 * time.Minute
	// minSweep is the minimum number of keys for a sweep.
	minSweep = 1024
)

var errOverBudget = events.NewError(wire.ResourceExhausted, map[string]string{"limit": "verifications"})

// limit returns the maximum number of failures of a key, given the budget of a principal.
func (f *failures) limit(kind budgetKind, budget int, now time.Time) int {
	switch {
	case kind == ofPrincipal:
		return budget
	case f.isTrusted(now):
		return knownFactor * budget
	default:
		return unknownFactor * budget
	}
}

func (f *failures) isTrusted(now time.Time) bool {
	return !f.verified.IsZero() && now.Sub(f.verified) < trustTime
}

// begin reserves a verification in the budgets of the principal and the host. If necessary, it waits for the outcome of
// other verifications. The caller must call finish with the outcome.
func (b *failureBudget) begin(ctx context.Context, principal, host string, budget int) (finish func(ok bool), err error) {
	keys := [budgetKinds]budgetKey{
		ofPrincipal: {ofPrincipal, principal},
		ofHost:      {ofHost, host},
	}
	for {
		wait, err := b.tryReserve(keys, budget)
		if err != nil {
			return nil, err
		}
		if wait == nil {
			var once sync.Once
			return func(ok bool) { once.Do(func() { b.complete(keys, ok) }) }, nil
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

// tryReserve reserves a slot for all keys. If one of them has no free slot, wait is not nil. If the failures of a key
// exceed its budget, the error depends on the kind of key. The principal is checked first.
func (b *failureBudget) tryReserve(keys [budgetKinds]budgetKey, budget int) (wait chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.sweep(now)
	var all [budgetKinds]*failures
	for i, k := range keys {
		f := b.get(k, now)
		bound := f.limit(k.kind, budget, now)
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

func (b *failureBudget) complete(keys [budgetKinds]budgetKey, ok bool) {
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

// get returns the failures of the key and removes expired ones.
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

// sweep removes keys without state each time the number of keys has doubled.
func (b *failureBudget) sweep(now time.Time) {
	if len(b.byKey) < max(b.sweepAt, minSweep) {
		return
	}
	for k, f := range b.byKey {
		if f.prune(now); len(f.at)+f.running+len(f.waiting) == 0 && !f.isTrusted(now) {
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
