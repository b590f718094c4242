package admin

import (
	"strconv"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// formatCount formats a count with thousands separators.
func formatCount(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// countNoun formats a count followed by its noun.
func countNoun(n int64, name string) string {
	if n == 1 {
		return "1 " + name
	}
	return formatCount(n) + " " + name + "s"
}

// formatDuration formats a duration with two significant digits, the precision of the percentiles.
func formatDuration(d time.Duration) string {
	unit := time.Duration(1)
	for d/unit >= 100 {
		unit *= 10
	}
	return plain.Duration(d.Round(unit))
}

// formatSpan formats a duration as a whole number of seconds, minutes, hours or days.
func formatSpan(d time.Duration) string {
	unit, name := 24*time.Hour, "d"
	switch {
	case d < 2*time.Minute:
		unit, name = time.Second, "s"
	case d < 2*time.Hour:
		unit, name = time.Minute, "m"
	case d < 48*time.Hour:
		unit, name = time.Hour, "h"
	}
	return strconv.FormatInt(int64(d/unit), 10) + name
}
