package delivery

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// health is a store.Health in less memory.
type health struct {
	suspended                              bool
	suspendedAt, failedSince, lastDelivery instant
	lastError                              string
}

func healthOf(s store.Health) health {
	return health{s.Suspended, instantOf(s.SuspendedAt), instantOf(s.FailedSince), instantOf(s.LastDeliveryAt), s.LastError}
}

func (h *health) stored() store.Health {
	return store.Health{Suspended: h.suspended, SuspendedAt: h.suspendedAt.time(), FailedSince: h.failedSince.time(), LastDeliveryAt: h.lastDelivery.time(), LastError: h.lastError}
}

// windowSlices is into how many parts the window of a [Suspension] is counted.
const windowSlices = 12

// attempts counts attempts and failures of a sliding window, to a twelfth of it.
type attempts struct {
	slice  int64 // number of the newest slice
	counts [windowSlices]struct{ all, failed uint32 }
}

func (a *attempts) add(now time.Time, window time.Duration, failed bool) {
	slice := now.UnixNano() / max(int64(window)/windowSlices, 1)
	for n := min(slice-a.slice, windowSlices); n > 0; n-- {
		a.counts[(slice-n+1)%windowSlices] = struct{ all, failed uint32 }{}
	}
	a.slice = max(slice, a.slice)
	c := &a.counts[a.slice%windowSlices]
	c.all++
	if failed {
		c.failed++
	}
}

// exceeds reports whether the window holds what s does not allow.
func (a *attempts) exceeds(s Suspension) bool {
	var all, failed uint64
	for _, c := range a.counts {
		all += uint64(c.all)
		failed += uint64(c.failed)
	}
	return all >= uint64(s.Min) && float64(failed) > s.Rate*float64(all)
}

// count records an attempt that says something about the endpoint, and suspends the subscription
// when there are too many failures (HOOK-5).
func (h *Handle) count(now time.Time, failed bool) {
	if h.stats == nil {
		h.stats = &attempts{}
	}
	o := &h.e.o
	h.stats.add(now, o.Suspend.Window, failed)
	if failed && !h.health.suspended && h.stats.exceeds(o.Suspend) {
		h.health.suspended, h.health.suspendedAt = true, instantOf(now)
		h.stats = nil
		for _, u := range h.window {
			u.item = nil // read again after a refresh
		}
		h.e.touch(h)
		h.e.note(slog.LevelWarn, "webhook subscription suspended", h, slog.String("category", h.health.lastError))
	}
}

// resume ends a suspension: what was waiting goes on where it stood, and the time between counts
// for no retry window.
func (h *Handle) resume(now time.Time) {
	if !h.health.suspended {
		return
	}
	if h.pausedAt == 0 { // else Unpause counts the time
		h.postpone(now.Sub(h.health.suspendedAt.time()))
	}
	h.health.suspended, h.health.suspendedAt = false, 0
	h.notUntil = 0
	h.e.touch(h)
	h.e.note(slog.LevelInfo, "webhook subscription resumed", h)
}

// postpone lets a time in which nothing was tried count for no retry window.
func (h *Handle) postpone(d time.Duration) {
	d = max(d, 0)
	for _, u := range h.window {
		if u.first != 0 {
			u.first = u.first.plus(d)
		}
	}
	for _, c := range h.controls {
		if c.first != 0 {
			c.first = c.first.plus(d)
		}
	}
}

// stopped reports whether deliveries are held back, by too many failures or by an operator.
func (h *Handle) stopped() bool { return h.health.suspended || h.pausedAt != 0 }

// Pause holds deliveries back from at until [Handle.Unpause], whatever is refreshed or resumed
// meanwhile; what is under way is finished. Expiry goes on. The caller keeps it in the record.
func (h *Handle) Pause(at time.Time) {
	h.e.mu.Lock()
	defer h.e.unlock()
	if h.gone() || h.pausedAt != 0 {
		return
	}
	h.pausedAt = instantOf(at)
	for _, u := range h.window {
		u.item = nil // read again afterwards
	}
	h.e.note(slog.LevelInfo, "webhook subscription paused", h)
	h.e.schedule(h, at)
}

// Paused reports whether an operator holds deliveries back.
func (h *Handle) Paused() bool {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return h.pausedAt != 0
}

// Unpause lets deliveries go on where they stood: the time between counts for no retry window, and
// what the log has forgotten meanwhile becomes a gap. A suspension stays.
func (h *Handle) Unpause() {
	h.e.mu.Lock()
	defer h.e.unlock()
	if h.gone() || h.pausedAt == 0 {
		return
	}
	now := h.e.now()
	since := h.pausedAt.time()
	if h.health.suspended && h.health.suspendedAt.time().Before(since) {
		since = h.health.suspendedAt.time()
	}
	if h.health.suspended {
		h.health.suspendedAt = instantOf(now) // the rest counts when the suspension ends
	}
	h.postpone(now.Sub(since))
	h.pausedAt = 0
	h.e.note(slog.LevelInfo, "webhook subscription goes on after a pause", h)
	h.e.schedule(h, now)
}

// hopeless reports whether a subscription without expiry has failed for too long. While it is
// suspended time alone decides, else it takes another failure.
func (h *Handle) hopeless(now time.Time) bool {
	return h.expires == 0 && h.failing != 0 && now.Sub(h.failing.time()) >= h.e.o.NoExpiryRemoval
}

// giveUp ends a hopeless subscription.
func (h *Handle) giveUp() {
	data, _ := json.Marshal(map[string]string{"reason": h.health.lastError}) // of strings: cannot fail
	h.e.note(slog.LevelWarn, "webhook subscription without expiry removed", h, slog.String("category", h.health.lastError))
	h.terminate(wire.ErrorObject{Code: h.dialect.Code(wire.CallbackEndpointError), Message: wire.CallbackEndpointError.String(), Data: data})
}
