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
	first    time.Time     // attempt; zero before it
	last     time.Time     // attempt
	due      time.Time     // next attempt
	busy     bool          // an attempt is under way
	failed   wire.Category // what the last attempt came to, "" before it
	cancel   context.CancelFunc
}

// began records an attempt that was signed at the given time.
func (t *try) began(at time.Time) {
	t.attempts++
	t.last = at
	if t.first.IsZero() {
		t.first = at
	}
}

// again sets when to try again; false when the schedule or the window is used up (HOOK-3). wish is
// when the endpoint wants to be asked again, zero for no wish; it is honoured as far as the window
// reaches.
func (o *Options) again(t *try, now, wish time.Time) bool {
	if t.attempts >= len(o.Schedule) {
		return false
	}
	end := t.first.Add(o.RetryWindow)
	due := t.last.Add(o.spread(o.Schedule[t.attempts]))
	if wish.After(due) {
		due = wish
	}
	if due.After(end) {
		due = end
	}
	// webhook-timestamp has whole seconds, and receivers may take two requests of one id and
	// second for a replay.
	if next := t.last.Truncate(time.Second).Add(time.Second); due.Before(next) {
		due = next
	}
	if due.After(end) || now.After(end) {
		return false
	}
	t.due = due
	return true
}

// maxLate is how long after its time an attempt may still begin; what is due at the end of its
// window is never quite punctual.
const maxLate = 10 * time.Second

// spent reports whether the window closed while the try waited for its turn.
func (o *Options) spent(t *try, now time.Time) bool {
	return !t.first.IsZero() && now.After(t.first.Add(o.RetryWindow+maxLate))
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
