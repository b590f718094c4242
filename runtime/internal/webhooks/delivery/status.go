package delivery

import (
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Status describes the deliveries of a subscription, as in deliveryStatus (HOOK-8).
type Status struct {
	// Active reports whether deliveries are neither suspended nor paused and the subscription has not ended or expired.
	Active bool
	// LastDeliveryAt is the time at which the endpoint last accepted an occurrence, or zero if it never did.
	LastDeliveryAt time.Time
	// LastError is the category of the last failed attempt, or "".
	LastError wire.Category
	// FailedSince is the start of the current run of failures, or zero if the last attempt succeeded.
	FailedSince time.Time
	// Paused reports whether an operator paused deliveries. Suspended reports whether deliveries are suspended after
	// failures. Over reports whether the subscription has ended or expired.
	Paused, Suspended, Over bool
	// Throttled reports whether occurrences are waiting because of a rate limit, the endpoint's Retry-After, or too
	// many unsettled occurrences.
	Throttled bool
	// RetryAfter is the remaining waiting time, or 0 if it is unknown.
	RetryAfter time.Duration
	// NextAt is the earliest time of the next attempt, or zero if no attempt is scheduled for a later time. LostAt is
	// the earliest time at which an occurrence that is being retried will be abandoned. It is zero if no occurrence is
	// being retried.
	NextAt, LostAt time.Time
	// Sending is the number of attempts in flight.
	Sending int
	// Queued reports whether due work is waiting for a slot at the host or for a worker.
	Queued bool
}

// Status returns the current status.
func (h *Handle) Status() Status {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return h.status(h.e.now())
}

func (h *Handle) status(now time.Time) Status {
	past := h.pastFailures()
	s := Status{
		Over:           h.hasEnded() || h.isExpired(now),
		Paused:         h.pausedAt != 0,
		Suspended:      past.suspended,
		LastDeliveryAt: h.lastDelivery.time(),
		LastError:      wire.Category(past.category),
		FailedSince:    past.failedSince.time(),
	}
	s.Active = !s.Over && !h.isStopped()
	clock := h.e.clock()
	s.Sending, s.Queued = int(h.inFlight), h.queued
	if s.Active {
		s.NextAt, s.LostAt = h.retryTimes(clock)
	}
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

// report returns the report to store with the handle's progress, or nil if it contains no information.
func (h *Handle) report() *store.Report {
	now := h.e.now()
	s := h.status(now)
	r := &store.Report{At: now.UTC(), Owner: h.e.o.Owner, NextAt: s.NextAt.UTC(), LostAt: s.LostAt.UTC(), Sending: s.Sending}
	if f := h.failures; f != nil {
		r.LastErrorAt, r.LastStatus, r.Abandoned = f.at.time().UTC(), f.status, f.abandoned
	}
	switch {
	case !s.Active:
	case s.Throttled && h.notUntil > h.e.clock():
		r.Held = store.HeldLimited
	case s.Queued && s.Sending == 0:
		r.Held = store.HeldQueued
	}
	if *r == (store.Report{At: r.At}) { // with a store for one process
		return nil
	}
	return r
}

// retryTimes returns the time of the next attempt and the earliest time at which an occurrence will be abandoned.
// Either time is zero if it does not apply.
func (h *Handle) retryTimes(clock moment) (next, lost time.Time) {
	if len(h.window) == 0 {
		return next, lost
	}
	if due := max(h.nextDue(), h.notUntil, h.held); due > clock {
		next = h.e.timeOf(due)
	}
	var first moment
	for _, u := range h.window {
		if u.attempts == 0 {
			continue
		}
		if last := h.e.o.lastAttemptAt(&u.retryState); first == 0 || last < first {
			first = last
		}
	}
	if first != 0 {
		lost = h.e.timeOf(first)
	}
	return next, lost
}
