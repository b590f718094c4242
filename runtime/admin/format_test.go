package admin_test

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
)

// A duration has two significant digits, as its percentiles are no more precise.
func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                        "0 ms",
		1:                        "0.1 ms",
		99 * time.Microsecond:    "0.1 ms",
		830 * time.Microsecond:   "0.83 ms",
		12340 * time.Microsecond: "12 ms",
		999 * time.Millisecond:   "1000 ms",
		time.Second:              "1 s",
		65536 * time.Millisecond: "66 s",
	} {
		if got := admin.FormatDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
