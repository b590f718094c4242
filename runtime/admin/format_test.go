package admin_test

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
)

// A duration has two significant digits, as its percentiles are no more precise.
func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                        "0s",
		1:                        "1ns",
		99 * time.Microsecond:    "99µs",
		830 * time.Microsecond:   "830µs",
		12340 * time.Microsecond: "12ms",
		999 * time.Millisecond:   "1s",
		time.Second:              "1s",
		65536 * time.Millisecond: "66s",
	} {
		if got := admin.FormatDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
