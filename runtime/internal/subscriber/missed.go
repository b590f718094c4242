package subscriber

import (
	"context"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// missed is what was done to the live subscriptions of a part while the rest was taken up, which the rest has to make up
// for. A record that is newer than that was not meant.
type missed struct {
	gap     time.Time
	revoked map[string]revocation // by principal
}

type revocation struct {
	at     time.Time
	reason *events.Error
}

// RevokeWaiting has what is still to be taken up of the principal's subscriptions end with the reason, those to the
// named event types or to all where none are named. The live ones are the caller's, afterwards.
func (w *Subscriptions) RevokeWaiting(principal string, names []string, reason *events.Error) {
	now := w.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		if p.touched == nil || len(names) > 0 && !slices.Contains(names, p.et.Name()) {
			continue
		}
		if p.missed.revoked == nil {
			p.missed.revoked = map[string]revocation{}
		}
		p.missed.revoked[principal] = revocation{now, reason}
	}
}

// GapWaiting has what is still to be taken up of the event type's subscriptions tell that occurrences may be missing. The
// live ones are the caller's, afterwards.
func (w *Subscriptions) GapWaiting(et eventtype.Type) {
	now := w.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		if p.touched != nil && p.et == et {
			p.missed.gap = now
		}
	}
}

// ends is the error with which a subscription is to end that is taken up; nil for none.
func (p *part) ends(ctx context.Context, r *store.Subscription) (*events.Error, error) {
	p.w.mu.Lock()
	orders, revoked := p.orders, p.missed.revoked[r.Principal]
	p.w.mu.Unlock()
	if revoked.reason != nil && !r.CreatedAt.After(revoked.at) {
		return revoked.reason, nil
	}
	return orders.Ends(ctx, r)
}

// hasGap reports whether a subscription that is taken up has missed a gap.
func (p *part) hasGap(r *store.Subscription) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	return !p.missed.gap.IsZero() && !r.CreatedAt.After(p.missed.gap)
}
