package enginetest

import (
	"fmt"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/internal/check"
)

// A Lister is a store that [TestLister] can test.
type Lister interface {
	store.SubscriptionStore
	engine.Lister
}

// TestLister runs the test suite for [engine.Lister]; open returns an empty store.
func TestLister(t *testing.T, open func(t *testing.T) Lister) {
	s := open(t)
	for i := range 7 {
		check.Put(t, s, check.Subscription(fmt.Sprint("sub_", i)))
	}
	var want []engine.Listed
	for _, sub := range check.Must(s.Subscriptions(t.Context(), "sub_0", 4))(t) {
		sub.Secrets = nil
		one, ok, err := s.ListSubscription(t.Context(), sub.ID)
		if !ok || err != nil {
			t.Errorf("%s: %t %v", sub.ID, ok, err)
		}
		check.Equal(t, one, engine.Listed{Subscription: sub})
		want = append(want, engine.Listed{Subscription: sub})
	}
	if _, ok, err := s.ListSubscription(t.Context(), "sub_x"); ok || err != nil {
		t.Errorf("an unknown one: %t %v", ok, err)
	}
	check.Equal(t, check.Must(s.ListSubscriptions(t.Context(), "sub_0", 4, false))(t), want)
	if rest := check.Must(s.ListSubscriptions(t.Context(), "sub_4", 4, false))(t); len(rest) != 2 || rest[1].ID != "sub_6" {
		t.Errorf("%+v", rest)
	}
	for i, sub := range check.Must(s.Subscriptions(t.Context(), "", 10))(t) { // sub_1 fails, sub_3 is suspended, the others work again
		u := store.Update{ID: sub.ID, Generation: sub.Generation, Health: store.Health{Suspended: i == 3, LastError: "timeout"}}
		if i == 1 {
			u.Health.FailedSince = check.At(1)
		}
		if err := s.SaveProgress(t.Context(), []store.Update{u}); err != nil {
			t.Fatal(err)
		}
	}
	var failing []string
	for _, l := range check.Must(s.ListSubscriptions(t.Context(), "", 10, true))(t) {
		failing = append(failing, l.ID)
	}
	check.Equal(t, failing, []string{"sub_1", "sub_3"})
	if none := check.Must(s.ListSubscriptions(t.Context(), "sub_6", 4, false))(t); len(none) != 0 {
		t.Errorf("%+v", none)
	}
}
