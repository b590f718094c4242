package delivery

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// SRV-8, HOOK-6: a replay that an operator asks for while the log is being read begins where it was asked to: what that
// read has found does not stand for what comes before it. With an end of the replay, too, nothing is left out.
func TestSRV8RewindWhileReading(t *testing.T) {
	for _, last := range []store.Position{0, 3} {
		t.Run(fmt.Sprint("up to ", last), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{}
				e := newEngine(t, Options{Sender: s})
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				h, v := top.join(t, e, record("a"), false)
				for _, id := range []string{"1", "2", "3"} {
					top.emit(t, id)
				}
				time.Sleep(time.Second)
				rewind := sync.OnceFunc(func() {
					if err := h.Rewind(t.Context(), 0, last); err != nil {
						t.Error(err)
					}
				})
				v.found.Store(&rewind)
				top.emit(t, "4")
				time.Sleep(time.Minute)
				count := map[string]int{}
				for _, g := range s.all() {
					count[g.id]++
				}
				for id, want := range map[string]int{"1": 2, "2": 2, "3": 2, "4": 1} {
					if count[id] != want {
						t.Errorf("%s was delivered %d times, want %d", id, count[id], want)
					}
				}
				if got := h.Progress(); got.Base != 4 || len(got.Settled) > 0 {
					t.Errorf("progress %+v", got)
				}
			})
		})
	}
}

// SRV-8: an attempt by hand that was under way when a replay was asked for, and that arrives, does not take the event
// out of the replay.
func TestSRV8RewindWhileSendingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		s := &script{answer: func(context.Context, got) (int, http.Header, error) {
			if slow.Load() {
				time.Sleep(5 * time.Second)
			}
			return 204, nil, nil
		}}
		e, db, top, h := attempting(t, s, Options{})
		defer shutdown(t, e)
		top.emit(t, "1")
		top.emit(t, "2")
		time.Sleep(time.Second)
		if err := e.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		var made operator.Attempt
		for _, a := range kept(t, db) {
			if a.EventID == "2" {
				made = a
			}
		}
		slow.Store(true)
		time.AfterFunc(time.Second, func() {
			h.Pause(time.Now()) // nothing is read before the attempt has ended
			if err := h.Rewind(t.Context(), 0, 0); err != nil {
				t.Error(err)
			}
		})
		if _, err := h.SendAgain(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		h.Unpause()
		time.Sleep(time.Minute)
		count := map[string]int{}
		for _, g := range s.all() {
			count[g.id]++
		}
		if count["1"] != 2 || count["2"] != 3 {
			t.Errorf("delivered %v, want 1 twice and 2 three times", count)
		}
	})
}
