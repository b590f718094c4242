package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A recorder is a store that remembers its state after each step, with what had been acknowledged
// by then.
type recorder struct {
	store.SubscriptionStore
	t   testing.TB
	log string

	mu     sync.Mutex
	states []state
}

// A state is what a crash leaves behind.
type state struct {
	subs  []store.Subscription
	mark  store.Position
	acked map[string]bool // "sub event"
}

func (r *recorder) snapshot(known func() map[string]bool) {
	ctx := context.Background()
	var s state
	var err1, err2 error
	s.subs, err1 = r.SubscriptionStore.Subscriptions(ctx, "", 1000)
	s.mark, err2 = r.SubscriptionStore.Mark(ctx, r.log)
	if err := errors.Join(err1, err2); err != nil {
		r.t.Error(err)
	}
	s.acked = known()
	r.mu.Lock()
	r.states = append(r.states, s)
	r.mu.Unlock()
}

// restore is a store in that state.
func (s *state) restore(t testing.TB, log string) *memory.Store {
	ctx := context.Background()
	m := memory.New()
	var err error
	for _, sub := range s.subs {
		sub.Revision = 0
		_, e := m.PutSubscription(ctx, sub)
		err = errors.Join(err, e, m.SaveProgress(ctx, []store.Update{{ID: sub.ID, Generation: sub.Generation, Progress: sub.Progress, Health: sub.Health}}))
	}
	if err = errors.Join(err, m.SaveMark(ctx, log, s.mark)); err != nil {
		t.Error(err)
	}
	return m
}

// A writeSpy calls back after each writing.
type writeSpy struct {
	engine.Owned
	after func()
	fail  func() error
	count atomic.Int64
}

func (w *writeSpy) SaveProgress(ctx context.Context, u []store.Update) error {
	w.count.Add(1)
	if w.fail != nil {
		if err := w.fail(); err != nil {
			return err
		}
	}
	defer w.after()
	return w.Owned.SaveProgress(ctx, u)
}

func (w *writeSpy) SaveMark(ctx context.Context, log string, to store.Position) error {
	w.count.Add(1)
	if w.fail != nil {
		if err := w.fail(); err != nil {
			return err
		}
	}
	defer w.after()
	return w.Owned.SaveMark(ctx, log, to)
}

// TestTrap1Crash cuts the process off after every writing, under random orders of success, failure
// and abandonment, and starts again from what was stored: what was acknowledged before and after
// is everything that matched, and every cursor that went out was safe (HOOK-6, section 13).
// [Engine.Flush] carries it with collect and write, [Engine.Add], and [Watermark.At].
func TestTrap1Crash(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "events")
		subs := rapid.IntRange(1, 3).Draw(rt, "subscriptions")
		type plan struct {
			targets []string
			fails   []int // how many attempts fail, by subscription
			pause   time.Duration
			latency time.Duration
		}
		plans := make([]plan, n)
		for i := range plans {
			p := plan{targets: []string{"nobody"}}
			for s := range subs {
				if rapid.IntRange(0, 3).Draw(rt, "matches") > 0 {
					p.targets = append(p.targets, fmt.Sprint("sub_", s))
				}
				p.fails = append(p.fails, rapid.SampledFrom([]int{0, 0, 0, 1, 2, 9}).Draw(rt, "fails"))
			}
			p.pause = time.Duration(rapid.SampledFrom([]int{0, 0, 1, 300, 4000}).Draw(rt, "pause")) * time.Millisecond
			p.latency = time.Duration(rapid.SampledFrom([]int{0, 1, 150, 2500}).Draw(rt, "latency")) * time.Millisecond
			plans[i] = p
		}
		ordered := rapid.Bool().Draw(rt, "ordered")
		batch := rapid.IntRange(1, 4).Draw(rt, "batch")
		var failure error
		synctest.Test(t, func(t *testing.T) {
			failure = crashes(t, ordered, batch, subs, n, func(i int) ([]string, time.Duration) { return plans[i].targets, plans[i].pause },
				func(i, s int) (int, time.Duration) { return plans[i].fails[s], plans[i].latency })
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}

func crashes(t *testing.T, ordered bool, batch, subs, n int, emit func(i int) ([]string, time.Duration), fate func(i, s int) (int, time.Duration)) error {
	ctx := context.Background()
	o := Options{Schedule: []time.Duration{0, time.Second, 2 * time.Second}, MaxUnsettled: 8}
	if ordered {
		o.PerSubscription = 1
	}
	top := newTopic(store.LogOptions{})
	matching := map[string]store.Position{} // "sub event"
	var mu sync.Mutex
	settled := map[string]bool{} // acknowledged or abandoned
	var unsafe error
	s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
		var i, sub int
		fmt.Sscanf(g.id, "evt_%d", &i)
		fmt.Sscanf(g.sub, "sub_%d", &sub)
		fails, latency := fate(i, sub)
		mu.Lock()
		var cursor store.Position
		fmt.Sscanf(g.cursor, "c%d", &cursor)
		own := matching[g.sub+" "+g.id]
		for key, p := range matching {
			var who string
			fmt.Sscanf(key, "%s", &who)
			if who == g.sub && p <= cursor && p != own && !settled[key] {
				unsafe = fmt.Errorf("%s at %d carries %s although %s at %d is not settled", g.id, own, g.cursor, key, p)
			}
		}
		if cursor > own {
			unsafe = fmt.Errorf("%s at %d carries %s", g.id, own, g.cursor)
		}
		mu.Unlock()
		time.Sleep(latency)
		if g.attempt <= fails {
			if g.attempt == len(o.Schedule) {
				// Nothing else is tried; the engine settles it a moment later.
				mu.Lock()
				settled[g.sub+" "+g.id] = true
				mu.Unlock()
			}
			return 500, nil, nil
		}
		mu.Lock()
		settled[g.sub+" "+g.id] = true
		mu.Unlock()
		return 200, nil, nil
	}}
	o.Sender = s
	base := memory.New()
	var states []state
	spy := &writeSpy{Owned: base}
	rec := &recorder{SubscriptionStore: base, t: t, log: "test"}
	spy.after = func() {
		rec.snapshot(func() map[string]bool {
			mu.Lock()
			defer mu.Unlock()
			m := map[string]bool{}
			for k := range settled {
				m[k] = true
			}
			return m
		})
	}
	e := newEngine(t, o, spy)
	e.saver.batch = batch
	var err error
	if top.track, err = e.whole.OpenLog(ctx, "test", top.Head); err != nil {
		return err
	}
	top.track.Ready()
	var views []*view
	for i := range subs {
		r := record(fmt.Sprint("sub_", i))
		r.ExpiresAt = time.Time{}
		if _, err := base.PutSubscription(ctx, r); err != nil {
			return err
		}
		_, v := top.join(t, e, r, false)
		views = append(views, v)
	}
	for i := range n {
		targets, pause := emit(i)
		id := fmt.Sprint("evt_", i)
		mu.Lock()
		for _, who := range targets {
			if who != "nobody" {
				matching[who+" "+id] = top.Head() + 1
			}
		}
		mu.Unlock()
		top.emit(t, id, targets...)
		time.Sleep(pause)
	}
	time.Sleep(time.Hour)
	shutdown(t, e)
	if unsafe != nil {
		return unsafe
	}
	mu.Lock()
	for key := range matching {
		if !settled[key] {
			mu.Unlock()
			return fmt.Errorf("%s was never settled", key)
		}
	}
	mu.Unlock()
	for _, v := range views {
		if !v.closed.Load() {
			return errors.New("a reader was not closed")
		}
	}
	states = rec.states
	for i := range states {
		if err := restart(t, top, &states[i], matching, o); err != nil {
			return fmt.Errorf("after writing %d of %d: %w", i+1, len(states), err)
		}
	}
	return nil
}

// restart starts an engine from a state and lets it deliver.
func restart(t *testing.T, top *topic, st *state, matching map[string]store.Position, o Options) error {
	ctx := context.Background()
	s := &script{}
	o.Sender = s
	e := newEngine(t, o, st.restore(t, "test"))
	defer shutdown(t, e)
	top.reads.Store(0)
	log, err := e.whole.OpenLog(ctx, "test", top.Head)
	if err != nil {
		return err
	}
	top.mu.Lock()
	top.track = log
	top.mu.Unlock()
	for _, sub := range st.subs {
		top.join(t, e, sub, true)
	}
	log.Ready()
	time.Sleep(time.Minute)
	after := map[string]int{}
	for _, g := range s.all() {
		key := g.sub + " " + g.id
		if after[key]++; after[key] > 1 {
			return fmt.Errorf("%s was delivered twice after the restart", key)
		}
	}
	for key := range matching {
		var who string
		fmt.Sscanf(key, "%s", &who)
		if !slices.ContainsFunc(st.subs, func(s store.Subscription) bool { return s.ID == who }) {
			continue // subscribed later
		}
		if p := matching[key]; after[key] > 0 && slices.ContainsFunc(st.subs, func(s store.Subscription) bool {
			return s.ID == who && (p <= s.Progress.Base || slices.ContainsFunc(s.Progress.Settled, func(x store.Span) bool { return x.From <= p && p <= x.To }))
		}) {
			return fmt.Errorf("%s at %d was delivered again although it is stored as settled", key, p)
		}
		if !st.acked[key] && after[key] == 0 {
			return fmt.Errorf("%s was lost: the mark is %d, the records %v", key, st.mark, st.subs)
		}
	}
	return nil
}
