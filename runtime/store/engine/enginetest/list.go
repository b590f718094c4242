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
	check.Equal(t, check.Must(s.ListSubscriptions(t.Context(), "sub_0", 4))(t), want)
	if rest := check.Must(s.ListSubscriptions(t.Context(), "sub_4", 4))(t); len(rest) != 2 || rest[1].ID != "sub_6" {
		t.Errorf("%+v", rest)
	}
	if none := check.Must(s.ListSubscriptions(t.Context(), "sub_6", 4))(t); len(none) != 0 {
		t.Errorf("%+v", none)
	}
}
