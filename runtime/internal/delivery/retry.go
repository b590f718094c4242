package delivery

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A try is the state of the attempts at one message, which is an occurrence or a control envelope.
type try struct {
	attempts int
	first    moment        // time of the first attempt; 0 before it
	last     moment        // time of the last attempt
	second   moment        // end of the second in the last attempt's signature
	due      moment        // time of the next attempt
	busy     bool          // an attempt is in flight
	failed   wire.Category // result of the last attempt; "" before it
	cancel   context.CancelFunc
}

// began records an attempt that was signed at the given moment, with the given time in its signature.
func (t *try) began(at moment, signed time.Time) {
	t.attempts++
	t.last, t.second = at, at.plus(time.Second-time.Duration(signed.Nanosecond()))
	if t.first == 0 {
		t.first = at
	}
}

// again schedules the next attempt. It returns false if the schedule or the window is exhausted (HOOK-3). wish is
// the time that the endpoint requested for the next attempt, or 0; it is honored within the window.
func (o *Options) again(t *try, now, wish moment) bool {
	if t.attempts >= len(o.Schedule) {
		return false
	}
	end := t.first.plus(o.RetryWindow)
	due := min(max(t.last.plus(o.spread(o.Schedule[t.attempts])), wish), end)
	// webhook-timestamp has whole seconds, and receivers may treat two requests with the same id and second as a
	// replay.
	due = max(due, t.second)
	if due > end || now > end {
		return false
	}
	t.due = due
	return true
}

// last returns the moment of the last attempt that the schedule and the window leave to a message.
func (o *Options) last(t *try) moment {
	at := t.due
	for i := t.attempts + 1; i < len(o.Schedule); i++ {
		at = at.plus(o.Schedule[i])
	}
	return min(at, t.first.plus(o.RetryWindow))
}

// maxLate is the time after the end of the window in which an attempt may still start, because attempts never start
// exactly on time.
const maxLate = 10 * time.Second

// spent reports whether the window ended while the try waited for its turn.
func (o *Options) spent(t *try, now moment) bool {
	return t.first != 0 && now > t.first.plus(o.RetryWindow+maxLate)
}

func (o *Options) spread(d time.Duration) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*o.Jitter*float64(d))
}

// maxRetryAfter bounds Retry-After to prevent overflow; windows are shorter anyway.
const maxRetryAfter = 24 * time.Hour

// retryAfter returns the time of the next request according to the header (RFC 9110, section 10.2.3). It returns
// the zero time if the header is missing or invalid.
func retryAfter(h http.Header, now time.Time) time.Time {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" {
		return time.Time{}
	}
	limit := now.Add(maxRetryAfter)
	var at time.Time
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		at = now.Add(time.Duration(seconds) * time.Second)
	} else if strings.Trim(text, "0123456789") == "" {
		at = limit
	} else if at, err = http.ParseTime(text); err != nil || !at.After(now) {
		return time.Time{}
	}
	if at.After(limit) {
		return limit
	}
	return at
}
