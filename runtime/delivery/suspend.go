package delivery

import (
	"encoding/json"
	"log/slog"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
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
	pause := max(now.Sub(h.health.suspendedAt.time()), 0)
	for _, u := range h.window {
		if !u.first.IsZero() {
			u.first = u.first.Add(pause)
		}
	}
	for _, c := range h.controls {
		if !c.first.IsZero() {
			c.first = c.first.Add(pause)
		}
	}
	h.health.suspended, h.health.suspendedAt = false, 0
	h.notUntil = 0
	h.e.touch(h)
	h.e.note(slog.LevelInfo, "webhook subscription resumed", h)
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
