package server

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestSUB1SubscribeDeliverUnsubscribe(t *testing.T) {
	bubble(t, nil, func(w *world) {
		t := w.t
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		emit(t, e, incident{ID: "before"})
		s := w.subscribe("alice", params(plain, secretA, ""))
		if got := s.until(t); got != 30*time.Minute || s.Truncated || s.Cursor == nil || s.DeliveryStatus != nil {
			t.Errorf("got %+v, until %s", s, got)
		}
		emit(t, e, incident{ID: "i1"})
		synctest.Wait()
		emit(t, e, incident{ID: "i2"})
		w.settle(time.Second)
		wantStrings(t, "delivered", w.r.shorts(), "i1", "i2")
		for _, d := range w.r.all() {
			if !d.signedBy(secretA) || d.header.Get("X-MCP-Subscription-Id") != s.ID || d.url != plain {
				t.Errorf("%s %s: %v", d.url, d.raw, d.header)
			}
		}
		if n := len(w.r.challenges()); n != 1 {
			t.Errorf("%d challenges", n)
		}
		w.unsubscribe("alice", plain)
		emit(t, e, incident{ID: "i3"})
		w.settle(time.Hour)
		wantStrings(t, "delivered", w.r.shorts(), "i1", "i2")
	})
}
