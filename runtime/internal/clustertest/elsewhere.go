package clustertest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// elsewhereTests are about subscriptions that are changed at a process that does not deliver to them.
var elsewhereTests = []test{
	{name: "REP-11: a refresh elsewhere prolongs and rotates, an unsubscribe elsewhere ends", run: refreshElsewhere},
	{name: "REP-11: an unsubscribe of a process that has died has ended it all the same", run: unsubscribeOfWhoHasGone},
	{name: "SUB-5, REP-11: a refresh of a suspended one survives its owner", run: refreshOfASuspendedOne},
	{name: "REP-9: what is refreshed while its shard is given away repeats nothing", run: refreshAtAHandover},
	{name: "SUB-5, REP-11: what expires looks whether somebody has prolonged it", run: expiryMeetsARefresh, long: true},
}

// Soon both secrets sign. An unsubscribe ends deliveries and retries.
func refreshElsewhere(f *fleet) {
	f.start(2)
	s := f.members[0].subscribe("ann", params(hook(0), secretA, ""))
	other := f.other(s.ID)
	other.emit(incident{ID: "1"})
	f.soon("the first", func() bool { return len(f.r.to(hook(0))) == 1 })
	if d := f.r.last(); !d.signedBy(secretA) {
		f.Fatal("not signed by the first secret")
	}
	again := other.subscribe("ann", params(hook(0), secretB, ""))
	if again.ID != s.ID || again.DeliveryStatus == nil || !again.DeliveryStatus.Active || again.Cursor == nil {
		f.Fatalf("%+v", again)
	}
	f.heard()
	other.emit(incident{ID: "2"})
	f.soon("the second", func() bool { return len(f.r.to(hook(0))) == 2 })
	if d := f.r.last(); !d.signedBy(secretA) || !d.signedBy(secretB) {
		f.Fatal("not signed by both secrets")
	}
	f.soon("the watermark is stored", func() bool {
		i, err := other.Admin().Get(f.Context(), s.ID)
		return err == nil && i.Cursor != nil && *i.Cursor == *f.r.last().body.Cursor
	})
	f.r.on(refuse)
	other.emit(incident{ID: "3"})
	f.soon("the third", func() bool { return len(f.r.to(hook(0))) == 3 })
	other.unsubscribe("ann", hook(0))
	f.heard()
	n := len(f.r.to(hook(0)))
	other.emit(incident{ID: "4"})
	f.idle()
	if got := f.r.to(hook(0)); len(got) != n {
		f.Errorf("after the end came %q", got[n:])
	}
	for _, m := range f.members {
		if m.tryUnsubscribe("ann", hook(0)) == nil {
			f.Errorf("%s: unsubscribed twice", m.name)
		}
	}
}

func unsubscribeOfWhoHasGone(f *fleet) {
	f.start(2)
	s := f.members[0].subscribe("ann", params(hook(0), secretA, ""))
	other := f.other(s.ID)
	other.emit(incident{ID: "1"})
	f.soon("the first", func() bool { return len(f.r.to(hook(0))) == 1 })
	// As a process that died when it had deleted the record: the one that is asked next tells the owner.
	r, _ := f.record(s.ID)
	if err := f.watch.DeleteSubscription(f.Context(), s.ID, r.Generation); err != nil {
		f.Fatal(err)
	}
	if other.tryUnsubscribe("ann", hook(0)) == nil {
		f.Error("it was there")
	}
	f.heard()
	other.emit(incident{ID: "2"})
	f.idle()
	f.same("delivered", f.r.to(hook(0)), "1")
}

// It comes while the owner is dying, so that nobody hears of it, and reactivates all the same (SUB-5).
func refreshOfASuspendedOne(f *fleet) {
	f.options.Replica.Lease = 2 * time.Second
	f.options.Webhook.Retry.Suspend = server.Suspension{Min: 1}
	f.options.Webhook.Retry.Schedule = []time.Duration{0, time.Hour}
	f.start(2)
	sub := f.members[0].subscribe("ann", params(hook(0), secretA, ""))
	f.r.on(refuse)
	owner, other := f.owner(sub.ID), f.other(sub.ID)
	other.emit(incident{ID: "1"})
	f.soon("it is suspended", func() bool { r, ok := f.record(sub.ID); return ok && r.Health.Suspended })
	f.sink(owner)
	f.r.on(nil)
	if again := other.subscribe("ann", params(hook(0), secretA, "")); again.DeliveryStatus == nil || again.DeliveryStatus.Active {
		f.Errorf("%+v", again.DeliveryStatus)
	}
	other.emit(incident{ID: "2"})
	f.wait("it goes on", func() bool { return covers(f.r.to(hook(0)), []string{"1", "2"}) })
}

// stored edits a record as another process does that cannot tell of it.
func (f *fleet) stored(id string, edit func(r *store.Subscription)) {
	f.Helper()
	for {
		r, ok := f.record(id)
		if !ok {
			f.Fatalf("there is no %s", id)
		}
		edit(&r)
		_, err := f.watch.PutSubscription(f.Context(), r)
		if err == nil {
			return
		}
		if !errors.Is(err, store.ErrConflict) { // else its owner has written in between
			f.Fatal(err)
		}
	}
}

// Attempts are under way while another process joins, which gets a share of the shards.
func refreshAtAHandover(f *fleet) {
	goOn := make(chan struct{})
	f.r.handle = func(http.ResponseWriter, *delivered) { <-goOn }
	f.start(1)
	const n = 6
	for i := range n {
		f.members[0].subscribe(fmt.Sprint("p", i), params(hook(i), secretA, ""))
	}
	f.members[0].emit(incident{ID: "1"})
	f.soon("all attempts", func() bool {
		for i := range n {
			if len(f.r.to(hook(i))) == 0 {
				return false
			}
		}
		return true
	})
	next := f.join()
	time.Sleep(2 * time.Second) // it is given away
	for i := range n {
		next.subscribe(fmt.Sprint("p", i), params(hook(i), secretA, ""))
	}
	f.heard()
	close(goOn)
	f.settled()
	f.idle()
	for i := range n {
		f.same("delivered", f.r.to(hook(i)), "1")
	}
}

// One that nobody has prolonged ends. The other one is not taken up anew: what it has delivered and not stored yet
// would come again.
func expiryMeetsARefresh(f *fleet) {
	j := f.note()
	f.start(2)
	const ttl = `,"ttlMs":600000`
	s := f.members[0].subscribe("ann", params(hook(0), secretA, ttl))
	over := f.members[0].subscribe("ann", params(hook(1), secretA, ttl))
	f.stored(s.ID, func(r *store.Subscription) { r.ExpiresAt = r.ExpiresAt.Add(10 * time.Minute) })
	f.soon("both are live", func() bool { return f.live() == 2 })
	n := len(j.lines())
	time.Sleep(15 * time.Minute)
	f.members[0].emit(incident{ID: "1"})
	f.soon("the delivery", func() bool { return len(f.r.to(hook(0))) == 1 })
	if _, ok := f.record(over.ID); ok {
		f.Error("the record of what is over is there")
	}
	f.same("of what is over", f.r.to(hook(1)))
	f.same("what is prolonged goes on as it was, what is over ends", j.lines()[n:], "off")
	time.Sleep(10 * time.Minute)
	if _, ok := f.record(s.ID); ok {
		f.Error("it goes on after its end")
	}
}
