package delivery

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// HOOK-3, SUB-5: a clock that is set back delays neither new events nor retries, whatever they wait for; what is stored
// as a time of day, an expiry, goes by the clock.
func TestHOOK3ClockSetBack(t *testing.T) {
	for _, step := range []time.Duration{30 * time.Second, 3 * time.Hour} {
		for _, c := range []struct {
			name   string
			o      Options
			answer func(g got) (int, http.Header)
			fail   bool  // reading the log fails until a second after the step
			want   []int // seconds after the first event
		}{
			{name: "new events", want: []int{0, 2}},
			{name: "a retry", want: []int{0, 2, 5}, answer: func(g got) (int, http.Header) {
				if g.id == "evt_1" && g.attempt == 1 {
					return 503, nil
				}
				return 200, nil
			}},
			{name: "a wish of the endpoint", want: []int{0, 10, 10}, answer: func(g got) (int, http.Header) {
				if g.id == "evt_1" && g.attempt == 1 {
					return 429, http.Header{"Retry-After": {"10"}}
				}
				return 200, nil
			}},
			{name: "a rate limit", o: Options{SubscriptionLimit: Limit{Rate: 0.2, Burst: 1}}, want: []int{0, 5}},
			{name: "a log that fails", fail: true, want: []int{3, 3}},
		} {
			t.Run(fmt.Sprint(c.name, " ", step), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var by atomic.Int64
					now := func() time.Time { return time.Now().Add(time.Duration(by.Load())) }
					var ended atomic.Int64
					s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
						if c.answer == nil {
							return 200, nil, nil
						}
						status, header := c.answer(g)
						return status, header, nil
					}}
					o := c.o
					o.Sender, o.Now, o.Ended = s, now, func(*Handle, End) { ended.Add(1) }
					e := newEngine(t, o)
					defer shutdown(t, e)
					top := newTopic(store.LogOptions{})
					r := record("sub_1")
					r.ExpiresAt, r.NotBefore = now().Add(time.Minute), now().Add(500*time.Millisecond)
					h, v := top.join(t, e, r, false)
					h.Pause(now()) // as an operator may have done before
					h.Unpause()
					time.Sleep(time.Second)
					if _, ok := h.Refresh(r); !ok {
						t.Fatal("not refreshed")
					}
					h.HoldUntil(now().Add(25 * time.Millisecond))
					time.Sleep(time.Second)
					v.fail.Store(c.fail)
					began := time.Now()
					top.emit(t, "evt_1")
					time.Sleep(2 * time.Second)
					by.Store(-int64(step))
					top.emit(t, "evt_2")
					time.Sleep(time.Second / 2)
					v.fail.Store(false)
					time.Sleep(time.Minute - 10*time.Second)
					var at []int
					for _, g := range s.all() {
						at = append(at, int(g.at.Sub(began).Round(time.Second).Seconds()))
					}
					if fmt.Sprint(at) != fmt.Sprint(c.want) {
						t.Errorf("attempts after %v, want %v", at, c.want)
					}
					time.Sleep(step - 2*time.Second)
					if ended.Load() != 0 {
						t.Error("it has expired before its time")
					}
					time.Sleep(10 * time.Second)
					if ended.Load() != 1 {
						t.Error("it has not expired")
					}
				})
			})
		}
	}
}

// SUB-6: a subscription without expiry ends with its caller's token, which may be in any year.
func TestFarExpiry(t *testing.T) {
	far := instantOf(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	if got := far.time(); got.Before(time.Now().AddDate(100, 0, 0)) {
		t.Errorf("the year 9999 became %v", got)
	}
}
