package operate_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// each does something to each subscription that the filter takes and that is one to do, page by page, as a caller's
// loop does, and returns how many these were.
func (b *bed) each(f operator.Filter, takes func(i *operator.WebhookInfo) bool, do func(ctx context.Context, id string) error) (n int) {
	b.t.Helper()
	ctx := operator.WithActor(b.t.Context(), "olga")
	for after := ""; ; {
		found, next, err := b.Find(ctx, f, after, 2)
		must(b.t, err)
		for _, i := range found {
			if takes(&i) {
				must(b.t, do(ctx, i.ID))
				n++
			}
		}
		if after = next; next == "" {
			return n
		}
	}
}

// abandoned returns what was given up since a time, read page by page, as "principal event".
func (b *bed) abandoned(f operator.Filter, since, until time.Time, limit int) (all []operator.Abandoned, names []string) {
	b.t.Helper()
	for after := ""; ; {
		found, next, err := b.Abandoned(b.t.Context(), f, since, until, after, limit)
		must(b.t, err)
		if len(found) > limit {
			b.t.Errorf("a page of %d has %d", limit, len(found))
		}
		for _, a := range found {
			names = append(names, a.Principal+" "+a.Attempt.EventID)
		}
		all = append(all, found...)
		if after = next; next == "" {
			return all, names
		}
	}
}

func sorted(all []string) []string { return slices.Sorted(slices.Values(all)) }

// finds fails unless the filter finds these principals' subscriptions, in that order where it is one of failing ones.
func (b *bed) finds(f operator.Filter, want ...string) {
	b.t.Helper()
	found, next, err := b.Find(b.t.Context(), f, "", 100)
	must(b.t, err)
	var got []string
	for _, i := range found {
		got = append(got, i.Principal)
	}
	if !f.Failing {
		slices.Sort(got)
		slices.Sort(want)
	}
	if !slices.Equal(got, want) || next != "" {
		b.t.Errorf("%+v finds %q, want %q; next %q", f, got, want, next)
	}
}

// SRV-8: an operator finds what fails, the longest failing first, and what is late, with since when it waits.
func TestSRV8FailingAndLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		ctx := t.Context()
		ann, bob, carl := b.at("ann", "/a?token=hidden"), b.at("bob", "/b"), b.at("carl", "/b")
		b.finds(operator.Filter{Failing: true})
		b.finds(operator.Filter{Late: time.Nanosecond})
		must(t, b.Pause(ctx, bob))
		must(t, b.Pause(ctx, carl))
		r.on(refuse)
		began := time.Now()
		e.Emit(incident{ID: "1"})
		settle(time.Minute)
		must(t, b.Unpause(ctx, bob))
		settle(time.Minute)

		b.finds(operator.Filter{Failing: true}, "ann", "bob")
		b.finds(operator.Filter{Failing: true, Principal: "bob"}, "bob")
		b.finds(operator.Filter{Failing: true, State: operator.StateSuspended})
		b.finds(operator.Filter{State: operator.StatePaused}, "carl")
		b.finds(operator.Filter{Late: time.Minute}, "ann", "bob", "carl")
		b.finds(operator.Filter{Late: 3 * time.Minute})
		b.finds(operator.Filter{MinBehind: 1, URL: "/b"}, "bob", "carl")
		b.finds(operator.Filter{MinBehind: 2})
		b.finds(operator.Filter{Host: "Receiver.TEST"}, "ann", "bob", "carl")
		b.finds(operator.Filter{Host: "receiver.test:80"})
		b.finds(operator.Filter{URL: "hidden"})
		first, next, err := b.Find(ctx, operator.Filter{Failing: true}, "", 1)
		if err != nil || len(first) != 1 || first[0].ID != ann || next == "" || !first[0].WaitingSince.Equal(began) {
			t.Errorf("%+v %q %v", first, next, err)
		}
		if second, next, err := b.Find(ctx, operator.Filter{Failing: true}, next, 1); err != nil || len(second) != 1 || second[0].ID != bob || next != "" {
			t.Errorf("%+v %q %v", second, next, err)
		}
		for _, after := range []string{"x", "1.", "." + ann} {
			if _, _, err := b.Find(ctx, operator.Filter{Failing: true}, after, 1); !errors.Is(err, events.ErrInvalidParams) {
				t.Errorf("after %q: %v", after, err)
			}
		}
		some, next, err := b.Find(ctx, operator.Filter{}, "", 2)
		if err != nil || len(some) != 2 || next != some[1].ID {
			t.Errorf("%+v %q %v", some, next, err)
		}
		if rest, next, err := b.Find(ctx, operator.Filter{}, next, 2); err != nil || len(rest) != 1 || next != "" {
			t.Errorf("%+v %q %v", rest, next, err)
		}
		if f, err := b.Failing(ctx, 1); err != nil || f.Total != 2 || len(f.Longest) != 1 || f.Longest[0].ID != ann {
			t.Errorf("%+v %v", f, err)
		}

		hosts, next, err := b.Endpoints(ctx, operator.Filter{}, "", 10)
		if err != nil || len(hosts) != 1 || next != "" {
			t.Fatalf("%+v %q %v", hosts, next, err)
		}
		if h := hosts[0]; h.Host != "receiver.test" || h.URL != "" || h.Subscriptions != 3 || h.Active != 2 || h.Paused != 1 || h.Failing != 2 ||
			h.Behind == nil || *h.Behind != 1 || !h.WaitingSince.Equal(began) || !h.FailedSince.Equal(first[0].FailedSince) {
			t.Errorf("%+v", h)
		}
		urls, next, err := b.Endpoints(ctx, operator.Filter{Host: "receiver.test"}, "", 1)
		if err != nil || len(urls) != 1 || urls[0].URL != origin+"/a" || urls[0].Subscriptions != 1 || next != origin+"/a" {
			t.Errorf("%+v %q %v", urls, next, err)
		}
		urls, next, err = b.Endpoints(ctx, operator.Filter{Host: "receiver.test"}, next, 1)
		if err != nil || len(urls) != 1 || urls[0].URL != origin+"/b" || urls[0].Subscriptions != 2 || next != "" {
			t.Errorf("%+v %q %v", urls, next, err)
		}

		r.on(nil)
		settle(15 * time.Minute)
		b.finds(operator.Filter{Failing: true})
		b.finds(operator.Filter{Late: time.Minute}, "carl")
		if i, err := b.Get(ctx, ann); err != nil || !i.WaitingSince.IsZero() || i.Failing() {
			t.Errorf("%+v %v", i, err)
		}
	})
}

// SRV-8, REP-13: what fails and what is late is found from each process.
func TestSRV8FailingElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		owner, other := p.owner, p.other
		p.r.on(refuse)
		p.e.Emit(incident{ID: "1"})
		settle(time.Minute)
		for _, b := range []*bed{owner, other} {
			b.finds(operator.Filter{Failing: true}, "ann")
			b.finds(operator.Filter{Late: time.Second}, "ann")
		}
	})
}

// SRV-8: all subscriptions of a host are paused and go on by a loop over pages, which comes to each once whatever it
// does to them.
func TestSRV8LoopOverPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		for _, principal := range []string{"ann", "bob", "carl", "dan", "eve"} {
			b.at(principal, "/"+principal[:1])
		}
		active := func(i *operator.WebhookInfo) bool { return i.State == operator.StateActive }
		paused := func(i *operator.WebhookInfo) bool { return i.State == operator.StatePaused }
		// What is paused leaves the filter while the loop goes on.
		if n := b.each(operator.Filter{Host: "Receiver.test", State: operator.StateActive}, active, b.Pause); n != 5 {
			t.Errorf("%d were paused", n)
		}
		if n := b.each(operator.Filter{}, active, b.Pause); n != 0 {
			t.Errorf("%d were paused once more", n)
		}
		e.Emit(incident{ID: "1"})
		settle(time.Minute)
		r.want(t, "paused")
		if n := b.each(operator.Filter{URL: "/b", State: operator.StatePaused}, paused, b.Unpause); n != 1 {
			t.Errorf("%d go on", n)
		}
		settle(time.Minute)
		r.want(t, "unpaused", "1")
		b.finds(operator.Filter{State: operator.StatePaused}, "ann", "carl", "dan", "eve")
	})
}

// SRV-8: a server without webhooks has none to find.
func TestSRV8FindWithoutWebhooks(t *testing.T) {
	b := newBed(t, setup{without: true})
	b.finds(operator.Filter{})
	b.finds(operator.Filter{Failing: true})
	if found, _, err := b.Endpoints(t.Context(), operator.Filter{}, "", 1); err != nil || len(found) != 0 {
		t.Errorf("%+v %v", found, err)
	}
	for _, after := range []string{"", "sub_1", "sub_1/7/" + base64.RawURLEncoding.EncodeToString([]byte("evt"))} {
		if found, _, err := b.Abandoned(t.Context(), operator.Filter{}, time.Time{}, time.Time{}, after, 1); err != nil || len(found) != 0 {
			t.Errorf("%+v %v", found, err)
		}
	}
}
