package shard

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is a store and its replicas. It checks that work begins only if the store says that its replica owns the
// shard, and has ended when another replica claims it.
type world struct {
	c *cells

	mu       sync.Mutex
	failures []string
	work     map[engine.Shard]*replica // replicas with open work
	began    map[engine.Shard]int
	pauses   map[engine.Shard]time.Time // when work last ended
	longest  time.Duration              // between an end and the next beginning
}

type replica struct {
	w     *world
	name  string
	f     *faults
	clock *skewed
	owner *Owner
	stop  context.CancelFunc
	dead  bool
	took  time.Duration // duration of one unit of work
	types map[string]string
}

func newWorld() *world {
	w := &world{c: newCells(), work: map[engine.Shard]*replica{}, began: map[engine.Shard]int{}, pauses: map[engine.Shard]time.Time{}}
	w.c.claim = func(s engine.Shard, fence uint64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		// Work that was open when its process was suspended cannot be cancelled.
		if r := w.work[s]; r != nil && !r.f.still() && !r.dead {
			w.failf("%v is claimed by %d while %s works on it", s, fence, r.name)
		}
	}
	return w
}

func (w *world) failf(format string, args ...any) {
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

func (w *world) replica(i int, rate float64, drawn []fault) *replica {
	r := &replica{w: w, name: fmt.Sprint("r", i), f: &faults{drawn: drawn}, took: 300 * time.Millisecond, types: map[string]string{"event": "f"}}
	r.clock = &skewed{start: time.Now(), rate: rate, f: r.f}
	r.owner = New(Options{Leases: port{w.c, r.f}, Name: r.name, Types: func() map[string]string { return r.types },
		Duties: []string{engine.OutboxTopic}, Shards: 6, Run: r.run, Clock: r.clock, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	return r
}

func (r *replica) start() {
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	r.owner.Start(ctx)
}

// run works on a shard unit by unit, as deliveries do.
func (r *replica) run(t *Ownership) {
	s := t.ShardFence().Shard
	for {
		select {
		case <-t.Context().Done():
			return
		case <-t.Draining():
			return
		default:
		}
		r.f.gate()
		r.w.c.mu.Lock()
		if t.Valid() {
			r.w.mu.Lock()
			if at := r.w.c.shards[s]; at != t.ShardFence().Fence {
				r.w.failf("%s begins work on %v under fence %d, it is held by %d", r.name, s, t.ShardFence().Fence, at)
			}
			if other := r.w.work[s]; other != nil && !other.f.still() && !other.dead && other != r {
				r.w.failf("%s begins work on %v while %s does", r.name, s, other.name)
			}
			r.w.work[s] = r
			r.w.began[s]++
			if end, ok := r.w.pauses[s]; ok {
				r.w.longest = max(r.w.longest, time.Since(end))
			}
			r.w.mu.Unlock()
		}
		r.w.c.mu.Unlock()
		sleep(t.Context(), r.took)
		r.w.mu.Lock()
		if r.w.work[s] == r {
			delete(r.w.work, s)
			r.w.pauses[s] = time.Now()
		}
		r.w.mu.Unlock()
		if sleep(t.Context(), 50*time.Millisecond) != nil {
			return
		}
	}
}

// owned returns the number of shards that each living replica owns by the store, and of those without a live owner.
func (w *world) owned(replicas []*replica) (counts []int, orphans int) {
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	w.c.sweep()
	byName := map[string]int{}
	for _, f := range w.c.shards {
		if l := w.c.leases[f]; l != nil {
			byName[l.name]++
		} else {
			orphans++
		}
	}
	for _, r := range replicas {
		if !r.dead {
			counts = append(counts, byName[r.name])
		}
	}
	return counts, orphans
}

func balanced(counts []int) bool { return slices.Max(counts)-slices.Min(counts) <= 1 }

// TestModel runs replicas with lost answers, delays, stalls, clocks of other rates, clocks that are set, and crashes
// at every step: work never begins where it must not, and after the faults every shard is owned, fairly (REP-6 to
// REP-9).
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(rt, "replicas")
		durations := rapid.SampledFrom([]time.Duration{0, 0, 0, time.Millisecond, 300 * time.Millisecond, 1900 * time.Millisecond, 4 * time.Second})
		faulty := rapid.Custom(func(rt *rapid.T) fault {
			return fault{durations.Draw(rt, "delay"), durations.Draw(rt, "lag"), rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(rt, "lost")}
		})
		type step struct {
			what, who int
			wait      time.Duration
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{rapid.IntRange(0, 4).Draw(rt, "what"), rapid.IntRange(0, n-1).Draw(rt, "who"),
				time.Duration(rapid.IntRange(1, 15_000).Draw(rt, "ms")) * time.Millisecond}
		}), 1, 12).Draw(rt, "steps")
		drawn := make([][]fault, 3*n)
		rates := make([]float64, 3*n)
		for i := range drawn {
			drawn[i] = rapid.SliceOfN(faulty, 0, 30).Draw(rt, "faults")
			rates[i] = rapid.SampledFrom([]float64{1, 0.96, 1.04, 1.5}).Draw(rt, "rate") // within the margin, or ahead
		}
		var failures []string
		synctest.Test(t, func(*testing.T) {
			w := newWorld()
			made := 0
			begin := func() *replica {
				if made == len(drawn) {
					made = 0
				}
				r := w.replica(made, rates[made], drawn[made])
				r.name = fmt.Sprint(r.name, "-", rand.Uint64())
				r.owner.o.Name = r.name
				made++
				r.start()
				return r
			}
			var all []*replica
			for range n {
				all = append(all, begin())
			}
			kept := slices.Clone(all)
			for _, s := range steps {
				r := all[s.who]
				switch s.what {
				case 0: // suspended, as by SIGSTOP
					r.f.freeze()
					time.Sleep(s.wait)
					r.f.thaw()
				case 1: // killed, and replaced by another
					w.mu.Lock()
					r.dead = true
					w.mu.Unlock()
					r.stop()
					all[s.who] = begin()
					kept = append(kept, all[s.who])
				case 2: // its clock is set
					r.clock.set(s.wait)
				case 3:
					r.owner.Hurry()
				}
				time.Sleep(s.wait)
			}
			for _, r := range all {
				r.f.mu.Lock()
				r.f.over = true
				r.f.mu.Unlock()
			}
			time.Sleep(time.Minute)
			counts, orphans := w.owned(all)
			w.mu.Lock()
			if orphans > 0 || !balanced(counts) {
				w.failf("a minute after the last fault %d shards have no owner and the others are spread %v", orphans, counts)
			}
			before := len(w.began)
			w.mu.Unlock()
			if before != 7 {
				w.failf("work was done on %d of 7 shards", before)
			}
			for _, r := range kept {
				r.stop()
				<-r.owner.ended
			}
			failures = w.failures
		})
		if len(failures) > 0 {
			rt.Fatalf("%d failures, the first: %s", len(failures), failures[0])
		}
	})
}

// REP-9: joining and leaving moves no more than balance needs, a rolling restart pauses no shard for 2 s, and after a
// crash work continues within the lease and 2 s.
func TestREP9Pauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		var all []*replica
		for i := range 3 {
			r := w.replica(i, 1, nil)
			r.start()
			all = append(all, r)
		}
		time.Sleep(10 * time.Second)
		if counts, orphans := w.owned(all); orphans > 0 || !balanced(counts) {
			t.Fatalf("%v, %d without an owner", counts, orphans)
		}
		reset := func() int {
			w.c.mu.Lock() // before w.mu, as in run
			defer w.c.mu.Unlock()
			w.mu.Lock()
			defer w.mu.Unlock()
			w.longest = 0
			return w.c.claims
		}
		pause := func() time.Duration {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.longest
		}
		before := reset()
		time.Sleep(time.Minute)
		if after := reset(); after != before {
			t.Errorf("%d claims while nothing changed", after-before)
		}
		for i := range 3 { // a rolling restart: the new one first
			r := w.replica(3+i, 1, nil)
			r.start()
			time.Sleep(5 * time.Second)
			if err := all[0].owner.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			all = append(all[1:], r)
			time.Sleep(5 * time.Second)
		}
		if d := pause(); d >= 2*time.Second {
			t.Errorf("a rolling restart paused a shard for %v", d)
		}
		if moved := reset() - before; moved > 3*(2+3) { // 7 shards: a joiner takes at most 2, a leaver has at most 3
			t.Errorf("a rolling restart moved %d shards", moved)
		}
		all[0].dead = true
		all[0].stop()
		reset()
		time.Sleep(30 * time.Second)
		if d := pause(); d > 12*time.Second || d < time.Second {
			t.Errorf("after a crash a shard paused for %v", d)
		}
		if counts, orphans := w.owned(all); orphans > 0 || !balanced(counts) {
			t.Errorf("%v, %d without an owner", counts, orphans)
		}
		for _, r := range all {
			r.owner.Shutdown(t.Context())
		}
		if _, orphans := w.owned(all); orphans != 7 {
			t.Errorf("after all have left %d of 7 shards are free", orphans)
		}
		if len(w.failures) > 0 {
			t.Error(w.failures)
		}
	})
}

// REP-8: a machine that was suspended for longer than its lease notices it by its clocks, without a request, and so
// does a machine whose clock was set.
func TestREP8Drift(t *testing.T) {
	for by, lost := range map[time.Duration]bool{900 * time.Millisecond: false, 1100 * time.Millisecond: true, -1100 * time.Millisecond: true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			r := w.replica(0, 1, nil)
			ownerships := make(chan *Ownership, 1)
			r.owner.o.Run = func(x *Ownership) {
				if x.ShardFence().Shard.Number == 3 {
					ownerships <- x
				}
				<-x.Context().Done()
			}
			r.start()
			ownership := <-ownerships
			time.Sleep(1500 * time.Millisecond)
			r.clock.set(by)
			if ownership.Valid() == lost {
				t.Errorf("set by %v: valid %v", by, !lost)
			}
			if ownership.Context().Err() != nil != lost {
				t.Errorf("set by %v: the work's context: %v", by, ownership.Context().Err())
			}
			r.stop()
			<-r.owner.ended
		})
	}
}

// REP-8: stored times are the store's, whatever the replica's clock says.
func TestREP8StoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.replica(0, 1, nil)
		r.clock.set(3 * time.Hour)
		if _, known := r.owner.Now(); known {
			t.Error("the store's time is known before anybody asked")
		}
		r.start()
		time.Sleep(time.Minute)
		if now, known := r.owner.Now(); !known || time.Until(now).Abs() > time.Millisecond {
			t.Errorf("%v, %v; want %v", now, known, time.Now())
		}
		r.stop()
		<-r.owner.ended
	})
}

// REP-8: without a renewal nothing outlives the lease.
func TestREP8Unreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.replica(0, 1, nil)
		r.took = time.Hour
		r.start()
		time.Sleep(5 * time.Second)
		r.f.mu.Lock()
		for range 1000 {
			r.f.drawn = append(r.f.drawn, fault{lost: 1})
		}
		r.f.mu.Unlock()
		last := time.Now()
		time.Sleep(11 * time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.work) != 0 {
			t.Error("work goes on after the lease")
		}
		for s, end := range w.pauses {
			if end.Sub(last) > 10*time.Second {
				t.Errorf("%v was worked on for %v after the last answer", s, end.Sub(last))
			}
		}
		w.mu.Unlock()
		r.stop()
		<-r.owner.ended
		w.mu.Lock()
	})
}

// REP-7: an owner that gets ErrFenced stops the shard immediately.
func TestREP7Fenced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.replica(0, 1, nil)
		var ended atomic.Int32
		r.owner.o.Run = func(x *Ownership) {
			if ended.Load() == 0 && x.ShardFence().Shard.Number == 3 {
				x.Fenced()
				if x.Valid() {
					t.Error("valid after it was fenced")
				}
				ended.Add(1)
			}
			<-x.Context().Done()
		}
		r.start()
		time.Sleep(2500 * time.Millisecond)
		if ended.Load() != 1 {
			t.Error("the ownership never ended")
		}
		r.stop()
		<-r.owner.ended
	})
}

// TestAssign checks the plan against REP-9 for random clusters: every shard with an eligible replica has an eligible
// owner, loads are evened out as far as possible, and a balanced cluster does not change.
func TestAssign(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		topics := []string{"a", "b", "c", engine.OutboxTopic}
		var c engine.Cluster
		alike := rapid.Bool().Draw(rt, "alike")
		for i := range rapid.IntRange(0, 5).Draw(rt, "replicas") {
			r := engine.Replica{Fence: uint64(i + 1), Types: map[string]string{}}
			for _, topic := range topics[:3] {
				if alike || rapid.Bool().Draw(rt, topic) {
					r.Types[topic] = "f"
				}
			}
			c.Replicas = append(c.Replicas, r)
		}
		for _, topic := range topics {
			for n := range rapid.IntRange(0, 16).Draw(rt, "shards") {
				c.Shards = append(c.Shards, engine.ShardFence{Shard: engine.Shard{Topic: topic, Number: n}, Fence: uint64(rapid.IntRange(0, 7).Draw(rt, "held"))})
			}
		}
		owners := planOwners(c, isEligible)
		load, kept, held := map[uint64]int{}, map[uint64]int{}, map[uint64]int{}
		for i, h := range c.Shards {
			able := false
			for j := range c.Replicas {
				r := &c.Replicas[j]
				able = able || isEligible(r, h.Shard.Topic)
				if r.Fence == owners[h.Shard] && !isEligible(r, h.Shard.Topic) {
					rt.Fatalf("%v goes to one that cannot own it", h.Shard)
				}
				if r.Fence == h.Fence && isEligible(r, h.Shard.Topic) {
					held[h.Fence]++
					if owners[h.Shard] == h.Fence {
						kept[h.Fence]++
					}
				}
			}
			if able != (owners[h.Shard] != 0) {
				rt.Fatalf("%v has owner %d", h.Shard, owners[h.Shard])
			}
			load[owners[h.Shard]]++
			c.Shards[i].Fence = owners[h.Shard]
		}
		for _, r := range c.Replicas {
			// Among equals, no replica gives shards away and gets others.
			if moved := held[r.Fence] - kept[r.Fence]; alike && moved > 0 && load[r.Fence] > kept[r.Fence] {
				rt.Fatalf("%d gave %d away and got %d", r.Fence, moved, load[r.Fence]-kept[r.Fence])
			}
			for _, o := range c.Replicas {
				for topic := range r.Types {
					if _, both := o.Types[topic]; both && load[r.Fence] > load[o.Fence]+1 &&
						slices.ContainsFunc(c.Shards, func(h engine.ShardFence) bool { return h.Shard.Topic == topic && h.Fence == r.Fence }) {
						rt.Fatalf("%d has %d, %d has %d, and %s could move", r.Fence, load[r.Fence], o.Fence, load[o.Fence], topic)
					}
				}
			}
		}
		for s, f := range planOwners(c, isEligible) {
			if owners[s] != f {
				rt.Fatalf("%v moves from %d to %d although nothing changed", s, owners[s], f)
			}
		}
	})
}

// REP-8: if a clock is slow by less than the margin, nothing outlives the lease as the store measures it. That holds
// even if another replica waits for its end, and if timers fire early, even by the fraction of a nanosecond that a
// conversion of rates rounds away: nothing else looks at the clock during a long unit of work.
func TestREP8Rate(t *testing.T) {
	for _, early := range []time.Duration{0, 1, 100 * time.Microsecond, 100 * time.Millisecond} {
		t.Run(early.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { rate(t, early) }) })
	}
}

func rate(t *testing.T, early time.Duration) {
	w := newWorld()
	r, heir := w.replica(0, 0.96, nil), w.replica(1, 1, nil)
	r.clock.early = early
	r.took = time.Hour
	r.start()
	time.Sleep(5 * time.Second)
	heir.owner.o.Look = 10 * time.Millisecond
	heir.start()
	r.f.mu.Lock()
	r.f.drawn = slices.Repeat([]fault{{lost: 1}}, 1000)
	r.f.mu.Unlock()
	time.Sleep(15 * time.Second)
	if counts, _ := w.owned([]*replica{heir}); counts[0] != 7 {
		t.Errorf("the heir owns %v", counts)
	}
	if len(w.failures) > 0 {
		t.Error(w.failures)
	}
	for _, r := range []*replica{r, heir} {
		r.stop()
		<-r.owner.ended
	}
}

// REP-8: a lease of any allowed length is renewed in time, even if each request takes as long as it may.
func TestREP8ShortLease(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 10 * time.Second} {
		for _, lag := range []time.Duration{0, ttl / 6} {
			t.Run(fmt.Sprint(ttl, " ", lag), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					r := w.replica(0, 0.96, slices.Repeat([]fault{{lag: lag}}, 2000))
					r.owner.o.Shards, r.owner.o.TTL, r.owner.o.Look = 2, ttl, 0
					r.owner = New(r.owner.o)
					r.start()
					time.Sleep(2 * time.Minute)
					w.c.mu.Lock()
					if w.c.last != 1 {
						t.Errorf("%d leases in two minutes", w.c.last)
					}
					w.c.mu.Unlock()
					r.stop()
					<-r.owner.ended
				})
			})
		}
	}
}

// REP-9: a process that dies repeatedly right after joining, as with a wrong configuration, leaves leases without a
// process. After two looks, other replicas do their work, and these leases are assigned nothing more.
func TestREP9CrashLoop(t *testing.T) {
	for _, every := range []time.Duration{800 * time.Millisecond, 1500 * time.Millisecond, 2900 * time.Millisecond} {
		t.Run(every.String(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { crashLoop(t, every) }) })
	}
}

func crashLoop(t *testing.T, every time.Duration) {
	w := newWorld()
	all := []*replica{w.replica(0, 1, nil), w.replica(1, 1, nil)}
	for _, r := range all {
		r.start()
	}
	time.Sleep(10 * time.Second)
	made := 2
	loop := func(d time.Duration) {
		for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
			r := w.replica(made, 1, []fault{{}, {delay: time.Minute}}) // joins, and gets no further
			made++
			r.start()
			time.Sleep(100 * time.Millisecond)
			r.stop()
			<-r.owner.ended
		}
	}
	loop(30 * time.Second)
	all[0].dead = true
	all[0].stop()
	loop(30 * time.Second)
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.failures) > 0 {
		t.Error(w.failures)
	}
	if w.longest > 15*time.Second {
		t.Errorf("a shard paused for %v", w.longest)
	}
	done := 0
	for s, n := range w.began {
		done += n
		if pause := time.Since(w.pauses[s]); w.work[s] == nil && pause > 5*time.Second {
			t.Errorf("nobody has worked on %v for %v", s, pause)
		}
	}
	// 7 shards, a unit of work in 350 ms, for 70 s except a lease after the crash.
	if whole := 7 * 60 * 1000 / 350; done < whole*6/10 {
		t.Errorf("%d pieces of work of about %d were done", done, whole)
	}
	for _, r := range all {
		r.stop()
		w.mu.Unlock()
		<-r.owner.ended
		w.mu.Lock()
	}
}
