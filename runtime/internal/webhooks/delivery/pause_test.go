package delivery

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// The time of a pause counts for no retry window, and a record that was paused stays so in another
// process.
func TestPauseAndRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuse atomic.Bool
		refuse.Store(true)
		s := &script{answer: func(context.Context, got) (int, http.Header, error) {
			if refuse.Load() {
				return 503, nil, nil
			}
			return 204, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, Schedule: []time.Duration{0, 5 * time.Second, 30 * time.Second}})
		tp := newTopic(store.LogOptions{})
		sub := record("a")
		sub.ExpiresAt = time.Now().Add(100 * time.Hour)
		h, _ := tp.join(t, e, sub, false)
		tp.emit(t, "1")
		time.Sleep(time.Second)
		h.Pause(time.Now())
		time.Sleep(10 * time.Hour)
		if n := s.count("a"); n != 1 {
			t.Errorf("%d attempts while paused", n)
		}
		if st := h.Status(); st.Active || !st.Paused {
			t.Errorf("%+v", st)
		}
		refuse.Store(false)
		h.Unpause()
		time.Sleep(time.Second)
		if n := s.count("a"); n != 2 {
			t.Errorf("%d attempts: the retry window has aged", n)
		}
		if st := h.Status(); !st.Active || st.Paused {
			t.Errorf("%+v", st)
		}
		shutdown(t, e)

		sub.ID, sub.PausedAt = "b", time.Now()
		e = newEngine(t, Options{Sender: s}, memory.New())
		tp = newTopic(store.LogOptions{})
		h, _ = tp.join(t, e, sub, false)
		tp.emit(t, "2")
		time.Sleep(time.Minute)
		if n := s.count("b"); n != 0 {
			t.Errorf("%d attempts of a record that is paused", n)
		}
		h.Unpause()
		time.Sleep(time.Second)
		if n := s.count("b"); n != 1 {
			t.Errorf("%d attempts afterwards", n)
		}
		shutdown(t, e)
	})
}

// A reader that waits longer than the log is kept gets a gap.
func TestPauseLongerThanTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		e := newEngine(t, Options{Sender: s})
		tp := newTopic(store.LogOptions{MaxCount: 2})
		h, _ := tp.join(t, e, record("a"), false)
		time.Sleep(time.Second)
		h.Pause(time.Now())
		for _, id := range []string{"1", "2", "3", "4"} {
			tp.emit(t, id)
		}
		time.Sleep(time.Minute)
		h.Unpause()
		time.Sleep(time.Minute)
		var ids []string
		gaps := 0
		for _, g := range s.all() {
			if g.kind == "gap" {
				gaps++
			} else {
				ids = append(ids, g.id)
			}
		}
		if gaps != 1 || len(ids) != 2 || ids[0] != "3" && ids[0] != "4" {
			t.Errorf("%d gaps, %q", gaps, ids)
		}
		shutdown(t, e)
	})
}
