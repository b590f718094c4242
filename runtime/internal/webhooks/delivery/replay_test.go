package delivery

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// SRV-8, HOOK-6: a replay that an operator asks for while the log is being read, or while its reader parks or is parked,
// begins where it was asked to: what the reader has found and passed until then does not stand for what comes before it.
// With an end of the replay, too, nothing is left out.
func TestSRV8RewindWhileReading(t *testing.T) {
	for _, during := range []string{"Read", "Park", "Passed", "Unpark"} {
		for _, last := range []store.Position{0, 3} {
			t.Run(fmt.Sprint(during, " up to ", last), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { rewindDuring(t, during, last) })
			})
		}
	}
}

func rewindDuring(t *testing.T, during string, last store.Position) {
	s := &script{}
	e := newEngine(t, Options{Sender: s})
	defer shutdown(t, e)
	top := newTopic(store.LogOptions{})
	h, v := top.join(t, e, record("a"), false)
	for _, id := range []string{"1", "2", "3"} {
		top.emit(t, id)
	}
	time.Sleep(time.Second)
	rewinds := make(chan error, 1)
	var once atomic.Bool
	rewind := func(method string) {
		if method != during || once.Swap(true) {
			return
		}
		h.Pause(time.Now()) // nothing is read before the method has returned
		go func() { rewinds <- h.Rewind(t.Context(), 0, last, unstored) }()
		for h.Replaying() == nil {
			time.Sleep(time.Millisecond)
		}
	}
	v.called.Store(&rewind)
	top.emit(t, "4")
	if err := <-rewinds; err != nil {
		t.Error(err)
	}
	time.Sleep(time.Second)
	h.Unpause()
	time.Sleep(time.Minute)
	count := map[string]int{}
	for _, g := range s.all() {
		count[g.id]++
	}
	for _, id := range []string{"1", "2", "3"} {
		if count[id] != 2 {
			t.Errorf("%s was delivered %d times, want 2", id, count[id])
		}
	}
	if n := count["4"]; n == 0 || n > 1 && (during == "Read" || during == "Unpark") {
		t.Errorf("4, which was new, was delivered %d times", n)
	}
	if got := h.Progress(); got.Base != 4 || len(got.Settled) > 0 || h.Replaying() != nil {
		t.Errorf("progress %+v, replay in progress %+v", got, h.Replaying())
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
			if err := h.Rewind(t.Context(), 0, 0, unstored); err != nil {
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

// SRV-8, HOOK-6: what was not settled before a replay is delivered after the replay has been ended, wherever it lies
// between what was settled, and only that is.
func TestSRV8EndedReplayKeepsWhatIsUnsettled(t *testing.T) {
	ids := []string{"1", "2", "3"}
	for _, unsettled := range ids {
		t.Run(unsettled, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var accepts atomic.Bool
				s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
					if g.id == unsettled && !accepts.Load() {
						return 500, nil, nil
					}
					return 204, nil, nil
				}}
				e := newEngine(t, Options{Sender: s})
				defer shutdown(t, e)
				top := newTopic(store.LogOptions{})
				h, _ := top.join(t, e, record("a"), false)
				for _, id := range ids {
					top.emit(t, id)
				}
				time.Sleep(time.Second)
				h.Pause(time.Now()) // nothing is read before the replay is ended
				if err := h.Rewind(t.Context(), 0, 0, unstored); err != nil {
					t.Fatal(err)
				}
				if err := h.EndReplay(t.Context()); err != nil {
					t.Fatal(err)
				}
				if h.Replaying() != nil {
					t.Error("the replay is still in progress")
				}
				accepts.Store(true)
				h.Unpause()
				time.Sleep(time.Minute)
				count := map[string]int{}
				for _, g := range s.all() {
					count[g.id]++
				}
				for _, id := range ids {
					if want := map[bool]int{false: 1, true: 2}[id == unsettled]; count[id] != want {
						t.Errorf("%s was sent %d times, want %d", id, count[id], want)
					}
				}
				if got := h.Progress(); got.Base != 3 || len(got.Settled) > 0 {
					t.Errorf("progress %+v", got)
				}
			})
		})
	}
}
