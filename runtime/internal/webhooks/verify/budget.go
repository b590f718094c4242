package verify

import (
	"context"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
)

// A failureBudget limits the number of failed verifications per destination host and per principal in a sliding window
// of one minute (VER-3). The budget of a host is a multiple of a principal's budget, whoever asks, so a host that never
// consented gets at most that many challenges. A principal without a failed or running verification at the host can use
// all of it. Further verifications of a principal use at most half, so several principals whose verifications fail do
// not close the host to newcomers. Successful verifications do not count, so a busy shared receiver is not throttled. The
// remaining budget limits the number of concurrent verifications, because each of them might fail. Further
// verifications wait.
type failureBudget struct {
	mu      sync.Mutex
	byKey   map[budgetKey]*recentFailures
	sweepAt int
}

// A budgetKey identifies a principal, a host or a guest, which is a principal at a host.
type budgetKey struct {
	kind            budgetKind
	principal, host string
}

type budgetKind uint8

const (
	ofPrincipal budgetKind = iota
	ofGuest
	ofHost
	budgetKinds
)

// recentFailures contains the failures of one key.
type recentFailures struct {
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
	// minSweepKeys is the number of keys from which idle keys are removed.
	minSweepKeys = 1024
)

var errOverBudget = events.NewError(wire.ResourceExhausted, map[string]string{"limit": "verifications"})

// hostBudget returns the maximum number of failures at the host, given the budget of a principal.
func (f *recentFailures) hostBudget(budget int, now time.Time) int {
	if f.isTrusted(now) {
		return knownFactor * budget
	}
	return unknownFactor * budget
}

func (f *recentFailures) isTrusted(now time.Time) bool {
	return !f.verified.IsZero() && now.Sub(f.verified) < trustTime
}

// reserve reserves a verification in the budgets of the principal and the host. If necessary, it waits for the outcomes
// of other verifications. The caller must call finish with the outcome.
func (b *failureBudget) reserve(ctx context.Context, principal, host string, budget int) (finish func(ok bool), err error) {
	keys := [budgetKinds]budgetKey{
		ofPrincipal: {kind: ofPrincipal, principal: principal},
		ofGuest:     {ofGuest, principal, host},
		ofHost:      {kind: ofHost, host: host},
	}
	for {
		wait, err := b.tryReserve(keys, budget)
		if err != nil {
			return nil, err
		}
		if wait == nil {
			var once sync.Once
			return func(ok bool) { once.Do(func() { b.recordOutcome(keys, ok) }) }, nil
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

// tryReserve reserves a slot for each of the keys. If the principal or the host has no free slot, it returns the channel
// wait, which is closed when the state of that key changes. If the failures exceed a budget, the error depends on the
// kind of key. The principal is checked first.
func (b *failureBudget) tryReserve(keys [budgetKinds]budgetKey, budget int) (wait chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.removeIdle(now)
	var all [budgetKinds]*recentFailures
	for i, k := range keys {
		all[i] = b.failuresOf(k, now)
	}
	principal, guest, host := all[ofPrincipal], all[ofGuest], all[ofHost]
	ofAll := host.hostBudget(budget, now)
	if len(guest.at)+guest.running > 0 {
		ofAll /= 2
	}
	switch {
	case len(principal.at) >= budget:
		return nil, errOverBudget
	case len(principal.at)+principal.running >= budget:
		return principal.wait(), nil
	case len(host.at) >= ofAll && guest.running == 0:
		return nil, fault.Unverified(fault.ReasonOthers)
	case len(host.at)+host.running >= ofAll:
		return host.wait(), nil
	}
	for _, f := range all {
		f.running++
	}
	return nil, nil
}

// wait returns a channel that is closed when something has changed.
func (f *recentFailures) wait() chan struct{} {
	changed := make(chan struct{})
	f.waiting = append(f.waiting, changed)
	return changed
}

func (b *failureBudget) recordOutcome(keys [budgetKinds]budgetKey, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for _, k := range keys {
		f := b.failuresOf(k, now)
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

// failuresOf returns the failures of the key after it has removed expired failures.
func (b *failureBudget) failuresOf(k budgetKey, now time.Time) *recentFailures {
	if b.byKey == nil {
		b.byKey = map[budgetKey]*recentFailures{}
	}
	f := b.byKey[k]
	if f == nil {
		f = &recentFailures{}
		b.byKey[k] = f
	}
	f.prune(now)
	return f
}

// removeIdle removes keys without state whenever the number of keys has doubled.
func (b *failureBudget) removeIdle(now time.Time) {
	if len(b.byKey) < max(b.sweepAt, minSweepKeys) {
		return
	}
	for k, f := range b.byKey {
		if f.prune(now); len(f.at)+f.running+len(f.waiting) == 0 && !f.isTrusted(now) {
			delete(b.byKey, k)
		}
	}
	b.sweepAt = 2 * len(b.byKey)
}

func (f *recentFailures) prune(now time.Time) {
	n := 0
	for n < len(f.at) && now.Sub(f.at[n]) >= budgetWindow {
		n++
	}
	f.at = f.at[n:]
}
