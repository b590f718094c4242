package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestCLI5ConcurrentDuplicates has one of several equal requests hand over while the others wait
// for its outcome; no 2xx comes before it (CLI-5).
func TestCLI5ConcurrentDuplicates(t *testing.T) {
	for _, fail := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			r, e := newReceiver(t, ReceiverOptions{})
			calls := 0
			e.Activate("sub_1", func(context.Context, Delivery) error {
				calls++
				time.Sleep(time.Second)
				if fail && calls == 1 {
					return errors.New("first fails")
				}
				return nil
			})
			codes := make(chan int, 3)
			start := time.Now()
			for range 3 {
				go func() { codes <- post(t, r, e, event("evt_1")).Code }()
			}
			got := map[int]int{}
			for range 3 {
				got[<-codes]++
			}
			wantCalls, wantOK := 1, 3
			if fail {
				wantCalls, wantOK = 2, 2
			}
			if calls != wantCalls || got[204] != wantOK || got[204]+got[503] != 3 || time.Since(start) != time.Duration(wantCalls)*time.Second {
				t.Errorf("fail %v: %d calls, %v after %v", fail, calls, got, time.Since(start))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			go post(t, r, e, event("evt_2"))
			synctest.Wait()
			if w := post(t, r, e, event("evt_2"), func(r *http.Request) { *r = *r.WithContext(ctx) }); w.Code != 503 {
				t.Errorf("a duplicate that gave up waiting got %d", w.Code)
			}
			time.Sleep(time.Minute)
		})
	}
}

// TestCLI5BoundedDedup remembers ids by count and by time, and no more (CLI-5).
func TestCLI5BoundedDedup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := newReceiver(t, ReceiverOptions{Remember: 100, RememberFor: time.Hour})
		s := &sink{}
		e.Activate("sub_1", s.take)
		for i := range 1000 {
			post(t, r, e, event(fmt.Sprint("evt_", i)))
			post(t, r, e, event(fmt.Sprint("evt_", max(0, i-99))))
			if e.seen.size() > 100 || len(e.seen.order) > 300 {
				t.Fatalf("%d ids are kept in %d places", e.seen.size(), len(e.seen.order))
			}
		}
		if s.count() != 1000 {
			t.Errorf("%d messages", s.count())
		}
		time.Sleep(time.Hour)
		post(t, r, e, event("evt_999"))
		if s.count() != 1000 {
			t.Error("forgotten too early")
		}
		time.Sleep(time.Nanosecond)
		post(t, r, e, event("evt_999"))
		if s.count() != 1001 || e.seen.size() != 1 {
			t.Errorf("%d messages, %d ids", s.count(), e.seen.size())
		}
	})
}

// TestCLI5FreshnessOfReceiver refuses a replayed message, also one that it has forgotten (CLI-5).
func TestCLI5FreshnessOfReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := newReceiver(t, ReceiverOptions{})
		s := &sink{}
		e.Activate("sub_1", s.take)
		h := signed(t, Signer{Ring: NewRing(e.Secret())}, event("evt_1"), time.Now())
		replay := func(req *http.Request) { req.Header = h.Clone() }
		for _, c := range []struct {
			wait time.Duration
			code int
		}{{0, 204}, {5 * time.Minute, 204}, {time.Second, 401}, {10 * time.Hour, 401}} {
			time.Sleep(c.wait)
			if w := post(t, r, e, event("evt_1"), replay); w.Code != c.code {
				t.Errorf("after %v more: %d, want %d", c.wait, w.Code, c.code)
			}
		}
		if s.count() != 1 {
			t.Errorf("%d messages", s.count())
		}
	})
}

// TestSUB5ReceiverRotation accepts a message signed with the old, the new or both secrets within
// the window, and only with the new one after it (SUB-5, trap 6).
func TestSUB5ReceiverRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, e := newReceiver(t, ReceiverOptions{})
		s := &sink{}
		e.Activate("sub_1", s.take)
		before, next := e.Secret(), NewSecret()
		n := 0
		code := func(secret Secret) int {
			n++
			m := event(fmt.Sprint("evt_", n))
			return post(t, r, e, m, func(req *http.Request) {
				if err := (Signer{Ring: NewRing(secret)}).Sign(req.Header, m, time.Now()); err != nil {
					t.Error(err)
				}
			}).Code
		}
		if code(before) != 204 || code(next) != 401 {
			t.Error("before the rotation")
		}
		e.Rotate(next, 5*time.Minute)
		time.Sleep(5 * time.Minute)
		if code(before) != 204 || code(next) != 204 || !e.Secret().Equal(next) {
			t.Error("within the window")
		}
		time.Sleep(time.Nanosecond)
		if code(before) != 401 || code(next) != 204 {
			t.Error("after the window")
		}
	})
}

// TestCLI5Restart opens an endpoint again under its path and secrets (CLI-5).
func TestCLI5Restart(t *testing.T) {
	_, e := newReceiver(t, ReceiverOptions{})
	r, err := NewReceiver(ReceiverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := EndpointOptions{Path: e.Path(), Ring: e.Ring()}
	again, err := r.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{}
	again.Activate("sub_1", s.take)
	if w := post(t, r, e, event("evt_1")); w.Code != http.StatusNoContent {
		t.Errorf("%d", w.Code)
	}
	if _, err := r.Open(o); err == nil {
		t.Error("one path was opened twice")
	}
	for _, path := range []string{"/elsewhere/x", "/mcp/webhooks/", "x"} {
		if _, err := r.Open(EndpointOptions{Path: path}); err == nil {
			t.Errorf("%s was opened", path)
		}
	}
	for _, prefix := range []string{"x", "/x", "x/"} {
		if _, err := NewReceiver(ReceiverOptions{Prefix: prefix}); err == nil {
			t.Errorf("the prefix %s was accepted", prefix)
		}
	}
	paths := map[string]bool{}
	for range 1000 {
		e, err := r.Open(EndpointOptions{})
		if err != nil || paths[e.Path()] || len(strings.TrimPrefix(e.Path(), "/mcp/webhooks/")) < 26 {
			t.Fatal(err, e.Path())
		}
		paths[e.Path()] = true
	}
}

// TestEndpointRefusals counts what an endpoint refuses for an application with a Receiver of its own, its
// handler's errors and failed challenges included, until something is taken (P6, CLI-5).
func TestEndpointRefusals(t *testing.T) {
	r, e := newReceiver(t, ReceiverOptions{})
	if got := e.Refused(); got.ByStatus != nil || got.Last != nil || got.Standing {
		t.Errorf("%+v", got)
	}
	if w := post(t, r, e, event("evt_0")); w.Code != 503 { // not routable yet
		t.Fatal(w.Code)
	}
	s := &sink{fail: errors.New("whsec_secret of the application")}
	e.Activate("sub_1", s.take)
	post(t, r, e, event("evt_1"))
	post(t, r, e, Message{ID: "msg_1", Body: []byte(`{"type":"verification"}`)})
	post(t, r, e, event("evt_1"), func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") })
	post(t, r, e, event("evt_1"), func(r *http.Request) { r.Header.Set("webhook-signature", "v1,AAAA") })
	got := e.Refused()
	if !maps.Equal(got.ByStatus, map[int]int64{503: 2, 400: 1, 415: 1, 401: 1}) || !got.Standing ||
		got.Last.Error() != "a delivery was refused with 401: webhook: no signature matches" {
		t.Errorf("%+v", got)
	}
	clear(got.ByStatus) // a copy
	s.fail = nil
	post(t, r, e, event("evt_1"))
	if again := e.Refused(); again.Standing || len(again.ByStatus) != 4 || again.Last == nil {
		t.Errorf("%+v", again)
	}
	s.fail = errors.New("whsec_secret")
	post(t, r, e, event("evt_2"))
	if again := e.Refused(); !again.Standing || again.Last.Error() != "a delivery was refused with 503: the application did not take the message" {
		t.Errorf("%+v", again)
	}
}

// size returns the number of messages that are remembered or being handled.
func (s *messageSet) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries)
}
