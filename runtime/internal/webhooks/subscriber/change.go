package subscriber

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
)

// Redefined ends the webhook subscriptions that are incompatible with a type's new definition. It wakes the other
// subscriptions to the type, so they switch to the new definition (EVOL-2, EVOL-3).
func (w *Subscriptions) Redefined(et eventtype.Type) {
	w.Review(et)
	w.Each(OfType(et), func(h *Live) { h.Handle.Wake() })
}

// OfPrincipal returns a filter for a principal's subscriptions to the named events. If names is empty, the filter
// matches all events.
func OfPrincipal(principal string, names []string) func(*Live) bool {
	return func(h *Live) bool {
		return h.Principal() == principal && (len(names) == 0 || slices.Contains(names, h.Type().Name()))
	}
}

// Recheck calls the author's hooks for a live subscription and ends the subscription if a hook refuses it (AUTH-2,
// LIST-4).
func (w *Subscriptions) Recheck(ctx context.Context, h *Live) {
	if e := w.host.Refused(ctx, h.Principal(), h.Arguments()); e != nil {
		w.End(h, e)
	}
}

// maxRechecks is the maximum number of live subscriptions that reauthorize rechecks concurrently. It is greater than 1
// because the author's hooks can be slow.
const maxRechecks = 8

// reauthorize rechecks all live subscriptions once per interval (AUTH-2).
func (w *Subscriptions) reauthorize() {
	tick := time.NewTimer(w.o.Reauthorize)
	defer tick.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-tick.C:
		}
		next := time.Now().Add(w.o.Reauthorize)
		var all sync.WaitGroup
		turns := make(chan struct{}, maxRechecks)
		w.Each(func(h *Live) bool { return w.host.Asks(h.Arguments()) }, func(h *Live) {
			turns <- struct{}{}
			all.Go(func() {
				defer func() { <-turns }()
				if w.ctx.Err() == nil && w.Get(h.ID()) == h {
					w.Recheck(w.ctx, h)
				}
			})
		})
		all.Wait()
		tick.Reset(max(time.Until(next), 0))
	}
}
