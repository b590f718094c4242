package delivery

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A retryState is the state of the attempts to send one message, which is an occurrence or a control envelope.
type retryState struct {
	attempts int
	first    moment        // time of the first attempt; 0 before it
	last     moment        // time of the last attempt
	second   moment        // end of the second in the last attempt's signature
	due      moment        // time of the next attempt
	busy     bool          // an attempt is in flight
	failed   wire.Category // result of the last attempt; "" before it
	cancel   context.CancelFunc
}

// recordAttempt records an attempt that started at the given moment and was signed with the given time.
func (t *retryState) recordAttempt(at moment, signed time.Time) {
	t.attempts++
	t.last, t.second = at, at.plus(time.Second-time.Duration(signed.Nanosecond()))
	if t.first == 0 {
		t.first = at
	}
}

// scheduleRetry schedules the next attempt. It returns false if the schedule is exhausted or the retry window has ended
// (HOOK-3). The parameter wish is the time that the endpoint requested for the next attempt, or 0. A time after the end
// of the window is replaced by that end.
func (o *Options) scheduleRetry(t *retryState, now, wish moment) bool {
	if t.attempts >= len(o.Schedule) {
		return false
	}
	end := t.first.plus(o.RetryWindow)
	due := min(max(t.last.plus(o.spread(o.Schedule[t.attempts])), wish), end)
	// The webhook-timestamp has a resolution of one second, and a receiver might reject a second request with the same
	// id and timestamp as a replay.
	due = max(due, t.second)
	if due > end || now > end {
		return false
	}
	t.due = due
	return true
}

// lastAttemptAt returns the moment of the last attempt that the schedule and the window allow.
func (o *Options) lastAttemptAt(t *retryState) moment {
	at := t.due
	for i := t.attempts + 1; i < len(o.Schedule); i++ {
		at = at.plus(o.Schedule[i])
	}
	return min(at, t.first.plus(o.RetryWindow))
}

// maxLate is the period after the end of the window during which an attempt can still start, because attempts never
// start exactly on time.
const maxLate = 10 * time.Second

// isPastWindow reports whether the retry window ended while the message was waiting for its turn.
func (o *Options) isPastWindow(t *retryState, now moment) bool {
	return t.first != 0 && now > t.first.plus(o.RetryWindow+maxLate)
}

func (o *Options) spread(d time.Duration) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*o.Jitter*float64(d))
}

// maxRetryAfter limits Retry-After to prevent an overflow. Retry windows are shorter anyway.
const maxRetryAfter = 24 * time.Hour
