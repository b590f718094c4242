package delivery

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// SRV-8: an operator sees how many subscriptions an event type has and how far the slowest one is behind.
func TestSRV8Census(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refusing atomic.Bool
		refusing.Store(true)
		s := &script{answer: func(context.Context, got) (int, http.Header, error) {
			return map[bool]int{true: 503, false: 204}[refusing.Load()], nil, nil
		}}
		e := newEngine(t, Options{Sender: s})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		var err error
		if top.track, err = e.whole.OpenLog(t.Context(), "test", top.Head); err != nil {
			t.Fatal(err)
		}
		a, _ := top.join(t, e, record("a"), false)
		top.join(t, e, record("b"), false)
		is := func(what string, live int, lag int64) {
			t.Helper()
			time.Sleep(time.Minute)
			if c := e.Census(); c.Types["test"] != live || c.Lag["test"] != lag || c.InFlight != 0 {
				t.Errorf("%s: %+v, want %d live and %d behind", what, c, live, lag)
			}
		}
		is("at first", 2, 0)
		top.emit(t, "1", "a")
		top.emit(t, "2", "a")
		is("one fails", 2, 2)
		a.Remove()
		is("it is removed", 1, 0)
		refusing.Store(false)
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
