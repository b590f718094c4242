package delivery

import (
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Status is what deliveryStatus reports (HOOK-8).
type Status struct {
	// Active is false while deliveries are suspended, and for a subscription that has ended.
	Active bool
	// LastDeliveryAt is when the endpoint last accepted an occurrence, zero for never.
	LastDeliveryAt time.Time
	// LastError is the category of the last failed attempt, "" for none.
	LastError wire.Category
	// FailedSince is when the present run of failures began, zero when the last attempt went well.
	FailedSince time.Time
	// Paused reports whether an operator holds deliveries back, Suspended whether failures do, and Over whether it has ended or
	// its time is over.
	Paused, Suspended, Over bool
	// Throttled tells that occurrences wait for a rate limit, for the endpoint's own wish, or
	// because too many are unsettled; RetryAfter is how long still, as far as that is known.
	Throttled  bool
	RetryAfter time.Duration
	// Replaying is how many positions a replay has still before it, 0 while none is under way, and AskedBy who asked for it.
	Replaying int64
	AskedBy   string
}

// Status is the present state.
func (h *Handle) Status() Status {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return h.status(h.e.now())
}

func (h *Handle) status(now time.Time) Status {
	s := Status{
		Over:           h.gone() || h.expired(now),
		Paused:         h.pausedAt != 0,
		Suspended:      h.health.suspended,
		LastDeliveryAt: h.health.lastDelivery.time(),
		LastError:      wire.Category(h.health.lastError),
		FailedSince:    h.health.failedSince.time(),
	}
	s.Active = !s.Over && !h.stopped()
	if asked := h.replaying(); asked != nil {
		s.Replaying, s.AskedBy = int64(asked.last-h.marks.Base()), asked.by
	}
	clock := h.e.clock()
	if h.notUntil > clock && (len(h.window) > 0 || h.intake.woken) {
		s.Throttled, s.RetryAfter = true, time.Duration(h.notUntil-clock)
	} else if len(h.window) >= h.e.o.MaxUnsettled {
		s.Throttled = true
		if due := h.nextDue(); due > clock {
			s.RetryAfter = time.Duration(due - clock)
		}
	}
	return s
}
