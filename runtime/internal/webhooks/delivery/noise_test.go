package delivery

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// shared is the host that noisy principals may have in common with the others.
const shared = "shared.test"

// A scene is the noise of some principals with 100 subscriptions each, next to the subscriptions of others.
type scene struct {
	kind     string
	answer   func(ctx context.Context, n int64) (int, http.Header, error) // to the n-th request of a noisy principal
	noisy    int                                                          // principals that make noise
	hosts    int                                                          // on how many other hosts they are, 0 for the host of the others
	began    start
	apart    time.Duration             // between the same event of one noisy principal and of the next
	answered time.Duration             // that the noisy endpoints took for their challenges
	slow     int                       // subscriptions of each noisy principal that were slow before the process began
	settling int                       // first events that are not measured
	then     func(*testing.T, *Handle) // what an operator does to each noisy subscription after the first event
}

// A start is how the subscriptions of a scene began.
type start string

const (
	fresh    start = "new"      // those of the others come one principal a second
	warm     start = "warm"     // all were sent an event, which was answered at once
	restored start = "restored" // all were there when the process began
)

func (c scene) name() string {
	place := "same host"
	if c.hosts > 0 {
		place = fmt.Sprint(c.hosts, " other hosts")
	}
	if c.apart > 0 {
		place += fmt.Sprint(", ", c.apart, " apart")
	}
	return fmt.Sprintf("%d %s, %s, %s", c.noisy, c.kind, place, c.began)
}

// after answers with the status after a time. A context ends the wait without a timer if the time is 0; CONTRIBUTING.md
// says why.
func after(d time.Duration, status int) func(context.Context, int64) (int, http.Header, error) {
	return func(ctx context.Context, _ int64) (int, http.Header, error) {
		waiting, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		<-waiting.Done()
		if ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		return status, nil, nil
	}
}

// hanging never answers.
func hanging(ctx context.Context, _ int64) (int, http.Header, error) { return hang(ctx) }

// flip answers one request in nine at once; eight hang.
func flip(ctx context.Context, n int64) (int, http.Header, error) {
	if n%9 == 0 {
		return 200, nil, nil
	}
	return hang(ctx)
}

// grid are the scenes of each kind, number, place and state.
func grid() []scene {
	var all []scene
	for _, c := range []scene{
		{kind: "slow", answer: after(3*time.Second, 200)},
		{kind: "failing", answer: after(0, 503)},
		{kind: "hanging", answer: hanging},
		{kind: "flip", answer: flip},
	} {
		for _, c.hosts = range []int{0, 100} {
			for _, c.began = range []start{fresh, warm, restored} {
				for _, c.noisy = range []int{1, 2, 3, 10} {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// special are the scenes that each part of the rule is for.
func special() []scene {
	quick := after(20*time.Millisecond, 200)
	return []scene{
		{kind: "hanging", answer: hanging, noisy: 10, began: restored},
		{kind: "flip", answer: flip, noisy: 10, began: warm, apart: 20 * time.Millisecond},
		{kind: "hanging", answer: hanging, noisy: 10, hosts: 100, began: warm},
		{kind: "hanging for some time", answer: hanging, noisy: 20, began: warm, settling: 11},
		{kind: "slow since a challenge", answer: after(3*time.Second, 200), noisy: 20, began: fresh, answered: 2 * time.Second},
		{kind: "hanging since one did", answer: hanging, noisy: 20, began: restored, slow: 1},
		{kind: "hanging since all did", answer: hanging, noisy: 20, began: restored, slow: 100},
		{kind: "slow since all were", answer: after(3*time.Second, 200), noisy: 20, began: restored, slow: 100},
		{kind: "hanging", answer: hanging, noisy: 10, began: warm, apart: 20 * time.Millisecond},
		{kind: "almost slow", answer: after(950*time.Millisecond, 200), noisy: 10, began: warm},
		{kind: "hanging after a challenge", answer: hanging, noisy: 1, began: fresh, answered: time.Millisecond},
		{kind: "replayed", answer: quick, noisy: 1, began: fresh, then: func(t *testing.T, h *Handle) {
			if err := h.Rewind(t.Context(), 0, 0, unstored); err != nil {
				t.Error(err)
			}
		}},
		{kind: "unpaused", answer: quick, noisy: 1, began: fresh, then: func(_ *testing.T, h *Handle) {
			h.Pause(time.Now())
			time.AfterFunc(3*time.Second, h.Unpause)
		}},
		{kind: "gaps to slow ones", answer: after(3*time.Second, 200), noisy: 1, began: fresh, then: func(_ *testing.T, h *Handle) { h.Gap() }},
	}
}

// rounds is how many events a scene has, one a second.
const rounds = 12

// play runs the scene and returns how long the deliveries to the others took to begin: to 20 principals that were there
// before, or to one more each second.
func (c scene) play(t *testing.T) []time.Duration {
	var mu sync.Mutex
	emitted := map[string]time.Time{}
	requests := map[string]int64{} // of each noisy principal
	s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
		principal, noisy := strings.CutPrefix(g.sub, "noisy_")
		if !noisy || g.id == "evt_warm" {
			return after(20*time.Millisecond, 200)(ctx, 0)
		}
		principal, _, _ = strings.Cut(principal, "_")
		mu.Lock()
		requests[principal]++
		n := requests[principal]
		mu.Unlock()
		return c.answer(ctx, n)
	}}
	e := newEngine(t, Options{Sender: s})
	defer shutdown(t, e)
	top := newTopic(store.LogOptions{})
	targets := make([][]string, c.noisy+1) // the subscriptions of each noisy principal, and of the others
	emit := func(id string) {
		mu.Lock()
		emitted[id] = time.Now()
		mu.Unlock()
		if c.apart == 0 {
			top.emit(t, id)
			return
		}
		for i, subs := range targets {
			if i == c.noisy {
				mu.Lock()
				emitted[id] = time.Now()
				mu.Unlock()
			}
			if len(subs) > 0 {
				top.emit(t, id, subs...)
			}
			time.Sleep(c.apart)
		}
	}
	join := func(group int, id, principal, host string, answered time.Duration, slow bool) *Handle {
		targets[group] = append(targets[group], id)
		r := record(id)
		r.Health.Slow = slow
		r.Principal, r.URL = principal, "http://"+host+"/"+id
		if c.began != restored {
			r.Progress = store.Progress{Base: top.Head(), Open: true}
		}
		h, _ := top.attend(t, e, Entry{Subscription: r, Answered: answered})
		return h
	}
	if c.began == restored {
		top.emit(t, "evt_backlog")
		emitted["evt_backlog"] = time.Now()
	}
	var noisy []*Handle
	for p := range c.noisy {
		for i := range 100 {
			host := shared
			if c.hosts > 0 {
				host = fmt.Sprintf("other%d.test", i%c.hosts)
			}
			noisy = append(noisy, join(p, fmt.Sprintf("noisy_%d_%d", p, i), fmt.Sprint("noisy_", p), host, c.answered, i < c.slow))
		}
	}
	others := func(n int) {
		for i := range 2 {
			join(c.noisy, fmt.Sprintf("quiet_%d_%d", n, i), fmt.Sprint("quiet_", n), shared, 0, false)
		}
	}
	if c.began != fresh {
		for n := range 20 {
			others(n)
		}
	}
	if c.began == warm || c.then != nil {
		top.emit(t, "evt_warm")
		time.Sleep(10 * time.Second)
	}
	for i := range rounds {
		if c.began == fresh {
			others(i)
		}
		if i == 2 && c.then != nil {
			for _, h := range noisy {
				c.then(t, h)
			}
		}
		emit(fmt.Sprint("evt_", i))
		time.Sleep(time.Second)
	}
	time.Sleep(time.Minute)
	for i := range c.settling {
		delete(emitted, fmt.Sprint("evt_", i))
	}
	return c.delays(t, s, emitted)
}

// delays are the times from an event to the first attempt of each of the others; none may be missing.
func (c scene) delays(t *testing.T, s *script, emitted map[string]time.Time) []time.Duration {
	var all []time.Duration
	for _, g := range s.all() {
		at, measured := emitted[g.id]
		if measured && strings.HasPrefix(g.sub, "quiet") && g.kind == "" && g.attempt == 1 {
			all = append(all, g.at.Sub(at))
		}
	}
	want := (rounds - c.settling) * 40
	switch c.began {
	case fresh: // one principal more for each event, with two subscriptions
		want = rounds * (rounds + 1)
	case restored: // an event was waiting
		want += 40
	}
	if len(all) != want {
		t.Errorf("%d deliveries to the others, want %d", len(all), want)
	}
	slices.Sort(all)
	return all
}

// TestHOOK4Noise has one principal or several make noise in many ways: the others' deliveries, the first of a newcomer
// included, are hardly later than without it.
func TestHOOK4Noise(t *testing.T) {
	p99 := func(all []time.Duration) time.Duration { return all[len(all)*99/100] }
	bounds := map[start]time.Duration{}
	play := func(c scene) {
		t.Run(c.name(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := c.play(t)
				t.Logf("p50 %8v  p99 %8v  max %8v", all[len(all)/2], p99(all), all[len(all)-1])
				if c.noisy == 0 {
					bounds[c.began] = max(100*time.Millisecond, 3*p99(all))
				}
				bound := bounds[c.began]
				if c.noisy > 10 { // more than the promise is for
					bound *= 2
				}
				if p99(all) > bound {
					t.Errorf("p99 of the others is %v, want at most %v", p99(all), bound)
				}
			})
		})
	}
	for _, began := range []start{fresh, warm, restored} {
		play(scene{kind: "silent", began: began})
	}
	for _, c := range append(special(), sampletest.Draw(t, grid(), 6)...) {
		play(c)
	}
}
