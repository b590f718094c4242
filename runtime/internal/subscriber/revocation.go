package subscriber

import (
	"context"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A Revocation ends a principal's subscriptions that began up to At, to the named event types or to all types.
type Revocation struct {
	Principal string
	Names     []string
	At        time.Time
}

// covers reports whether the revocation ends the subscription.
func (v *Revocation) covers(r *store.Subscription) bool {
	return v.Principal == r.Principal && !r.CreatedAt.After(v.At) && (len(v.Names) == 0 || slices.Contains(v.Names, r.Event))
}

// Ends reports whether the revocation ends the live subscription.
func (v *Revocation) Ends(h *Live) bool {
	return OfPrincipal(v.Principal, v.Names)(h) && !h.BegunAfter(v.At)
}

// A Standing holds the recent actions of operators on many subscriptions. They are applied to subscriptions that
// are restored later.
type Standing struct {
	Revoked []Revocation
	Gaps    map[string]time.Time // the latest gap of each event type
}

// Revoked returns the error that ends a revoked subscription.
func Revoked() *events.Error { return events.Forbidden("access revoked") }

// keepStanding is the time after which the owner of a new record certainly knows it. Until then a process remembers
// revocations and gaps for subscriptions that become live. An owner compares the records every two minutes.
const keepStanding = 10 * time.Minute

// noted is a revocation with the time at which this process learned of it.
type noted struct {
	Revocation
	heard time.Time
}

// NoteRevoked makes covered subscriptions end that become live from now on. The caller must end the live ones
// afterwards.
func (w *Subscriptions) NoteRevoked(v Revocation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteRevoked(v)
}

// noteRevoked is NoteRevoked with the lock held. It forgets old revocations unless a shard is being restored.
func (w *Subscriptions) noteRevoked(v Revocation) {
	if w.revoked == nil {
		w.revoked = map[string][]noted{}
	}
	now := time.Now()
	if now.Sub(w.swept) > keepStanding && !w.takingUp() {
		w.swept = now
		for principal, all := range w.revoked {
			left := slices.DeleteFunc(all, func(n noted) bool { return now.Sub(n.heard) > keepStanding })
			if w.revoked[principal] = left; len(left) == 0 {
				delete(w.revoked, principal)
			}
		}
	}
	all := w.revoked[v.Principal]
	if slices.ContainsFunc(all, func(n noted) bool { return n.At.Equal(v.At) && slices.Equal(n.Names, v.Names) }) {
		return
	}
	w.revoked[v.Principal] = append(all, noted{v, now})
}

// takingUp reports whether records of a shard wait to be restored. The lock must be held.
func (w *Subscriptions) takingUp() bool {
	for _, p := range w.parts {
		if p.touched != nil {
			return true
		}
	}
	return false
}

// GapOfType signals to all subscriptions to an event type that occurrences may be missing. It includes
// subscriptions that began up to at and are restored later. It returns the number of live subscriptions.
func (w *Subscriptions) GapOfType(et eventtype.Type, at time.Time) int {
	w.mu.Lock()
	w.noteGapOf(et.Name(), at)
	var told []*part
	for _, p := range w.parts {
		if p.et == et && p.whole {
			told = append(told, p)
		}
	}
	w.mu.Unlock()
	n := w.Each(OfType(et), w.Gap)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range told {
		p.gaps = later(p.gaps, at)
	}
	return n
}

// noteGapOf records a gap of an event type. The lock must be held.
func (w *Subscriptions) noteGapOf(event string, at time.Time) {
	if w.gaps == nil {
		w.gaps = map[string]time.Time{}
	}
	w.gaps[event] = later(w.gaps[event], at)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// recall reads the recent actions of operators, and the mark of the gaps that the shard's owners have signaled.
func (p *part) recall(ctx context.Context) error {
	w := p.w
	if w.cluster.Standing == nil {
		return nil
	}
	told, err := p.owned.Mark(ctx, engine.GapMark)
	if err != nil {
		return err
	}
	s, err := w.cluster.Standing(ctx)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.gaps = time.Unix(0, int64(told))
	p.marked = p.gaps
	for _, v := range s.Revoked {
		w.noteRevoked(v)
	}
	for event, at := range s.Gaps {
		w.noteGapOf(event, at)
	}
	return nil
}

// ends returns the error that ends a subscription as it is restored, or nil.
func (p *part) ends(r *store.Subscription) *events.Error {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if reason := pendingEnd(r); reason != nil {
		return reason
	}
	if slices.ContainsFunc(p.w.revoked[r.Principal], func(n noted) bool { return n.covers(r) }) {
		return Revoked()
	}
	return nil
}

// hasGap reports whether a restored subscription has missed a gap of its type.
func (p *part) hasGap(r *store.Subscription) bool {
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	at := p.w.gaps[p.et.Name()]
	return at.After(p.gaps) && !r.CreatedAt.After(at)
}

// mark stores the time up to which all subscriptions of the part know of gaps, if it changed.
func (p *part) mark() {
	w := p.w
	w.mu.Lock()
	to := p.gaps
	due := to.After(p.marked) && p.whole && w.cluster.Standing != nil
	w.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(p.ownership.Context(), finishTime)
	defer cancel()
	err := p.owned.SaveMark(ctx, engine.GapMark, store.Position(to.UnixNano()))
	if err == nil {
		w.mu.Lock()
		p.marked = to
		w.mu.Unlock()
	} else if !p.lost(err) && ctx.Err() == nil {
		w.o.Log.Internal(ctx, "storing the mark of gaps", err)
	}
}
