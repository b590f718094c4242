package shard

import (
	"testing"
	"time"
)

// REP-8: a slow answer does not distort the store's time, an old reading is replaced, and a clock that was set is
// believed.
func TestREP8Reading(t *testing.T) {
	const ms = time.Millisecond
	start := time.Unix(1e9, 0)
	old := reading{store: start, at: time.Hour, wrong: 2 * ms}
	for _, c := range []struct {
		what          string
		after, offset time.Duration // of the reading, and its distance from the old one
		wrong         time.Duration
		want          bool
	}{
		{"as certain", time.Second, ms, 2 * ms, true},
		{"more certain", time.Second, -ms, ms, true},
		{"a slow answer that fits", time.Second, 100 * ms, 100 * ms, false},
		{"a slow answer a minute later", time.Minute, 12 * ms, 12 * ms, true},
		{"a store whose clock was set", time.Second, time.Minute, 100 * ms, true},
		{"a replica that stood still", time.Second, 10 * time.Second, 5 * ms, true},
		{"set back a little, and certain of it", time.Second, -20 * ms, 5 * ms, true},
	} {
		r := reading{store: start.Add(c.after + c.offset), at: time.Hour + c.after, wrong: c.wrong}
		if got := r.isBetter(old); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
	if !(reading{store: start, at: time.Hour, wrong: time.Minute}).isBetter(reading{}) {
		t.Error("the first one is refused")
	}
}
