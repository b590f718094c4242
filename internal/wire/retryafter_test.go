package wire_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Retry-After is read in each form of RFC 9110. Numbers beyond a Duration do not overflow.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{"0": 0, "60": time.Minute, "-5": -5 * time.Second,
		"99999999999": (1<<31 - 1) * time.Second, "99999999999999999999999": (1<<31 - 1) * time.Second,
		now.Add(time.Hour).Format(http.TimeFormat): time.Hour, now.Add(time.Hour).Format(time.RFC850): time.Hour,
		now.Add(-time.Hour).Format(time.ANSIC): -time.Hour} {
		if got, ok := wire.RetryAfter(header, now); got != want || !ok {
			t.Errorf("%q is %v, %v; want %v", header, got, ok, want)
		}
	}
	for _, header := range []string{"", "soon", "1.5", "2026-01-02T03:04:05Z"} {
		if got, ok := wire.RetryAfter(header, now); got != 0 || ok {
			t.Errorf("%q is %v, %v", header, got, ok)
		}
	}
}
