package solo

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A plain store has only the methods of the interface, as a user's store does.
type plain struct{ store.SubscriptionStore }

func open(t *testing.T, s store.SubscriptionStore) *Records {
	t.Helper()
	r, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// SUB-11: a user's store behaves correctly through the adapter.
func TestSUB11Records(t *testing.T) {
	storetest.TestSubscriptions(t, func(t *testing.T) store.SubscriptionStore { return open(t, plain{memory.New()}) })
}

// SUB-8, VER-3: a quota is exact under concurrent calls, as in a shared store.
func TestSUB8Quotas(t *testing.T) {
	enginetest.TestQuotas(t, func(t *testing.T) (a, b enginetest.Records) {
		r := open(t, plain{memory.New()})
		return r, r
	})
}

func subscription(id, event string) store.Subscription {
	return store.Subscription{ID: id, Event: event, Principal: "alice", URL: "https://receiver.test/" + id, Generation: 7,
		Arguments: json.RawMessage(`{}`), Progress: store.Progress{Epoch: 1, Base: 4}}
}

// SUB-11: an admitted record is open if the process ends immediately, and the next process finds it in the shard of
// its event type, next to any number of others.
func TestSUB11Owned(t *testing.T) {
	s := plain{memory.New()}
	r := open(t, s)
	for i := range page + 3 {
		for _, event := range []string{"a", "b"} {
			sub := subscription(fmt.Sprintf("sub_%04d_%s", i, event), event)
			if event == "b" && i < page {
				sub.Event = "a"
			}
			if _, err := r.Admit(t.Context(), sub, engine.Quota{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r = open(t, s)
	if got := fmt.Sprint(r.Events()); got != "[a b]" {
		t.Errorf("events %s", got)
	}
	for event, want := range map[string]int{"a": 2*page + 3, "b": 3, "c": 0} {
		hold := NewOwnership(context.Background(), event).ShardFence()
		found, pages := 0, 0
		for after := ""; ; pages++ {
			some, err := r.Owned(hold).Subscriptions(t.Context(), after, page)
			if err != nil {
				t.Fatal(err)
			}
			if len(some) == 0 {
				break
			}
			if len(some) < page && pages < (want-1)/page {
				t.Errorf("%s: %d records on page %d", event, len(some), pages)
			}
			for i := range some {
				if some[i].Event != event || some[i].ID <= after || some[i].Shard != hold.Shard.Number || !some[i].Progress.Open {
					t.Fatalf("%s: %+v after %q", event, some[i], after)
				}
				after = some[i].ID
			}
			found += len(some)
		}
		if found != want {
			t.Errorf("%s: %d records, want %d", event, found, want)
		}
	}
}

// REP-6: an event type has one shard, whatever number is requested.
func TestREP6OneShard(t *testing.T) {
	r := open(t, plain{memory.New()})
	if n, err := r.Establish(t.Context(), "e", 16); n != 1 || err != nil {
		t.Errorf("%d shards, %v", n, err)
	}
}

// AUTH-2: a request of an operator covers what earlier processes have admitted and what this one has admitted before it.
func TestAUTH2RequestsCover(t *testing.T) {
	s := memory.New()
	old := open(t, s)
	earlier := subscription("sub_1", "a")
	for range 3 {
		old.Request()
	}
	earlier.Admitted = old.position()
	if _, err := old.Admit(t.Context(), earlier, engine.Quota{}); err != nil {
		t.Fatal(err)
	}
	r := open(t, s)
	before := r.position()
	first := r.Request()
	between := r.position()
	second := r.Request()
	for what, c := range map[string]struct {
		admitted, request store.ControlPosition
		covered           bool
	}{
		"of an earlier process":    {earlier.Admitted, first, true},
		"before the first":         {before, first, true},
		"after the first":          {between, first, false},
		"before the second":        {between, second, true},
		"after both":               {r.position(), second, false},
		"of an unknown position":   {store.ControlPosition{}, first, true},
		"without a request so far": {before, store.ControlPosition{}, false},
	} {
		if got := c.admitted.Compare(c.request) < 0; got != c.covered {
			t.Errorf("%s: %v and %v: covered is %v", what, c.admitted, c.request, got)
		}
	}
}
