package admin

import (
	"math"
	"strconv"
	"time"
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

// formatDuration formats a duration in milliseconds or seconds with two significant digits, the precision of the
// percentiles.
func formatDuration(d time.Duration) string {
	v, unit := d.Seconds()*1000, " ms"
	if v >= 1000 {
		v, unit = v/1000, " s"
	}
	switch {
	case v == 0:
	case v < 0.1:
		return "0.1" + unit
	default:
		scale := math.Pow(10, math.Floor(math.Log10(v))-1)
		v = math.Round(v/scale) * scale
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) + unit
}
