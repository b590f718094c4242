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

	"github.com/mcpe-gen/mcpe-gen/internal/sampletest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// shared is the host that a noisy principal may have in common with the others.
const shared = "shared.test"

// A scene is one principal's noise: 100 subscriptions, next to those of others.
type scene struct {
	name     string
	answer   func(context.Context) (int, http.Header, error) // of the noisy endpoints, nil for no noise
	hosts    int                                             // on how many other hosts they are, 0 for the host of the others
	restored bool                                            // all subscriptions were there when the process began
	warm     bool                                            // the noisy endpoints answered their first event at once
	answered time.Duration                                   // that the noisy endpoints took for their challenges
	then     func(*testing.T, *Handle)                       // what an operator does to each noisy subscription after the first event
}

// after answers with the status after a time. A context ends the wait without a timer if the time is 0; CONTRIBUTING.md
// says why.
func after(d time.Duration, status int) func(context.Context) (int, http.Header, error) {
	return func(ctx context.Context) (int, http.Header, error) {
		waiting, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		<-waiting.Done()
		if ctx.Err() != nil {
			return 0, nil, ctx.Err()
		}
		return status, nil, nil
	}
}

func scenes() []scene {
	var all []scene
	for _, restored := range []bool{false, true} {
		suffix := ", new"
		if restored {
			suffix = ", restored"
		}
		all = append(all, scene{name: "nobody" + suffix, restored: restored})
		for _, hosts := range []int{0, 40} {
			place := ", same host" + suffix
			if hosts > 0 {
				place = ", 40 other hosts" + suffix
			}
			all = append(all,
				scene{name: "slow" + place, answer: after(3*time.Second, 200), hosts: hosts, restored: restored},
				scene{name: "failing" + place, answer: after(0, 503), hosts: hosts, restored: restored},
				scene{name: "hanging" + place, answer: hang, hosts: hosts, restored: restored},
			)
		}
	}
	quick := after(20*time.Millisecond, 200)
	return append(all,
		scene{name: "hanging after a challenge, same host, new", answer: hang, answered: time.Millisecond},
		scene{name: "hanging after a delivery, same host, new", answer: hang, warm: true},
		scene{name: "hanging after a delivery, 40 other hosts, new", answer: hang, hosts: 40, warm: true},
		scene{name: "replayed, same host, new", answer: quick, then: func(t *testing.T, h *Handle) {
			if err := h.Rewind(t.Context(), 0, 0); err != nil {
				t.Error(err)
			}
		}},
		scene{name: "unpaused, same host, new", answer: quick, then: func(_ *testing.T, h *Handle) {
			h.Pause(time.Now())
			time.AfterFunc(3*time.Second, h.Unpause)
		}},
		scene{name: "gaps to slow ones, same host, new", answer: after(3*time.Second, 200), then: func(_ *testing.T, h *Handle) { h.Gap() }},
	)
}

// rounds is how many events a scene has, one a second.
const rounds = 12

// play runs the scene and returns how long the deliveries to the others took to begin:
// to 20 principals that were there before, or to one more each second.
func (c scene) play(t *testing.T) []time.Duration {
	var mu sync.Mutex
	emitted := map[string]time.Time{}
	s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
		if !strings.HasPrefix(g.sub, "noisy") || c.warm && g.id == "evt_warm" {
			return after(20*time.Millisecond, 200)(ctx)
		}
		return c.answer(ctx)
	}}
	e := newEngine(t, Options{Sender: s})
	defer shutdown(t, e)
	top := newTopic(store.LogOptions{})
	emit := func(id string) {
		mu.Lock()
		emitted[id] = time.Now()
		mu.Unlock()
		top.emit(t, id)
	}
	join := func(id, principal, host string, answered time.Duration) *Handle {
		r := record(id)
		r.Principal, r.URL = principal, "http://"+host+"/"+id
		if !c.restored {
			r.Progress = store.Progress{Base: top.Head(), Open: true}
		}
		h, _ := top.attend(t, e, Entry{Subscription: r, Answered: answered})
		return h
	}
	if c.restored {
		emit("evt_backlog")
	}
	var noisy []*Handle
	for i := range 100 {
		if c.answer == nil {
			break
		}
		host := shared
		if c.hosts > 0 {
			host = fmt.Sprintf("other%d.test", i%c.hosts)
		}
		noisy = append(noisy, join(fmt.Sprint("noisy_", i), "noisy", host, c.answered))
	}
	others := func(n int) {
		for i := range 2 {
			join(fmt.Sprintf("quiet_%d_%d", n, i), fmt.Sprint("quiet_", n), shared, 0)
		}
	}
	if c.restored {
		for n := range 20 {
			others(n)
		}
	}
	if c.warm || c.then != nil {
		emit("evt_warm")
		time.Sleep(10 * time.Second)
	}
	for i := range rounds {
		if !c.restored {
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
	return c.delays(t, s, emitted)
}

// delays are the times from an event to the first attempt of each of the others; none may be missing.
func (c scene) delays(t *testing.T, s *script, emitted map[string]time.Time) []time.Duration {
	var all []time.Duration
	for _, g := range s.all() {
		if strings.HasPrefix(g.sub, "quiet") && g.kind == "" && g.attempt == 1 {
			all = append(all, g.at.Sub(emitted[g.id]))
		}
	}
	want := rounds * (rounds + 1) // one principal more for each event, with two subscriptions
	if c.restored {
		want = (rounds + 1) * 40
	}
	if len(all) != want {
		t.Errorf("%d deliveries to the others, want %d", len(all), want)
	}
	slices.Sort(all)
	return all
}

// TestHOOK4Noise has one principal make noise in many ways: the others' deliveries, the first of a newcomer included,
// are hardly later than without it.
func TestHOOK4Noise(t *testing.T) {
	const floor = 50 * time.Millisecond
	p99 := func(all []time.Duration) time.Duration { return all[len(all)*99/100] }
	silent := map[bool]time.Duration{}
	var quiet, noisy []scene
	for _, c := range scenes() {
		if c.answer == nil {
			quiet = append(quiet, c)
		} else {
			noisy = append(noisy, c)
		}
	}
	for _, c := range slices.Concat(quiet, sampletest.Draw(t, noisy, 6)) {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := c.play(t)
				t.Logf("p50 %8v  p99 %8v  max %8v", all[len(all)/2], p99(all), all[len(all)-1])
				if c.answer == nil {
					silent[c.restored] = max(floor, p99(all))
				}
				if bound := 3 * silent[c.restored]; p99(all) >= bound {
					t.Errorf("p99 of the others is %v, want less than %v", p99(all), bound)
				}
			})
		})
	}
}
