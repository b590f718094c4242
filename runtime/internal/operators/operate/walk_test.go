package operate_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// A listingStore counts the records that it reads. While something is to happen, it does after a page was listed.
type listingStore struct {
	*memory.Store
	reads   atomic.Int64
	happens func()
	fails   error
	// damaged is a record that cannot be read.
	damaged string
}

func (s *listingStore) Subscription(ctx context.Context, id string) (store.Subscription, bool, error) {
	s.reads.Add(1)
	if id == s.damaged {
		return store.Subscription{}, false, errTest
	}
	return s.Store.Subscription(ctx, id)
}

func (s *listingStore) ListSubscriptions(ctx context.Context, after string, limit int, _ bool) (listed []engine.Listed, err error) {
	page, err := s.Store.Subscriptions(ctx, after, limit)
	for _, sub := range page {
		l := engine.Listed{Subscription: sub}
		if sub.ID == s.damaged {
			l.Unreadable = engine.UnreadableKey
		}
		listed = append(listed, l)
	}
	if s.happens != nil {
		s.happens()
	}
	return listed, errors.Join(err, s.fails)
}

func (s *listingStore) ListSubscription(ctx context.Context, id string) (l engine.Listed, ok bool, err error) {
	if l.Subscription, ok, err = s.Store.Subscription(ctx, id); id == s.damaged {
		l.Unreadable = engine.UnreadableKey
	}
	return l, ok, err
}

// SRV-8: a subscription whose record cannot be read has a state of its own, is among those that fail, and nothing is
// shown as given up at it. One that was taken up before goes on.
func TestSRV8Unreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		st := &listingStore{Store: memory.New(), damaged: "sub_damaged"}
		b := newBed(t, setup{r: r, store: st})
		e := b.event("e")
		ctx := t.Context()
		fails := b.at("ann", "/fails")
		_, err := st.PutSubscription(ctx, store.Subscription{ID: st.damaged, Principal: "bob", URL: origin + "/damaged", Event: "e", Arguments: []byte(`{}`), Generation: 5, CreatedAt: time.Now()})
		must(t, err)
		r.on(refuse)
		e.Emit(incident{ID: "1"})
		settle(time.Second)
		well := b.at("ann", "/well")
		is := func(what string, i operator.WebhookInfo, err error) {
			t.Helper()
			if err != nil || i.ID != st.damaged || i.State != operator.StateUnreadable || i.Unreadable != engine.UnreadableKey || i.Principal != "bob" || !i.Failing() {
				t.Errorf("%s: %+v %v", what, i, err)
			}
		}
		one, err := b.Get(ctx, st.damaged)
		is("alone", one, err)
		all, err := b.List(ctx, "", 10)
		must(t, err)
		if len(all) != 3 {
			t.Fatalf("%+v", all)
		}
		for _, i := range all {
			if i.ID == st.damaged {
				is("in the list", i, nil)
			}
		}
		for _, c := range []struct {
			f    operator.Filter
			want []string
		}{
			{operator.Filter{State: operator.StateUnreadable}, []string{st.damaged}},
			{operator.Filter{State: operator.StateActive}, []string{fails, well}},
			{operator.Filter{Failing: true}, []string{st.damaged, fails}}, // in this order
		} {
			var got []string
			for next := ""; ; {
				page, after, err := b.Find(ctx, c.f, next, 1)
				must(t, err)
				for _, i := range page {
					if got = append(got, i.ID); i.ID == st.damaged {
						is("found", i, nil)
					}
				}
				if next = after; next == "" {
					break
				}
			}
			if !c.f.Failing {
				slices.Sort(got)
				slices.Sort(c.want)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v: %q, want %q", c.f, got, c.want)
			}
		}
		if _, names := b.abandoned(operator.Filter{Principal: "bob"}, time.Time{}, time.Time{}, 10); len(names) != 0 {
			t.Errorf("given up: %q", names)
		}
		st.damaged = well
		if i, err := b.Get(ctx, well); err != nil || i.State != operator.StateActive || i.Unreadable == "" {
			t.Errorf("one that is live: %+v %v", i, err)
		}
	})
}

// SRV-8: a list of what was given up reads no attempts of a subscription that has never failed.
func TestSRV8GivenUpReadsWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		st := newFailingStore()
		b := newBed(t, setup{r: r, store: st})
		e := b.event("e")
		ctx := t.Context()
		began := time.Now()
		time.Sleep(time.Minute)
		b.at("ann", "/a")
		settle(time.Minute)
		e.Emit(incident{ID: "1"})
		settle(time.Minute)
		list := func(since time.Time) (int, error) {
			found, _, err := b.Abandoned(ctx, operator.Filter{}, since, time.Time{}, "", 10)
			return len(found), err
		}
		st.failAttempts(errTest)
		if n, err := list(time.Now()); n != 0 || err != nil {
			t.Errorf("one that never failed: %d %v", n, err)
		}
		if _, err := list(began); !errors.Is(err, errTest) {
			t.Errorf("since before it began: %v, want what an earlier one of its id has met", err)
		}
	})
}
