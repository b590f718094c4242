package subscriber

import (
	"context"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Revocation ends the subscriptions of a principal that were admitted before At. If Names is not empty, the
// revocation only ends subscriptions to the named event types.
type Revocation struct {
	Principal string
	Names     []string
	At        store.ControlPosition
}

// appliesTo reports whether the revocation applies to the subscription.
func (v *Revocation) appliesTo(r *store.Subscription) bool {
	return v.Principal == r.Principal && r.Admitted.Compare(v.At) < 0 && (len(v.Names) == 0 || slices.Contains(v.Names, r.Event))
}

// Ends reports whether the revocation ends the live subscription.
func (v *Revocation) Ends(h *Live) bool {
	return OfPrincipal(v.Principal, v.Names)(h) && h.admitted.Compare(v.At) < 0
}

// A Standing contains the recent revocations and gaps that operators have requested. They also apply to subscriptions
// that are restored later.
type Standing struct {
	Revoked []Revocation
	Gaps    map[string]store.ControlPosition // the latest gap of each event type
}

// keepStanding is the period for which a process retains revocations and gaps, because they also apply to subscriptions
// that become live later. After this period, owners have read all new records, because they compare the records every
// two minutes.
const keepStanding = 10 * time.Minute

// A knownRevocation is a revocation with the time at which this process was notified of it.
type knownRevocation struct {
	Revocation
	heard time.Time
}

// NoteRevoked records a revocation, so the subscriptions that it covers end as soon as they become live. The caller
// must then end the covered subscriptions that are live already.
func (w *Subscriptions) NoteRevoked(v Revocation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteRevoked(v)
}

// noteRevoked is like NoteRevoked, but the caller must hold the lock. It deletes old revocations unless a shard is
// being restored.
func (w *Subscriptions) noteRevoked(v Revocation) {
	if w.revoked == nil {
		w.revoked = map[string][]knownRevocation{}
	}
	now := time.Now()
	if now.Sub(w.swept) > keepStanding && !w.isRestoring() {
		w.swept = now
		for principal, all := range w.revoked {
			left := slices.DeleteFunc(all, func(n knownRevocation) bool { return now.Sub(n.heard) > keepStanding })
			if w.revoked[principal] = left; len(left) == 0 {
				delete(w.revoked, principal)
			}
		}
	}
	all := w.revoked[v.Principal]
	i := slices.IndexFunc(all, func(n knownRevocation) bool { return slices.Equal(n.Names, v.Names) })
	if i < 0 {
		w.revoked[v.Principal] = append(all, knownRevocation{v, now})
	} else if n := &all[i]; v.At.Compare(n.At) >= 0 {
		n.At, n.heard = v.At, now
	}
}

// isRestoring reports whether a shard has records that have not been restored. The lock must be held.
func (w *Subscriptions) isRestoring() bool {
	for _, p := range w.ownedShards {
		if p.touched != nil {
			return true
		}
	}
	return false
}

// GapOfType signals to the subscriptions to an event type that were admitted before at that occurrences might be
// missing. These include subscriptions that become live later. GapOfType returns the number of live subscriptions.
func (w *Subscriptions) GapOfType(et eventtype.Type, at store.ControlPosition) int {
	w.mu.Lock()
	w.noteGapOf(et.Name(), at)
	w.mu.Unlock()
	return w.Each(func(h *Live) bool { return h.Type() == et && h.admitted.Compare(at) < 0 }, w.signalGap)
}

// noteGapOf records a gap of an event type. The lock must be held.
func (w *Subscriptions) noteGapOf(event string, at store.ControlPosition) {
	if w.gaps == nil {
		w.gaps = map[string]store.ControlPosition{}
	}
	w.gaps[event] = later(w.gaps[event], at)
}

func later(a, b store.ControlPosition) store.ControlPosition {
	if b.Compare(a) > 0 {
		return b
	}
	return a
}

// readStanding reads the recent actions of operators.
func (w *Subscriptions) readStanding(ctx context.Context) error {
	if w.cluster.Standing == nil {
		return nil
	}
	s, err := w.cluster.Standing(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range s.Revoked {
		w.noteRevoked(v)
	}
	for event, at := range s.Gaps {
		w.noteGapOf(event, at)
	}
	return nil
}

// endReason returns the error that ends a subscription when it is restored, or nil if it continues.
func (p *ownedShard) endReason(r *store.Subscription) *events.Error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if reason := pendingEndReason(r); reason != nil {
		return reason
	}
	if slices.ContainsFunc(p.w.revoked[r.Principal], func(n knownRevocation) bool { return n.appliesTo(r) }) {
		return fault.Revoked()
	}
	return nil
}

// signalGap signals the latest gap of the event type to a live subscription that was admitted before the gap. It does
// nothing if the subscription has been notified, by this process or, according to the record, by an earlier owner.
func (w *Subscriptions) signalGap(h *Live) {
	w.mu.Lock()
	at := w.gaps[h.Type().Name()]
	due := h.admitted.Compare(at) < 0 && h.gaps.Compare(at) < 0
	if due {
		h.gaps = at
	}
	w.mu.Unlock()
	if due {
		w.currentLife(h).Handle.Gap() // the response to a refresh reports a gap that cannot be sent (D7)
	}
}
