package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine/enginetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/storetest"
)

// A plain store has only the methods of the interfaces, as a user's store does.
type plain struct {
	store.Store
	store.SubscriptionStore
}

func openSingle(t *testing.T, s *memory.Store) *Single {
	t.Helper()
	p := newSingle(Options{Store: plain{s, s}})
	t.Cleanup(p.stop)
	_, _, err := p.Records(t.Context())
	must(t, err)
	return p
}

// SUB-11: a user's store behaves correctly through the adapter.
func TestSUB11SingleRecords(t *testing.T) {
	storetest.TestSubscriptions(t, func(t *testing.T) store.SubscriptionStore { return openSingle(t, memory.New()) })
}

// SUB-8, VER-3: a quota is exact under concurrent calls, as in a shared store.
func TestSUB8SingleQuotas(t *testing.T) {
	enginetest.TestQuotas(t, func(t *testing.T) (a, b enginetest.Records) {
		r := openSingle(t, memory.New())
		return r, r
	})
}

func subscription(id, event string) store.Subscription {
	return store.Subscription{ID: id, Event: event, Principal: "alice", URL: "https://receiver.test/" + id, Generation: 7,
		Arguments: json.RawMessage(`{}`), Progress: store.Progress{Epoch: 1, Base: 4}}
}

// SUB-11: an admitted record is open if the process ends immediately, and the next process finds it in the shard of
// its event type, next to any number of others.
func TestSUB11SingleOwned(t *testing.T) {
	s := memory.New()
	r := openSingle(t, s)
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
	r = openSingle(t, s)
	if got := fmt.Sprint(r.stored); got != "[a b]" {
		t.Errorf("events %s", got)
	}
	for event, want := range map[string]int{"a": 2*page + 3, "b": 3, "c": 0} {
		hold := typeOwnership{context.Background(), event}.ShardFence()
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
	r := openSingle(t, memory.New())
	if n, err := r.Establish(t.Context(), "e", 16); n != 1 || err != nil {
		t.Errorf("%d shards, %v", n, err)
	}
}

// AUTH-2: a request of an operator covers what earlier processes have admitted and what this one has admitted before it.
func TestAUTH2RequestsCover(t *testing.T) {
	s := memory.New()
	old := openSingle(t, s)
	earlier := subscription("sub_1", "a")
	request := func(p *Single) store.ControlPosition {
		t.Helper()
		at, err := p.Request(t.Context())
		must(t, err)
		return at
	}
	for range 3 {
		request(old)
	}
	earlier.Admitted = old.position()
	if _, err := old.Admit(t.Context(), earlier, engine.Quota{}); err != nil {
		t.Fatal(err)
	}
	r := openSingle(t, s)
	before := r.position()
	first := request(r)
	between := r.position()
	second := request(r)
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
