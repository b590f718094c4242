package wire

import (
	"errors"
	"strconv"
	"time"
)

// RetryAfter returns the pause that a Retry-After header requests at the given time, as a number of seconds or a date
// (RFC 9110, section 10.2.3). It returns false if the header is missing or invalid. The pause can be negative or very
// long, so callers must limit it.
func RetryAfter(header string, now time.Time) (pause time.Duration, ok bool) {
	// Too many seconds become the largest number of 32 bits, which a Duration can hold.
	seconds, err := strconv.ParseInt(header, 10, 32)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second, true
	}
	// http.ParseTime accepts the same layouts, but would link net/http into every user of this package.
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, header); err == nil {
			return at.Sub(now), true
		}
	}
	return 0, false
}
