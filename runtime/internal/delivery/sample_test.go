package delivery

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// The pulse has every request that was sent, retries and control envelopes too, and once a minute how far the slowest
// subscription is behind, also of one that is held back.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			time.Sleep(100 * time.Millisecond)
			if g.sub == "sub_bad" && g.attempt == 1 {
				return 500, nil, nil
			}
			return 200, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, Schedule: []time.Duration{0, time.Second}})
		top := newTopic(store.LogOptions{})
		var err error
		if top.track, err = e.whole.OpenLog(t.Context(), "test", top.Head); err != nil {
			t.Fatal(err)
		}
		top.track.Ready()
		_, broken := top.join(t, e, record("sub_broken"), false)
		broken.bad = func(store.Entry) bool { return true }
		bad := record("sub_bad")
		bad.URL = "http://Bad.test:8080/hook"
		h, _ := top.join(t, e, bad, false)
		held := record("sub_held")
		held.URL = "http://held.test/hook"
		paused, _ := top.join(t, e, held, false)
		paused.Pause(time.Now())
		top.emit(t, "evt_1")
		time.Sleep(5 * time.Second)
		top.emit(t, "evt_2")
		time.Sleep(2 * time.Minute)
		for name, c := range map[string]struct {
			host                       string
			attempts, failures, behind int64
		}{
			"with a retry":  {"bad.test:8080", 4, 2, 0},
			"held back":     {"held.test", 0, 0, 2},
			"never sent to": {"receiver.test", 2, 0, 0}, // a gap for each occurrence that cannot be encoded
		} {
			if got := e.Pulse().Host(c.host); got.Attempts != c.attempts || got.Failures != c.failures || got.Behind != c.behind {
				t.Errorf("%s: %d attempts, %d failures, behind by %d; want %+v", name, got.Attempts, got.Failures, got.Behind, c)
			}
		}
		got := e.Pulse().Event("test")
		if got.Attempts != 6 || got.Failures != 2 || got.Behind != 2 || got.P50 < 80*time.Millisecond || got.P50 > 130*time.Millisecond {
			t.Errorf("%+v, behind by %d", got.Figures, got.Behind)
		}
		h.Remove()
		shutdown(t, e)
		time.Sleep(2 * time.Minute)
		if got := e.Pulse().Whole(); got.Minutes[len(got.Minutes)-1].Behind != -1 {
			t.Error("an engine that is shut down looks still")
		}
	})
}

// Samples come once in every minute, whenever the engine began.
func TestSampledEveryMinute(t *testing.T) {
	for _, begin := range []time.Duration{0, time.Nanosecond, 29 * time.Second, 30 * time.Second, 59*time.Second + 999*time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute + begin)))
			e := newEngine(t, Options{Sender: &script{}})
			time.Sleep(10 * time.Minute)
			hour := e.Pulse().Whole()
			for _, m := range hour.Minutes[1 : len(hour.Minutes)-1] {
				if m.Behind != 0 {
					t.Errorf("begun at %v: nobody looked at %v", begin, m.At)
				}
			}
			shutdown(t, e)
		})
	}
}

// A walk over many subscriptions lets others in between, who add and end some meanwhile.
func TestWalkLetsOthersIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(t, Options{Sender: &script{}})
		top := newTopic(store.LogOptions{})
		var all []*Handle
		for i := range 3 * visitStep {
			h, _ := top.join(t, e, record(fmt.Sprint("sub_", i)), false)
			all = append(all, h)
		}
		synctest.Wait()
		seen, others := map[*Handle]int{}, make(chan int)
		go func() {
			for i := range visitStep {
				all[i].Remove()
				top.join(t, e, record(fmt.Sprint("new_", i)), false)
			}
			close(others)
		}()
		e.visitHandles(func(h *Handle) {
			seen[h]++
			if len(seen) == visitStep {
				e.mu.Unlock() // as the walk does itself between its steps
				<-others
				e.mu.Lock()
			}
		})
		for i, h := range all {
			if n := seen[h]; n > 1 || n == 0 && i >= visitStep {
				t.Errorf("subscription %d was seen %d times", i, n)
			}
		}
		shutdown(t, e)
	})
}
