package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// stored edits a record as another process does that cannot tell of it.
func (f *fleet) stored(id string, edit func(r *store.Subscription)) {
	f.t.Helper()
	db := f.afloat()[0].store
	r, ok, err := db.Subscription(context.Background(), id)
	if err == nil && ok {
		edit(&r)
		_, err = db.PutSubscription(context.Background(), r)
	}
	if err != nil || !ok {
		f.t.Fatal(ok, err)
	}
}

// SUB-5, REP-11: an owner whose subscription expires looks whether another process has prolonged it, and goes
// on without a word; one that nobody has prolonged ends.
func TestREP11ExpiryMeetsARefreshElsewhere(t *testing.T) {
	hooks := &journal{}
	f := newFleet(t, 2, func(f *fleet) {
		f.options.Webhook.MinTTL = time.Second
		f.hooks.OnUnsubscribe = func(context.Context, Subscription, *filterArgs) { hooks.add("off") }
	})
	f.settled()
	s := f.members[0].subscribe(t, "ann", params(plain, secretA, `,"ttlMs":1500`))
	over := f.members[0].subscribe(t, "ann", params(plain+"0", secretA, `,"ttlMs":1500`))
	owner := f.owner(s.ID)
	first := owner.webhooks.Get(s.ID)
	f.stored(s.ID, func(r *store.Subscription) { r.ExpiresAt = r.ExpiresAt.Add(time.Hour) })
	waitUntil(t, "it was taken up again", func() bool { h := owner.webhooks.Get(s.ID); return h != nil && h != first })
	waitUntil(t, "the other one ends", func() bool { return len(hooks.lines()) == 1 })
	emit(t, f.members[0].emitter, incident{ID: "1"})
	waitUntil(t, "the delivery", func() bool { return len(f.r.to(plain)) == 1 })
	if _, ok, err := owner.store.Subscription(t.Context(), over.ID); ok || err != nil {
		t.Errorf("its record is there: %v", err)
	}
	if got := f.r.to(plain + "0"); len(got) != 0 {
		t.Errorf("it got %v", got)
	}
}

// REP-11: what a process did and could not tell of, since it died, is found by comparing.
func TestREP11WhatNobodyToldOf(t *testing.T) {
	f := newFleet(t, 1, nil)
	f.settled()
	m := f.members[0]
	var ids []string
	for i := range 4 {
		ids = append(ids, m.subscribe(t, "ann", params(fmt.Sprint(plain, i), secretA, "")).ID)
	}
	r, _, err := m.store.Subscription(t.Context(), ids[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := m.store.DeleteSubscription(t.Context(), ids[0], r.Generation); err != nil {
		t.Fatal(err)
	}
	f.stored(ids[1], func(r *store.Subscription) { r.PausedAt = time.Now() })
	fresh := r
	fresh.ID, fresh.URL, fresh.Revision, fresh.Generation, fresh.Progress.Base = "sub_made_elsewhere", plain+"9", 0, 7, m.types["e"].topic.Head()
	if _, err := m.store.PutSubscription(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	if err := m.webhooks.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitUntil(t, "all is as it is stored", func() bool {
		return m.webhooks.Get(ids[0]) == nil && m.webhooks.Get(fresh.ID) != nil && m.webhooks.Get(ids[1]).Handle.Status().Paused
	})
	if m.webhooks.Get(ids[2]).Handle.Status().Paused {
		t.Error("another one is paused")
	}
}

// REP-11: who goes away in the middle of an unsubscribe has ended it all the same.
func TestREP11UnsubscribeOfWhoHasGone(t *testing.T) {
	f := newFleet(t, 2, nil)
	f.settled()
	s := f.members[0].subscribe(t, "ann", params(plain, secretA, ""))
	owner, other := f.owner(s.ID), f.other(s.ID)
	// As a process that died when it had deleted the record: the one that is asked next tells the owner.
	r, _, err := other.store.Subscription(t.Context(), s.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.store.DeleteSubscription(t.Context(), s.ID, r.Generation); err != nil {
		t.Fatal(err)
	}
	if _, rerr := call(other.Server, "ann", wire.MethodUnsubscribe, fmt.Sprintf(`{"name":"e","delivery":{"url":%q}}`, plain)); rerr == nil {
		t.Error("it was there")
	}
	waitUntil(t, "the owner knows", func() bool { return owner.webhooks.Get(s.ID) == nil })
}

// REP-6, CUR-1: subscriptions to a check have one owner for each feed, which goes on after a handover where
// the one before stood; so does one after a crash, which may repeat.
func TestREP9ChecksGoOn(t *testing.T) {
	m := &mailbox{}
	f := newFleet(t, 0, func(f *fleet) { f.payload, f.options.Replica.Lease = "none", 2*time.Second })
	join := func() *sailor {
		s := f.join()
		if err := RegisterCheck(s.Server, incidentType("e"), m.check, Hooks[filterArgs, incident]{}, WithNextPoll(20*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		return s
	}
	join()
	join()
	f.settled()
	var ids []string
	for i := range 6 {
		ids = append(ids, f.members[i%2].subscribe(t, "ann", params(fmt.Sprint(plain, i), secretA, "")).ID)
	}
	for _, id := range ids {
		if f.owner(id) != f.owner(ids[0]) {
			t.Fatal("one feed has two owners")
		}
	}
	var sent []string
	put := func() {
		id := fmt.Sprintf("m%02d", len(sent))
		sent = append(sent, id)
		m.put("ann", mail(id))
	}
	got := func() bool {
		for i := range ids {
			if !covers(f.r.to(fmt.Sprint(plain, i)), sent) {
				return false
			}
		}
		return true
	}
	put()
	waitUntil(t, "the first", got)
	for range 2 {
		join()
		f.settled()
		f.leave(f.owner(ids[0]))
		put()
		f.settled()
		put()
		waitUntil(t, "after the handover", got)
	}
	for i := range ids {
		wantStrings(t, "without a crash", f.r.to(fmt.Sprint(plain, i)), sent...)
	}
	join()
	f.settled()
	f.sink(f.owner(ids[0]))
	put()
	waitUntil(t, "after the crash", got)
}

// REP-10, CUR-7: a type without replay misses nothing by a handover either.
func TestREP10WithoutReplay(t *testing.T) {
	f := newFleet(t, 0, func(f *fleet) { f.payload = "none" })
	join := func() *sailor {
		s := f.join()
		typ := incidentType("e")
		typ.NoReplay = true
		var err error
		if s.emitter, err = Register(s.Server, typ, f.hooks); err != nil {
			t.Fatal(err)
		}
		return s
	}
	join()
	f.settled()
	if s := f.members[0].subscribe(t, "ann", params(plain, secretA, "")); s.Cursor != nil {
		t.Error("it has a cursor")
	}
	join()
	f.settled()
	var sent []string
	for range 3 {
		old := f.afloat()[0]
		next := join()
		f.settled()
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.leave(old)
		}()
		for range 20 {
			id := fmt.Sprintf("i%03d", len(sent))
			emit(t, next.emitter, incident{ID: id})
			sent = append(sent, id)
			time.Sleep(5 * time.Millisecond)
		}
		<-done
		f.settled()
	}
	waitUntil(t, "all", func() bool { return len(f.r.to(plain)) >= len(sent) })
	got := f.r.to(plain)
	slices.Sort(got)
	wantStrings(t, "delivered", got, sent...)
}

// REP-11: an owner that has not heard of the others for two seconds begins no attempt although its lease holds,
// and goes on when it has heard of them.
func TestREP11UnheardOwnersBeginNothing(t *testing.T) {
	f := newFleet(t, 2, func(f *fleet) { f.options.Replica.Lease = 20 * time.Second })
	f.settled()
	s := f.members[0].subscribe(t, "ann", params(plain, secretA, ""))
	owner, other := f.owner(s.ID), f.other(s.ID)
	emit(t, other.emitter, incident{ID: "1"})
	waitUntil(t, "the first", func() bool { return len(f.r.to(plain)) == 1 })
	owner.control.stop()
	<-owner.control.done
	time.Sleep(maxUnheard + 100*time.Millisecond)
	emit(t, other.emitter, incident{ID: "2"})
	other.unsubscribe(t, "ann", plain)
	time.Sleep(time.Second)
	wantStrings(t, "delivered", f.r.to(plain), "1")
	if h := owner.webhooks.Get(s.ID); h == nil || !h.Ours() {
		t.Error("its lease does not hold")
	}
}

// REP-9: an attempt that hangs when a process shuts down holds up its own shard alone.
func TestREP9SlowAttemptHoldsUpItsShardAlone(t *testing.T) {
	f := newFleet(t, 1, func(f *fleet) { f.options.Replica.Lease = 10 * time.Second })
	f.settled()
	old := f.members[0]
	const subs = 6
	for i := range subs {
		old.subscribe(t, "ann", params(fmt.Sprint(plain, i), secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i)))
	}
	slow := plain + "0"
	release := make(chan struct{})
	f.r.on(func(w http.ResponseWriter, d *delivered) bool {
		if d.url == slow && d.body.EventID == "1" {
			<-release
		}
		return false
	})
	emit(t, old.emitter, incident{ID: "1", Level: 9})
	for i := range subs {
		waitUntil(t, "under way", func() bool { return len(f.r.to(fmt.Sprint(plain, i))) == 1 })
	}
	next := f.join()
	f.settled()
	gone := make(chan struct{})
	began := time.Now()
	go func() {
		defer close(gone)
		f.leave(old)
	}()
	waitUntil(t, "the others go on elsewhere", func() bool { return next.webhooks.Settled("e") >= shardsOfType-1 })
	t.Logf("they went on after %v", time.Since(began))
	emit(t, next.emitter, incident{ID: "2", Level: 9})
	waitUntil(t, "the second, but for the slow one's shard", func() bool {
		n := 0
		for i := range subs {
			if len(f.r.to(fmt.Sprint(plain, i))) == 2 {
				n++
			}
		}
		return n >= 1
	})
	select {
	case <-gone:
		t.Error("it was gone before its last attempt was over")
	default:
	}
	close(release)
	<-gone
	for i := range subs {
		url := fmt.Sprint(plain, i)
		waitUntil(t, "both", func() bool { return len(f.r.to(url)) >= 2 })
		wantStrings(t, url, f.r.to(url), "1", "2")
	}
}
