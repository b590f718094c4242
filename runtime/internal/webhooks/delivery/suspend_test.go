package delivery

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// TestTrap13Suspension suspends at more than 95 % of at least 100 attempts, delivers nothing until
// a refresh, which reports the state that it found, and then goes on with the rest of each retry
// window (HOOK-5, HOOK-8).
// Handle.job, Handle.nextTime and Handle.resume carry it.
func TestTrap13Suspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := memory.New()
		var healthy atomic.Bool
		s := &script{answer: func(context.Context, got) (int, http.Header, error) {
			if healthy.Load() {
				return 200, nil, nil
			}
			return 503, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, Suspend: Suspension{Span: -1}}, db)
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		top.track, _ = e.whole.OpenLog(ctx, "test", top.Head)
		top.track.Ready()
		r := record("sub_1")
		r.ExpiresAt = time.Now().Add(24 * time.Hour)
		if _, err := db.PutSubscription(ctx, r); err != nil {
			t.Fatal(err)
		}
		h, _ := top.join(t, e, r, false)
		// 33 events three times each make 99 attempts.
		for i := range 33 {
			top.emit(t, fmt.Sprint("evt_", i))
		}
		time.Sleep(40 * time.Second)
		if n := s.count("sub_1"); n != 99 || !h.Status().Active {
			t.Fatalf("%d attempts, %+v", n, h.Status())
		}
		top.emit(t, "evt_33")
		synctest.Wait()
		status := h.Status()
		if n := s.count("sub_1"); n != 100 || status.Active || status.LastError != wire.HTTP5xx || status.FailedSince.IsZero() {
			t.Fatalf("%d attempts, %+v", n, status)
		}
		healthy.Store(true)
		top.emit(t, "evt_34")
		time.Sleep(10 * time.Hour)
		if n := s.count("sub_1"); n != 100 {
			t.Fatalf("%d attempts while suspended", n-100)
		}
		stored, _, _ := db.Subscription(ctx, r.ID)
		if !stored.Health.Suspended || !stored.Health.SuspendedAfter.Equal(r.RefreshedAt) || stored.Progress.Base != 0 {
			t.Errorf("stored: %+v", stored)
		}
		found, ok := h.Refresh(r)
		again, _ := h.Refresh(r)
		if !ok || found.Active || !again.Active {
			t.Errorf("refreshes found %+v and %+v", found, again)
		}
		time.Sleep(time.Second)
		// Had the ten hours counted, the 34 events would have been abandoned unsent.
		if n := s.count("sub_1"); n != 135 || *h.Watermark() != "c35" {
			t.Errorf("%d deliveries after the refresh, watermark %s", n-100, *h.Watermark())
		}
		status = h.Status()
		if !status.Active || status.LastDeliveryAt.IsZero() || !status.FailedSince.IsZero() {
			t.Errorf("%+v", status)
		}
		time.Sleep(time.Second)
		if stored, _, _ = db.Subscription(ctx, r.ID); stored.Health.Suspended || stored.Progress.Base != 35 {
			t.Errorf("stored: %+v", stored)
		}
	})
}

// TestTrap13RestoredSuspended keeps a restored subscription suspended, and resumes it by the admin
// API with everything that came meanwhile (SRV-8).
// failuresOf, [Engine.Add] and Handle.resume carry it.
func TestTrap13RestoredSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		db := memory.New()
		s := &script{}
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		r.Health = store.Health{Suspended: true, SuspendedAfter: r.RefreshedAt, LastError: "timeout"}
		if _, err := db.PutSubscription(ctx, r); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			e := newEngine(t, Options{Sender: s}, db)
			top.track, _ = e.whole.OpenLog(ctx, "test", top.Head)
			h, _ := top.join(t, e, stored(t, db)[0], true)
			top.track.Ready()
			top.emit(t, fmt.Sprint("evt_", i))
			time.Sleep(time.Minute)
			if n := s.count("sub_1"); n != 0 {
				t.Fatalf("%d deliveries while suspended", n)
			}
			if i == 2 {
				h.Resume()
				time.Sleep(time.Second)
				if n := s.count("sub_1"); n != 3 || *h.Watermark() != "c3" {
					t.Fatalf("%d deliveries, watermark %s", n, *h.Watermark())
				}
			}
			shutdown(t, e)
		}
	})
}

// TestHOOK5Again counts anew after a refresh: what led to a suspension does not lead to the next.
func TestHOOK5Again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{answer: refuse(500)}
		e := newEngine(t, Options{Sender: s, Schedule: []time.Duration{0}, Suspend: Suspension{Span: -1}})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		h, _ := top.join(t, e, r, false)
		for i := range 199 {
			if i == 100 {
				if h.Status().Active {
					t.Error("not suspended")
				}
				h.Refresh(r)
			}
			top.emit(t, fmt.Sprint("evt_", i))
			time.Sleep(time.Second)
		}
		if !h.Status().Active {
			t.Error("suspended after 99 attempts")
		}
		top.emit(t, "evt_last")
		time.Sleep(time.Second)
		if h.Status().Active || s.count("sub_1") != 200 {
			t.Errorf("%d attempts, %+v", s.count("sub_1"), h.Status())
		}
	})
}

// TestHOOK5Thresholds suspends neither below the number of attempts nor at the rate, and forgets what
// is older than the window.
func TestHOOK5Thresholds(t *testing.T) {
	now := time.Unix(1_000_000_000, 0)
	s := Suspension{Rate: 0.95, Window: time.Hour, Min: 100}
	fill := func(ok, failed int) *attemptCounts {
		a := &attemptCounts{}
		for range ok {
			a.add(now, s.Window, false)
		}
		for range failed {
			a.add(now, s.Window, true)
		}
		return a
	}
	for _, c := range []struct {
		ok, failed int
		want       bool
	}{{0, 99, false}, {0, 100, true}, {5, 95, false}, {4, 96, true}, {50, 950, false}, {49, 951, true}, {1000, 100, false}} {
		if got := fill(c.ok, c.failed).exceedsLimits(now, s); got != c.want {
			t.Errorf("%d succeeded, %d failed: %v", c.ok, c.failed, got)
		}
	}
	a := fill(0, 99)
	a.add(now.Add(50*time.Minute), s.Window, true)
	if !a.exceedsLimits(now.Add(50*time.Minute), s) {
		t.Error("forgot attempts of fifty minutes ago")
	}
	a = fill(0, 99)
	a.add(now.Add(61*time.Minute), s.Window, true)
	if a.exceedsLimits(now.Add(61*time.Minute), s) {
		t.Error("remembers attempts of more than an hour ago")
	}
	// Only failures in the window count for the span.
	s.Span = 5 * time.Minute
	for _, c := range []struct {
		first, burst, last time.Duration
		want               bool
	}{
		{0, 0, 299 * time.Second, false}, {0, 0, 5 * time.Minute, true}, {0, 50 * time.Minute, 50 * time.Minute, true},
		{0, 70 * time.Minute, 71 * time.Minute, false}, {0, 70 * time.Minute, 75 * time.Minute, true},
	} {
		a, at := &attemptCounts{}, time.Time{}
		for i := range 102 {
			switch at = now.Add(c.burst); i {
			case 0:
				at = now.Add(c.first)
			case 101:
				at = now.Add(c.last)
			}
			a.add(at, s.Window, true)
		}
		if got := a.exceedsLimits(at, s); got != c.want {
			t.Errorf("failures after %v, 100 times %v, and %v: %v", c.first, c.burst, c.last, got)
		}
	}
}

// HOOK-5: a burst of failures in a short outage does not suspend, and one that goes on for five minutes does.
func TestHOOK5ShortOutage(t *testing.T) {
	for outage, suspended := range map[time.Duration]bool{time.Minute: false, 290 * time.Second: false, 20 * time.Minute: true} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			s := &script{answer: func(context.Context, got) (int, http.Header, error) {
				return map[bool]int{true: 503, false: 204}[time.Since(began) < outage], nil, nil
			}}
			e := newEngine(t, Options{Sender: s})
			defer shutdown(t, e)
			top := newTopic(store.LogOptions{})
			h, _ := top.join(t, e, record("sub_1"), false)
			for i := range 60 {
				top.emit(t, fmt.Sprint("evt_", i))
			}
			time.Sleep(40 * time.Second)
			if n := s.count("sub_1"); n != 180 || !h.Status().Active {
				t.Fatalf("%d attempts, %+v", n, h.Status())
			}
			time.Sleep(20 * time.Minute)
			if found := h.Status(); found.Suspended != suspended || !suspended && h.Base() != 60 {
				t.Errorf("after %v: %+v, settled up to %d", outage, found, h.Base())
			}
		})
	}
}

// HOOK-5: a span that the failures in the window can hardly have is refused.
func TestHOOK5SpanTooLong(t *testing.T) {
	_, err := New(Options{Sender: &script{}, Suspend: Suspension{Window: 10 * time.Minute, Span: 6 * time.Minute}})
	if want := "delivery: Options.Suspend.Span is 6m0s, must be at most half of Window, which is 10m0s"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
	e := newEngine(t, Options{Sender: &script{}, Suspend: Suspension{Window: time.Minute}})
	defer shutdown(t, e)
	if got := e.o.Suspend.Span; got != 5*time.Second {
		t.Errorf("the default is %v", got)
	}
}

// HOOK-3, HOOK-5, HOOK-8: an endpoint that refuses events for good fails like one that they are retried for: operators
// and subscribers see it, it is suspended, and without an expiry its subscription ends.
func TestHOOK5FinalRefusalsCount(t *testing.T) {
	for _, refusal := range []int64{410, 413} {
		synctest.Test(t, func(t *testing.T) {
			s, status := moody()
			status.Store(refusal)
			var why []End
			e, db, top, h := attempting(t, s, Options{Suspend: Suspension{Min: 5}, NoExpiryRemoval: time.Hour, Ended: func(_ *Handle, w End) { why = append(why, w) }})
			defer shutdown(t, e)
			began := time.Now()
			sub := record("a")
			sub.ExpiresAt = time.Time{}
			h.Refresh(sub)
			top.emit(t, "evt_1")
			time.Sleep(time.Second)
			if s := h.Status(); !s.Active || s.LastError != wire.HTTP4xx || !s.FailedSince.Equal(began) || h.Base() != 1 {
				t.Errorf("%d: %+v, settled up to %d", refusal, s, h.Base())
			}
			if c := e.Census(); c.Abandoned["test"] != 1 {
				t.Errorf("%d: %+v", refusal, c)
			}
			status.Store(204)
			if _, err := again(t, e, db, h); err != nil || !h.Status().FailedSince.IsZero() || h.Status().LastDeliveryAt.IsZero() {
				t.Errorf("%d: accepted when sent by hand: %v, %+v", refusal, err, h.Status())
			}
			time.Sleep(2 * time.Hour) // out of the window
			status.Store(refusal)
			if made, err := again(t, e, db, h); err != nil || made.Status != int(refusal) || !h.Status().FailedSince.IsZero() {
				t.Errorf("%d: refused when sent by hand: %v, %+v", refusal, err, h.Status())
			}
			for i := range 7 {
				top.emit(t, fmt.Sprint("evt_", i+2))
				time.Sleep(2 * time.Minute)
			}
			if s := h.Status(); !s.Suspended || h.Base() != 6 {
				t.Errorf("%d: %+v, settled up to %d", refusal, s, h.Base())
			}
			h.Refresh(sub)
			time.Sleep(time.Minute)
			top.emit(t, "last")
			time.Sleep(time.Hour)
			top.emit(t, "too_late")
			synctest.Wait()
			if len(why) != 1 || why[0] != Failed {
				t.Errorf("%d: ended as %v", refusal, why)
			}
		})
	}
}

// TestHOOK5NoExpiryRemoval ends a subscription without expiry that fails for too long, counted from
// the first failure after the start, with a terminated envelope that names the last category as subscribers see it.
func TestHOOK5NoExpiryRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended []End
		var mu sync.Mutex
		status := 500
		s := &script{answer: func(_ context.Context, g got) (int, http.Header, error) {
			mu.Lock()
			defer mu.Unlock()
			if g.kind != "" {
				return 204, nil, nil
			}
			if status == 0 {
				return 0, nil, &netguard.Error{Category: wire.Proxy}
			}
			return status, nil, nil
		}}
		e := newEngine(t, Options{Sender: s, NoExpiryRemoval: time.Hour, Ended: func(_ *Handle, why End) {
			mu.Lock()
			defer mu.Unlock()
			ended = append(ended, why)
		}})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		r.ExpiresAt = time.Time{}
		r.Codes = int(wire.SEP)
		r.Health.FailedSince = time.Now().Add(-100 * time.Hour) // of an earlier life: does not count
		h, v := top.join(t, e, r, false)
		top.emit(t, "evt_1")
		time.Sleep(50 * time.Minute)
		mu.Lock()
		status = 200
		mu.Unlock()
		top.emit(t, "evt_2") // ends the run of failures
		time.Sleep(10 * time.Minute)
		mu.Lock()
		status = 0
		mu.Unlock()
		top.emit(t, "evt_3")
		time.Sleep(59 * time.Minute)
		if h.Status().FailedSince.IsZero() || !h.Status().Active {
			t.Fatal("ended too early")
		}
		time.Sleep(2 * time.Minute)
		top.emit(t, "evt_4")
		time.Sleep(time.Minute)
		gots := s.all()
		last := gots[len(gots)-1]
		if want := `{"type":"terminated","error":{"code":-32027,"message":"CallbackEndpointError","data":{"reason":"connection_refused"}}}`; string(last.body) != want {
			t.Errorf("last request %s, want %s", last.body, want)
		}
		mu.Lock()
		if !slices.Equal(ended, []End{Failed}) || h.Status().Active || !v.closed.Load() {
			t.Errorf("ended: %v", ended)
		}
		mu.Unlock()
		n := len(gots)
		top.emit(t, "evt_5")
		time.Sleep(time.Hour)
		if len(s.all()) != n {
			t.Error("something was sent after terminated")
		}
	})
}

// TestHOOK5NoExpirySuspended ends a suspended subscription without expiry by time alone, for
// nothing is sent to it that could fail.
func TestHOOK5NoExpirySuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Int32
		s := &script{}
		e := newEngine(t, Options{Sender: s, NoExpiryRemoval: time.Hour, Ended: func(*Handle, End) { ended.Add(1) }})
		defer shutdown(t, e)
		top := newTopic(store.LogOptions{})
		r := record("sub_1")
		r.ExpiresAt = time.Time{}
		r.Health = store.Health{Suspended: true, SuspendedAfter: r.RefreshedAt, LastError: "timeout"}
		top.join(t, e, r, true)
		time.Sleep(time.Hour - 1)
		if ended.Load() != 0 {
			t.Error("ended too early")
		}
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		if gots := s.all(); ended.Load() != 1 || len(gots) != 1 || gots[0].kind != wire.EnvelopeTerminated {
			t.Errorf("ended %d times, sent %v", ended.Load(), gots)
		}
	})
}
