package delivery

import (
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Status describes the deliveries of a subscription, as in deliveryStatus (HOOK-8).
type Status struct {
	// Active is false while deliveries are suspended or paused, and after the subscription has ended or expired.
	Active bool
	// LastDeliveryAt is the time at which the endpoint last accepted an occurrence, or zero.
	LastDeliveryAt time.Time
	// LastError is the category of the last failed attempt, or "".
	LastError wire.Category
	// FailedSince is the start of the current run of failures, or zero if the last attempt succeeded.
	FailedSince time.Time
	// Paused reports whether an operator paused deliveries. Suspended reports whether failures suspended them. Over
	// reports whether the subscription has ended or expired.
	Paused, Suspended, Over bool
	// Throttled reports whether occurrences wait for a rate limit, for the endpoint's Retry-After, or because too many
	// are unsettled.
	Throttled bool
	// RetryAfter is the remaining time, if known.
	RetryAfter time.Duration
	// NextAt is the earliest time of the next attempt, or zero if no attempt is waiting for a time. LostAt is the
	// earliest time at which an occurrence that is being retried will be abandoned. It is zero if nothing is being
	// retried.
	NextAt, LostAt time.Time
	// Sending is the number of attempts in flight.
	Sending int
	// Queued reports whether more work is due and waits for a slot at the host or for a worker.
	Queued bool
	// Replaying is the number of remaining positions of a replay, or 0.
	Replaying int64
	// AskedBy is the operator who requested the replay.
	AskedBy string
}

// Status returns the current status.
func (h *Handle) Status() Status {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	return h.status(h.e.now())
}

func (h *Handle) status(now time.Time) Status {
	s := Status{
		Over:           h.hasEnded() || h.expired(now),
		Paused:         h.pausedAt != 0,
		Suspended:      h.health.suspended,
		LastDeliveryAt: h.health.lastDelivery.time(),
		LastError:      wire.Category(h.health.lastError),
		FailedSince:    h.health.failedSince.time(),
	}
	s.Active = !s.Over && !h.stopped()
	if asked := h.replaying(); asked != nil {
		s.Replaying, s.AskedBy = int64(asked.Last-h.marks.Base()), asked.By
	}
	clock := h.e.clock()
	s.Sending, s.Queued = h.inFlight, h.queued
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

// retryTimes returns the time of the next attempt, and the earliest time at which an occurrence that is being retried
// will be abandoned. Either time is zero if it does not apply.
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
