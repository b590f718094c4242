package timetext

import (
	"testing"
	"time"
)

// TestParse expects times of day on the day in UTC, and an error for texts in other forms.
func TestParse(t *testing.T) {
	now := time.Date(2026, 1, 2, 23, 30, 0, 0, time.FixedZone("", -2*60*60)) // the next day in UTC
	for text, want := range map[string]string{"14:00": "2026-01-03T14:00:00Z", "14:10:30": "2026-01-03T14:10:30Z", "90m": "2026-01-03T00:00:00Z",
		"2026-01-01T01:00:00+01:00": "2026-01-01T00:00:00Z", "2026-01-01 00:00:00Z": "2026-01-01T00:00:00Z",
		"": "0001-01-01T00:00:00Z", "yesterday": "", "-1h": "", "0s": "", "25:00": "", "0001-01-01T00:00:00Z": ""} {
		got, ok := Parse(text, now)
		if ok != (want != "") || ok && got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%q is %v, %v; want %s", text, got, ok, want)
		}
	}
}
