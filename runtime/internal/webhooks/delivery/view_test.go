package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// SRV-8: an operator finds the subscriptions that fail, those that have failed for longest first, and how far the
// slowest one is behind; one that has recovered or ended is not among them.
func TestSRV8FailingAndLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		refused := map[string]bool{"c": true}
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			mu.Lock()
			defer mu.Unlock()
			return map[bool]int{true: 503, false: 204}[refused[g.sub]], nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		var err error
		if top.track, err = e.whole.OpenLog(t.Context(), "test", top.Head); err != nil {
			t.Fatal(err)
		}
		handles := map[string]*Handle{}
		for _, id := range []string{"a", "b", "c", "d"} {
			handles[id], _ = top.join(t, e, record(id), false)
		}
		is := func(what string, limit, total int, lag int64, want ...string) {
			t.Helper()
			time.Sleep(time.Second)
			ids, n := e.Failing(limit)
			if !slices.Equal(ids, want) || n != total {
				t.Errorf("%s: %q of %d fail, want %q of %d", what, ids, n, want, total)
			}
			if got := e.Lag()["test"]; got != lag {
				t.Errorf("%s: %d behind, want %d", what, got, lag)
			}
		}
		is("at first", 10, 0, 0)
		top.emit(t, "1", "c")
		is("one", 10, 1, 1, "c")
		mu.Lock()
		refused["a"], refused["b"] = true, true
		mu.Unlock()
		top.emit(t, "2")
		is("three", 10, 3, 2, "c", "a", "b")
		is("two of them", 2, 3, 2, "c", "a")
		is("none of them", 0, 3, 2)
		mu.Lock()
		clear(refused)
		mu.Unlock()
		handles["b"].Remove()
		time.Sleep(time.Minute)
		is("they have recovered", 10, 0, 0)
	})
}

// SRV-8: an operator finds out whether an event concerns a subscription and whether it needs nothing any more; a log
// that cannot be read is an error.
func TestSRV8Concerned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			return map[bool]int{true: 503, false: 204}[g.id == "2"], nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		h, v := top.join(t, e, record("a"), false)
		top.emit(t, "1")
		top.emit(t, "2")
		top.emit(t, "other", "b")
		time.Sleep(time.Second)
		for p, want := range map[store.Position][2]bool{1: {true, true}, 2: {true, false}, 3: {false, true}, 4: {false, false}} {
			concerned, settled, err := h.Concerned(t.Context(), p)
			if got := [2]bool{concerned, settled}; got != want || err != nil {
				t.Errorf("%d: concerned and settled %v, want %v; %v", p, got, want, err)
			}
		}
		v.fail.Store(true)
		if _, _, err := h.Concerned(t.Context(), 1); !errors.Is(err, errLog) {
			t.Errorf("%v", err)
		}
	})
}

// SRV-8: an attempt that an operator asks for and that cannot be made is an error that says why, and changes nothing:
// the event is gone, the log cannot be read, or the subscription or the engine has ended.
func TestSRV8SendAgainRefused(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, e *Engine, top *topic, h *Handle, v *view)
		want   error
	}{
		"the log cannot be read": {func(_ *testing.T, _ *Engine, _ *topic, _ *Handle, v *view) { v.fail.Store(true) }, errLog},
		"the event is gone": {func(t *testing.T, _ *Engine, top *topic, _ *Handle, _ *view) {
			for i := range 5 {
				top.emit(t, fmt.Sprint("later", i))
			}
		}, ErrLost},
		"it cannot be encoded any more": {func(_ *testing.T, _ *Engine, _ *topic, _ *Handle, v *view) {
			synctest.Wait()
			v.bad = func(store.Entry) bool { return true }
		}, ErrLost},
		"the subscription has ended": {func(_ *testing.T, _ *Engine, _ *topic, h *Handle, _ *view) { h.Remove() }, ErrClosed},
		"the engine has ended":       {func(t *testing.T, e *Engine, _ *topic, _ *Handle, _ *view) { shutdown(t, e) }, ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db, s := memory.New(), &script{}
				e := newEngine(t, Options{Sender: s, Attempts: db}, db)
				top := newTopic(store.LogOptions{MaxCount: 3})
				sub := record("a")
				if _, err := db.PutSubscription(t.Context(), sub); err != nil {
					t.Fatal(err)
				}
				h, v := top.join(t, e, sub, false)
				top.emit(t, "1")
				time.Sleep(time.Second)
				if err := e.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				made := kept(t, db)[0]
				c.before(t, e, top, h, v)
				time.Sleep(time.Second)
				n := len(s.all())
				if got, err := h.SendAgain(t.Context(), made); !errors.Is(err, c.want) {
					t.Errorf("%+v, %v; want %v", got, err, c.want)
				}
				if more := len(s.all()) - n; more != 0 {
					t.Errorf("%d requests were made", more)
				}
				shutdown(t, e)
			})
		})
	}
}

// HOOK-4: after a restart, endpoints that were known to hang do not hold up one of the same host that is quick: what
// their records tell of the last attempt counts from the first turn on.
func TestHOOK4HangingOnesAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(ctx context.Context, g got) (int, http.Header, error) {
			if g.sub == "quick" {
				return 204, nil, nil
			}
			return hang(ctx)
		}}
		e := newEngine(t, Options{Sender: s, PerHost: 4})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		for i := range 100 {
			sub := record(fmt.Sprint("dead", i))
			sub.Health.Slow = true
			top.join(t, e, sub, true)
		}
		quick := record("quick")
		top.join(t, e, quick, true)
		synctest.Wait()
		top.emit(t, "1")
		time.Sleep(time.Second)
		if n := s.count("quick"); n != 1 {
			t.Errorf("the quick one got %d within a second", n)
		}
	})
}

// HOOK-4: whether an endpoint is slow is stored, even if it accepts everything, so it survives a restart.
func TestHOOK4ASlowEndpointIsStored(t *testing.T) {
	for name, c := range map[string]struct {
		answered time.Duration // for the challenge
		answers  []time.Duration
		want     bool
	}{
		"quick":                  {0, []time.Duration{900 * time.Millisecond}, false},
		"slow":                   {0, []time.Duration{2 * time.Second}, true},
		"hanging":                {0, []time.Duration{time.Hour}, true},
		"slow for its challenge": {2 * time.Second, nil, true},
		"quick at last":          {2 * time.Second, []time.Duration{2 * time.Second, time.Millisecond}, false},
		"slow at last":           {time.Millisecond, []time.Duration{0, 0, 3 * time.Second}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var n int
				s := &script{answer: func(ctx context.Context, _ got) (int, http.Header, error) {
					took := c.answers[min(n, len(c.answers)-1)]
					n++
					return after(took, 204)(ctx, 0)
				}}
				db := memory.New()
				e := newEngine(t, Options{Sender: s}, db)
				top := newTopic(store.LogOptions{})
				sub := record("a")
				if _, err := db.PutSubscription(t.Context(), sub); err != nil {
					t.Fatal(err)
				}
				top.attend(t, e, Entry{Subscription: sub, Answered: c.answered})
				for i := range c.answers {
					top.emit(t, fmt.Sprint(i))
					time.Sleep(time.Minute)
				}
				shutdown(t, e)
				r := stored(t, db)[0]
				if r.Health.Slow != c.want {
					t.Fatalf("stored as slow: %t, want %t", r.Health.Slow, c.want)
				}
				next := newEngine(t, Options{Sender: s}, db)
				defer shutdown(t, next)
				h, _ := top.attend(t, next, Entry{Subscription: r})
				if got := h.class() == slow; got != c.want {
					t.Errorf("slow after a restart: %t, want %t", got, c.want)
				}
			})
		})
	}
}
