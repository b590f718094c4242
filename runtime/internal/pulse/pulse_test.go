package pulse

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
)

// A clock is one that a test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

// begin is a moment in the middle of a minute.
var begin = time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)

func TestMinutes(t *testing.T) {
	const ok, bad = false, true
	type attempt struct {
		after  time.Duration // since begin
		failed bool
	}
	type want struct {
		minute             string
		attempts, failures int64
	}
	for _, c := range []struct {
		name     string
		attempts []attempt
		look     time.Duration
		minutes  int // how many there are to see
		total    want
		some     []want
	}{
		{name: "nothing", minutes: 1, total: want{attempts: 0}},
		{name: "an edge", attempts: []attempt{{29*time.Second + 999*time.Millisecond, ok}, {30 * time.Second, bad}, {89 * time.Second, ok}}, look: 90 * time.Second,
			minutes: 3, total: want{"", 3, 1}, some: []want{{"12:00", 1, 0}, {"12:01", 2, 1}, {"12:02", 0, 0}}},
		{name: "the last minute that is kept", attempts: []attempt{{0, bad}}, look: 59*time.Minute + 29*time.Second,
			minutes: 60, total: want{"", 1, 1}, some: []want{{"12:00", 1, 1}, {"12:59", 0, 0}}},
		{name: "the first that is not", attempts: []attempt{{0, bad}}, look: 59*time.Minute + 30*time.Second,
			minutes: 60, total: want{"", 0, 0}, some: []want{{"12:01", 0, 0}, {"13:00", 0, 0}}},
		{name: "the same place of the ring an hour later", attempts: []attempt{{0, bad}, {time.Hour, ok}}, look: time.Hour,
			minutes: 60, total: want{"", 1, 0}, some: []want{{"13:00", 1, 0}}},
		{name: "idle for a day", attempts: []attempt{{0, bad}, {24 * time.Hour, ok}}, look: 24*time.Hour + time.Minute,
			minutes: 60, total: want{"", 1, 0}, some: []want{{"12:00", 1, 0}, {"12:01", 0, 0}}},
		{name: "back by ten minutes", attempts: []attempt{{30 * time.Minute, ok}, {20 * time.Minute, bad}}, look: 20 * time.Minute,
			minutes: 21, total: want{"", 1, 1}, some: []want{{"12:20", 1, 1}}},
		{name: "back, and there again", attempts: []attempt{{30 * time.Minute, ok}, {20 * time.Minute, bad}, {30 * time.Minute, bad}}, look: 30 * time.Minute,
			minutes: 31, total: want{"", 3, 2}, some: []want{{"12:20", 1, 1}, {"12:30", 2, 1}}},
		{name: "back before the beginning", attempts: []attempt{{-5 * time.Minute, ok}}, look: -4 * time.Minute,
			minutes: 2, total: want{"", 1, 0}, some: []want{{"11:55", 1, 0}, {"11:56", 0, 0}}},
		{name: "a day ahead and back", attempts: []attempt{{0, ok}, {24*time.Hour + 5*time.Minute, ok}, {6 * time.Minute, bad}}, look: 6 * time.Minute,
			minutes: 7, total: want{"", 2, 1}, some: []want{{"12:00", 1, 0}, {"12:05", 0, 0}, {"12:06", 1, 1}}},
		{name: "before 1970", attempts: []attempt{{-100 * 365 * 24 * time.Hour, ok}}, look: -100 * 365 * 24 * time.Hour,
			minutes: 1, total: want{"", 1, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &clock{begin}
			r := New(k.now)
			for _, a := range c.attempts {
				k.at = begin.Add(a.after)
				r.Attempt("ping", "a.test", a.failed, 10*time.Millisecond)
			}
			k.at = begin.Add(c.look)
			for name, h := range map[string]Hour{"whole": r.Whole(), "event": r.Event("ping"), "host": r.Host("a.test")} {
				if h.Attempts != c.total.attempts || h.Failures != c.total.failures || len(h.Minutes) != c.minutes {
					t.Errorf("%s: %d attempts, %d failures, %d minutes", name, h.Attempts, h.Failures, len(h.Minutes))
				}
				found := map[string]Minute{}
				for i, m := range h.Minutes {
					found[m.At.Format("15:04")] = m
					if i > 0 && m.At.Sub(h.Minutes[i-1].At) != time.Minute {
						t.Errorf("%s: a hole before %v", name, m.At)
					}
				}
				for _, w := range c.some {
					if m, ok := found[w.minute]; !ok || m.Attempts != w.attempts || m.Failures != w.failures {
						t.Errorf("%s: %s has %d attempts, %d failures; there: %v", name, w.minute, m.Attempts, m.Failures, ok)
					}
				}
			}
			if h := r.Event("pong"); h.Attempts != 0 {
				t.Errorf("another event type has %d attempts", h.Attempts)
			}
		})
	}
}

// The real clock, in a bubble: minutes come and go by themselves.
func TestHourGoesBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(time.Now)
		for range 90 {
			r.Attempt("ping", "a.test", false, time.Second)
			time.Sleep(time.Minute)
		}
		if h := r.Whole(); h.Attempts != Minutes-1 || len(h.Minutes) != Minutes || h.Minutes[Minutes-1].Attempts != 0 {
			t.Errorf("%d attempts in %d minutes", h.Attempts, len(h.Minutes))
		}
		time.Sleep(time.Hour)
		if h := r.Whole(); h.Attempts != 0 || h.P99 != 0 || len(h.Minutes) != Minutes {
			t.Errorf("%+v after an idle hour", h.Figures)
		}
	})
}

func TestClasses(t *testing.T) {
	if bounds[0] != time.Millisecond || bounds[2] != 2*time.Millisecond || bounds[32] != 65536*time.Millisecond {
		t.Fatal(bounds)
	}
	for d, want := range map[time.Duration]int{
		-time.Second: 0, 0: 0, time.Millisecond - 1: 0, time.Millisecond: 1, 2*time.Millisecond - 1: 2, 2 * time.Millisecond: 3,
		65536*time.Millisecond - 1: 32, 65536 * time.Millisecond: 33, math.MaxInt64: 33,
	} {
		if got := classOf(d); got != want {
			t.Errorf("%v is in class %d, want %d", d, got, want)
		}
	}
}

// Percentiles are within the width of a class of the exact ones.
func TestQuantiles(t *testing.T) {
	k := &clock{begin}
	for _, c := range []struct {
		name          string
		took          func(i int) time.Duration
		p50, p95, p99 time.Duration
	}{
		{"all the same", func(int) time.Duration { return 100 * time.Millisecond }, 100 * time.Millisecond, 100 * time.Millisecond, 100 * time.Millisecond},
		{"even", func(i int) time.Duration { return time.Duration(i+1) * time.Millisecond }, 500 * time.Millisecond, 950 * time.Millisecond, 990 * time.Millisecond},
		{"few slow ones", func(i int) time.Duration {
			if i >= 970 {
				return 10 * time.Second
			}
			return 20 * time.Millisecond
		}, 20 * time.Millisecond, 20 * time.Millisecond, 10 * time.Second},
		{"beyond the last class", func(int) time.Duration { return time.Hour }, 65536 * time.Millisecond, 65536 * time.Millisecond, 65536 * time.Millisecond},
	} {
		r := New(k.now)
		for i := range 1000 {
			r.Attempt("ping", "a.test", false, c.took(i))
		}
		h := r.Whole()
		for name, v := range map[string][2]time.Duration{"p50": {h.P50, c.p50}, "p95": {h.P95, c.p95}, "p99": {h.P99, c.p99}} {
			if ratio := float64(v[0]) / float64(v[1]); ratio > math.Sqrt2 || ratio < 1/math.Sqrt2 {
				t.Errorf("%s: %s is %v, exactly %v", c.name, name, v[0], v[1])
			}
		}
		if h.P50 > h.P95 || h.P95 > h.P99 {
			t.Errorf("%s: %v, %v, %v", c.name, h.P50, h.P95, h.P99)
		}
	}
	r := New(k.now)
	r.Attempt("ping", "a.test", false, 100*time.Microsecond)
	if h := r.Whole(); h.P99 <= 0 || h.P99 > time.Millisecond {
		t.Errorf("%v for what took less than a millisecond", h.P99)
	}
}

func TestBehind(t *testing.T) {
	k := &clock{begin}
	r := New(k.now)
	if h := r.Whole(); h.Behind != -1 || h.Minutes[0].Behind != -1 {
		t.Errorf("behind by %d before anybody looked", h.Behind)
	}
	r.Behind(map[string]int64{"ping": 3, "pong": 7}, map[string]int64{"a.test": 7})
	k.at = k.at.Add(time.Minute)
	r.Attempt("ping", "b.test", false, time.Second)
	k.at = k.at.Add(time.Minute)
	r.Behind(map[string]int64{"ping": 5, "pong": 0}, nil)
	for _, c := range []struct {
		name string
		hour Hour
		want [3]int64
	}{
		{"whole", r.Whole(), [3]int64{7, -1, 5}},
		{"ping", r.Event("ping"), [3]int64{3, -1, 5}},
		{"pong", r.Event("pong"), [3]int64{7, -1, 0}},
		{"a.test", r.Host("a.test"), [3]int64{7, -1, 0}},
		{"b.test", r.Host("b.test"), [3]int64{-1, -1, 0}},
	} {
		for i, want := range c.want {
			if got := c.hour.Minutes[i].Behind; got != want {
				t.Errorf("%s: minute %d is behind by %d, want %d", c.name, i, got, want)
			}
		}
		if c.hour.Behind != c.want[2] {
			t.Errorf("%s is behind by %d at last", c.name, c.hour.Behind)
		}
	}
}

// Beyond the bound the host goes whose last attempt is the longest ago, and what a forgotten one had is not said to be
// nothing: its hour begins when it comes again.
func TestBound(t *testing.T) {
	k := &clock{begin}
	r := New(k.now)
	host := func(i int) string { return fmt.Sprintf("%d.test", i) }
	for i := range Kept {
		r.Attempt("ping", host(i), false, time.Millisecond)
	}
	k.at = k.at.Add(time.Minute)
	r.Attempt("ping", host(0), false, time.Millisecond) // host 1 is the oldest now
	r.Behind(nil, map[string]int64{"late.test": 9})     // takes nobody's place
	if h := r.Host("late.test"); h.Behind != -1 || len(h.Minutes) != 2 {
		t.Errorf("%+v of a host without a ring", h)
	}
	k.at = k.at.Add(time.Minute)
	r.Attempt("ping", "new.test", true, time.Millisecond)
	for name, want := range map[string][2]int{host(0): {2, 3}, host(1): {0, 1}, host(2): {1, 3}, "new.test": {1, 1}, "never.test": {0, 1}} {
		if h := r.Host(name); h.Attempts != int64(want[0]) || len(h.Minutes) != want[1] {
			t.Errorf("%s: %d attempts in %d minutes, want %v", name, h.Attempts, len(h.Minutes), want)
		}
	}
	if h := r.Host("new.test"); h.Failures != 1 {
		t.Errorf("%d failures", h.Failures)
	}
	for i := range 10 * Kept {
		r.Attempt(host(i), host(i), false, time.Millisecond)
	}
	if n, m := len(r.hosts.byName), r.hosts.used.Len(); n != Kept || m != Kept || len(r.events.byName) != Kept {
		t.Errorf("%d hosts, %d rings, %d event types", n, m, len(r.events.byName))
	}
	if h := r.Whole(); h.Attempts != 11*Kept+2 {
		t.Errorf("the process counts %d", h.Attempts)
	}
}

// TestUntimed expects refused connections to count as failures, and not to make an endpoint that takes 3 s look quick.
func TestUntimed(t *testing.T) {
	r := New((&clock{begin}).now)
	for range 9 {
		r.Attempt("ping", "a.test", true, -1)
	}
	if h := r.Host("a.test"); h.Attempts != 9 || h.Failures != 9 || h.P50 != 0 || h.P99 != 0 {
		t.Errorf("refused only: %+v", h.Figures)
	}
	r.Attempt("ping", "a.test", false, 3*time.Second)
	if h := r.Host("a.test"); h.Attempts != 10 || h.Failures != 9 || h.P50 < 2*time.Second {
		t.Errorf("%+v", h.Figures)
	}
}

// What the comment of Kept says.
func TestSize(t *testing.T) {
	if n := unsafe.Sizeof(ring{}); n != 9600 {
		t.Errorf("a ring is %d bytes", n)
	}
}

func TestConcurrent(t *testing.T) {
	r := New(time.Now)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 500 {
				r.Attempt("ping", fmt.Sprintf("%d.test", i), j%2 == 0, time.Millisecond)
				if j%100 == 0 {
					r.Behind(map[string]int64{"ping": 1}, nil)
					r.Host("1.test")
				}
			}
		})
	}
	all.Wait()
	if h := r.Event("ping"); h.Attempts != 4000 || h.Failures != 2000 {
		t.Errorf("%d attempts, %d failures", h.Attempts, h.Failures)
	}
}

// Recording allocates nothing once a name has its ring, not even where hosts push each other out.
func TestNoAllocation(t *testing.T) {
	k := &clock{begin}
	r := New(k.now)
	hosts := make([]string, 2*Kept)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("%d.test", i)
		r.Attempt("ping", hosts[i], false, time.Millisecond)
	}
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		k.at = k.at.Add(time.Second)
		r.Attempt("ping", hosts[Kept+i%Kept], true, time.Second)
		i++
	}); n != 0 {
		t.Errorf("%v allocations for an attempt", n)
	}
}

func BenchmarkAttempt(b *testing.B) {
	r := New(time.Now)
	b.ReportAllocs()
	for b.Loop() {
		r.Attempt("ping", "a.test", false, 30*time.Millisecond)
	}
}

func BenchmarkAttemptParallel(b *testing.B) {
	r := New(time.Now)
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			r.Attempt("ping", "a.test", false, 30*time.Millisecond)
		}
	})
}

// BenchmarkAttemptEvicts has hosts that always push each other out.
func BenchmarkAttemptEvicts(b *testing.B) {
	r := New(time.Now)
	hosts := make([]string, 2*Kept)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("%d.test", i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r.Attempt("ping", hosts[i%len(hosts)], false, 30*time.Millisecond)
		i++
	}
}

func BenchmarkHour(b *testing.B) {
	r := New(time.Now)
	r.Attempt("ping", "a.test", false, 30*time.Millisecond)
	b.ReportAllocs()
	for b.Loop() {
		r.Host("a.test")
	}
}
