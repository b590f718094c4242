package plain

import (
	"testing"
	"time"
)

func TestTime(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 0, 1, 999_999_999, time.FixedZone("", 3600))
	if got := Time(at); got != "2026-11-22 13:00:01Z" {
		t.Errorf("%v: %s", at, got)
	}
}

// TestDuration expects the largest exact unit, in a form that time.ParseDuration reads.
func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", time.Hour: "1h", 90 * time.Minute: "90m", 90 * time.Second: "90s", 168 * time.Hour: "168h", -time.Minute: "-1m",
		1500 * time.Millisecond: "1.5s", 830 * time.Microsecond: "830µs", time.Hour + time.Second: "3601s"} {
		got := Duration(d)
		if back, err := time.ParseDuration(got); got != want || back != d || err != nil {
			t.Errorf("%d: %s, want %s, %v", d, got, want, err)
		}
	}
}
