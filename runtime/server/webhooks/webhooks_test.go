package webhooks

import (
	"math"
	"testing"
	"time"
)

// TestSUB6TTL negotiates the time until a refresh with all clamps (SUB-6).
func TestSUB6TTL(t *testing.T) {
	ms := func(n int64) *int64 { return &n }
	now := time.Unix(1_800_000_000, 123_456_789)
	floor := now.Truncate(time.Millisecond).Sub(now) // grants end on a whole millisecond
	for _, c := range []struct {
		name    string
		store   durableOrNot
		o       Options
		ttl     *int64
		forever bool
		want    time.Duration // 0: no expiry
	}{
		{"absent", false, Options{}, nil, false, 30 * time.Minute},
		{"absent, own default", true, Options{DefaultTTL: 2 * time.Hour}, nil, false, 2 * time.Hour},
		{"absent, default above the max of a memory store", false, Options{DefaultTTL: 2 * time.Hour}, nil, false, time.Hour},
		{"as suggested", false, Options{}, ms(600_000), false, 10 * time.Minute},
		{"zero", false, Options{}, ms(0), false, time.Minute},
		{"negative", false, Options{}, ms(-5), false, time.Minute},
		{"the least", false, Options{}, ms(math.MinInt64), false, time.Minute},
		{"below the floor", false, Options{}, ms(1), false, time.Minute},
		{"own floor", false, Options{MinTTL: 2 * time.Second}, ms(1), false, 2 * time.Second},
		{"huge", false, Options{}, ms(math.MaxInt64), false, time.Hour},
		{"huge, durable", true, Options{}, ms(math.MaxInt64), false, 24 * time.Hour},
		{"just too much for nanoseconds", true, Options{}, ms(math.MaxInt64/1_000_000 + 1), false, 24 * time.Hour},
		{"own max", true, Options{MaxTTL: 45 * time.Minute}, ms(math.MaxInt64), false, 45 * time.Minute},
		{"own max above what is possible", true, Options{MaxTTL: 999 * time.Hour}, ms(math.MaxInt64), false, 24 * time.Hour},
		{"null, not allowed", true, Options{}, nil, true, 24 * time.Hour},
		{"null, memory", false, Options{}, nil, true, time.Hour},
		{"null, allowed", true, Options{AllowNoExpiry: true}, nil, true, 0},
		{"a number where null is allowed", true, Options{AllowNoExpiry: true}, ms(math.MaxInt64), false, 24 * time.Hour},
	} {
		o, err := c.o.withDefaults(c.store)
		if err != nil {
			t.Fatal(c.name, err)
		}
		terms := o.part().Terms
		got := terms.Until(c.ttl, c.forever, now)
		switch {
		case c.want == 0 && !got.IsZero():
			t.Errorf("%s: got %s, want no expiry", c.name, got)
		case c.want != 0 && got.Sub(now) != c.want+floor:
			t.Errorf("%s: got %s, want %s", c.name, got.Sub(now), c.want)
		}
	}
	if o, err := (Options{}).withDefaults(durableOrNot(true)); err != nil || o.Quota != (Quota{100, 100_000}) { // docs/limits.md
		t.Errorf("the default quota is %+v, %v", o.Quota, err)
	}
	for _, o := range []Options{{AllowNoExpiry: true}, {RequireDurableStore: true}, {MinTTL: 2 * time.Hour}} {
		if _, err := o.withDefaults(durableOrNot(false)); err == nil {
			t.Errorf("%+v is accepted without a durable store", o)
		}
	}
}

type durableOrNot bool

func (d durableOrNot) Durable() bool { return bool(d) }
