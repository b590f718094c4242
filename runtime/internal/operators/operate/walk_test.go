package operate_test

import (
	"context"
	"errors"
	"fmt"
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

func (s *listingStore) ListSubscriptions(ctx context.Context, after string, limit int, known func(string) bool) (listed []engine.Listed, err error) {
	page, err := s.Store.Subscriptions(ctx, after, limit)
	for _, sub := range page {
		if known(sub.ID) {
			sub = store.Subscription{ID: sub.ID}
		} else {
			s.reads.Add(1)
		}
		l := engine.Listed{Subscription: sub}
		if sub.ID == s.damaged && !known(sub.ID) {
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

// SRV-8: what is asked about all subscriptions is known of those that live here without their records; a list reads
// those that it shows.
func TestSRV8LooksWithoutRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		st := &listingStore{Store: memory.New()}
		b := newBed(t, setup{r: r, store: st})
		e := b.event("e")
		ctx := t.Context()
		for i := range 20 {
			b.at(fmt.Sprint("p", i%10), fmt.Sprint("/", i))
		}
		// One that nobody delivers to: its event type is gone.
		alien := store.Subscription{ID: "sub_alien", Principal: "p1", URL: origin + "/alien", Event: "gone", Arguments: []byte(`{}`), Generation: 5, CreatedAt: time.Now(),
			Health: store.Health{Suspended: true, FailedSince: time.Now(), LastError: "timeout"}}
		_, err := st.PutSubscription(ctx, alien)
		must(t, err)
		r.on(refuse)
		e.Emit(incident{ID: "1"})
		settle(time.Minute)

		asks := func(what string, reads int64, f func() (int, error), want int) {
			t.Helper()
			st.reads.Store(0)
			if got, err := f(); err != nil || got != want {
				t.Errorf("%s: %d %v, want %d", what, got, err, want)
			}
			if n := st.reads.Load(); n != reads {
				t.Errorf("%s: %d records were read, want %d", what, n, reads)
			}
		}
		endpoints := func(f operator.Filter, count func(operator.Endpoint) int) func() (int, error) {
			return func() (int, error) {
				found, _, err := b.Endpoints(ctx, f, "", 100)
				n := 0
				for _, e := range found {
					n += count(e)
				}
				return n, err
			}
		}
		find := func(f operator.Filter, limit int) func() (int, error) {
			return func() (int, error) {
				found, _, err := b.Find(ctx, f, "", limit)
				for _, i := range found {
					if i.CreatedAt.IsZero() || string(i.Arguments) != "{}" {
						t.Errorf("%+v lacks what its record has", i)
					}
				}
				return len(found), err
			}
		}
		// One record is always read, that of the alien.
		asks("endpoints", 1, endpoints(operator.Filter{}, func(e operator.Endpoint) int { return e.Subscriptions }), 21)
		asks("failing endpoints", 1, endpoints(operator.Filter{}, func(e operator.Endpoint) int { return e.Failing }), 21)
		asks("suspended at endpoints", 1, endpoints(operator.Filter{}, func(e operator.Endpoint) int { return e.Suspended }), 1)
		asks("failing", 1+4, find(operator.Filter{Failing: true}, 5), 5)
		asks("failing of a principal", 1+2, find(operator.Filter{Failing: true, Principal: "p1"}, 5), 3)
		asks("late", 1+5, find(operator.Filter{Late: time.Second}, 5), 5)
		asks("of another type", 1, find(operator.Filter{Event: "gone"}, 5), 1)
		asks("suspended", 1, find(operator.Filter{State: operator.StateSuspended}, 5), 1)
		asks("at a URL", 1+11, find(operator.Filter{URL: "/1"}, 20), 11)
		asks("given up", 1, func() (int, error) {
			found, _, err := b.Abandoned(ctx, operator.Filter{}, time.Time{}, time.Time{}, "", 100)
			return len(found), err
		}, 0)

		// What ends between the list and the look is not there.
		st.happens = func() {
			st.happens = nil
			found, _, err := b.Find(ctx, operator.Filter{Principal: "p2"}, "", 1)
			must(t, err)
			must(t, b.End(ctx, found[0].ID, nil))
		}
		if n, err := find(operator.Filter{}, 100)(); n != 20 || err != nil {
			t.Errorf("while one ends: %d %v, want 20", n, err)
		}
		st.fails = errTest
		if _, err := find(operator.Filter{}, 100)(); !errors.Is(err, errTest) {
			t.Error(err)
		}
		if _, _, err := b.Abandoned(ctx, operator.Filter{}, time.Time{}, time.Time{}, "", 1); !errors.Is(err, errTest) {
			t.Error(err)
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
