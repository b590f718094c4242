package store_test

import (
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A count forgets what is older than an hour, in steps of ten minutes, whatever the clock does.
func TestHourCount(t *testing.T) {
	start := time.Unix(1_800_000_000, 0) // a multiple of ten minutes
	at := func(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }
	var c store.HourCount
	if n := c.LastHour(start); n != 0 {
		t.Errorf("%d without an event", n)
	}
	for _, minutes := range []int{0, 9, 10, 35, 30, 20} { // the clock is set back twice
		c.Add(at(minutes))
	}
	for minutes, want := range map[int]int{0: 6, 35: 6, 59: 6, 60: 4, 70: 3, 89: 3, 90: 0, 10_000: 0} {
		if n := c.LastHour(at(minutes)); n != want {
			t.Errorf("%d after %d minutes, want %d", n, minutes, want)
		}
	}
	if c.Add(at(125)); c.LastHour(at(125)) != 1 || c.LastHour(at(179)) != 1 || c.LastHour(at(180)) != 0 {
		t.Errorf("%+v", c)
	}
}
