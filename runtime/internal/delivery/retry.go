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

// A try is what attempts at one message have come to: an occurrence or a control envelope.
type try struct {
	attempts int
	first    moment        // attempt; 0 before it
	last     moment        // attempt
	second   moment        // the second of the last attempt's signature is over
	due      moment        // next attempt
	busy     bool          // an attempt is under way
	failed   wire.Category // what the last attempt came to, "" before it
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

// again sets when to try again; false when the schedule or the window is used up (HOOK-3). wish is
// when the endpoint wants the next attempt, 0 for no wish; it is honoured as far as the window
// reaches.
func (o *Options) again(t *try, now, wish moment) bool {
	if t.attempts >= len(o.Schedule) {
		return false
	}
	end := t.first.plus(o.RetryWindow)
	due := min(max(t.last.plus(o.spread(o.Schedule[t.attempts])), wish), end)
	// webhook-timestamp has whole seconds, and receivers may take two requests of one id and
	// second for a replay.
	due = max(due, t.second)
	if due > end || now > end {
		return false
	}
	t.due = due
	return true
}

// maxLate is how long after its time an attempt may still begin; what is due at the end of its
// window is never quite punctual.
const maxLate = 10 * time.Second

// spent reports whether the window closed while the try waited for its turn.
func (o *Options) spent(t *try, now moment) bool {
	return t.first != 0 && now > t.first.plus(o.RetryWindow+maxLate)
}

func (o *Options) spread(d time.Duration) time.Duration {
	return d + time.Duration((2*rand.Float64()-1)*o.Jitter*float64(d))
}

// maxRetryAfter keeps an endpoint's wish from overflowing; windows are shorter anyway.
const maxRetryAfter = 24 * time.Hour

// retryAfter is when the header asks for the next request (RFC 9110, section 10.2.3); zero for no
// usable wish.
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
