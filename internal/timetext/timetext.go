// Package timetext parses times that an operator writes.
package timetext

import (
	"strings"
	"time"
)

// Forms describes the texts that [Parse] accepts.
const Forms = "a time such as 2026-11-22T14:00:00Z, a time of day in UTC such as 14:00, or a duration before now such as 90m"

// Parse parses an RFC 3339 time, also with a space instead of the T, a time of day in UTC, or a duration before now. It
// returns the zero time for "".
func Parse(text string, now time.Time) (at time.Time, ok bool) {
	if at, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "T", 1)); err == nil && !at.IsZero() {
		return at, true
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), true
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if clock, err := time.Parse(layout, text); err == nil {
			midnight := now.UTC().Truncate(24 * time.Hour)
			return midnight.Add(clock.Sub(clock.Truncate(24 * time.Hour))), true
		}
	}
	return time.Time{}, text == ""
}
