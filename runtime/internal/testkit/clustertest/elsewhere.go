package clustertest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// elsewhereTests contains the tests of changing a subscription through a process that does not deliver to it.
var elsewhereTests = []test{
	{name: "REP-11: a refresh elsewhere extends and rotates, an unsubscribe elsewhere ends", run: refreshElsewhere},
	{name: "REP-11: an unsubscribe takes effect although its process has died", run: unsubscribeOfWhoHasGone},
	{name: "SUB-5, REP-11: a refresh of a suspended subscription survives its owner", run: refreshOfASuspendedOne},
	{name: "REP-9: a refresh during a handover repeats nothing", run: refreshAtAHandover},
	{name: "SUB-5, REP-11: an expiring subscription is kept if another process has extended it", run: expiryMeetsARefresh, long: true},
}

// refreshElsewhere tests that both secrets sign for some time after a rotation. An unsubscribe ends deliveries and
// retries.
func refreshElsewhere(f *fleet) {
	f.start(2)
	s := f.members[0].subscribe("ann", params(hook(0), secretA, ""))
	other := f.other(s.ID)
	other.emit(incident{ID: "1"})
	f.soon("the first", func() bool { return len(f.r.requestsTo(hook(0))) == 1 })
	if d := f.r.last(); !d.signedBy(secretA) {
		f.Fatal("not signed by the first secret")
	}
	again := other.subscribe("ann", params(hook(0), secretB, ""))
	if again.ID != s.ID || again.DeliveryStatus == nil || !again.DeliveryStatus.Active || again.Cursor == nil {
		f.Fatalf("%+v", again)
	}
	f.waitForOrders()
	other.emit(incident{ID: "2"})
	f.soon("the second", func() bool { return len(f.r.requestsTo(hook(0))) == 2 })
	if d := f.r.last(); !d.signedBy(secretA) || !d.signedBy(secretB) {
		f.Fatal("not signed by both secrets")
	}
	f.soon("the watermark is stored", func() bool {
		i, err := other.Admin().Get(f.Context(), s.ID)
		return err == nil && i.Cursor != nil && *i.Cursor == *f.r.last().body.Cursor
	})
	f.r.setHandler(refuse)
	other.emit(incident{ID: "3"})
	f.soon("the third", func() bool { return len(f.r.requestsTo(hook(0))) == 3 })
	other.unsubscribe("ann", hook(0))
	f.waitForOrders()
	n := len(f.r.requestsTo(hook(0)))
	other.emit(incident{ID: "4"})
	f.idle()
	if got := f.r.requestsTo(hook(0)); len(got) != n {
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
	f.soon("the first", func() bool { return len(f.r.requestsTo(hook(0))) == 1 })
	// Simulate a crash after the deletion of the record. The next process notifies the owner.
	r, _ := f.record(s.ID)
	if err := f.watch.DeleteSubscription(f.Context(), s.ID, r.Generation); err != nil {
		f.Fatal(err)
	}
	if other.tryUnsubscribe("ann", hook(0)) == nil {
		f.Error("unsubscribe succeeded without a record")
	}
	f.waitForOrders()
	other.emit(incident{ID: "2"})
	f.idle()
	f.equal("delivered", f.r.requestsTo(hook(0)), "1")
}

// refreshOfASuspendedOne tests a refresh that arrives after the owner has crashed, when no process can be notified. The
// refresh still reactivates the subscription (SUB-5).
func refreshOfASuspendedOne(f *fleet) {
	f.lease = 2 * time.Second
	f.webhooks.Retry.Suspend = webhooks.Suspension{Min: 1, Span: -1}
	f.webhooks.Retry.Schedule = []time.Duration{0, time.Hour}
	f.start(2)
	sub := f.members[0].subscribe("ann", params(hook(0), secretA, ""))
	f.r.setHandler(refuse)
	owner, other := f.owner(sub.ID), f.other(sub.ID)
	other.emit(incident{ID: "1"})
	f.soon("the subscription is suspended", func() bool { r, ok := f.record(sub.ID); return ok && r.Health.Suspended })
	f.disconnect(owner)
	f.r.setHandler(nil)
	if again := other.subscribe("ann", params(hook(0), secretA, "")); again.DeliveryStatus == nil || again.DeliveryStatus.Active {
		f.Errorf("%+v", again.DeliveryStatus)
	}
	other.emit(incident{ID: "2"})
	f.wait("delivery continues", func() bool { return sameSet(f.r.requestsTo(hook(0)), []string{"1", "2"}) })
}

// editRecord edits a record like a process that cannot notify the others of the change.
func (f *fleet) editRecord(id string, edit func(r *store.Subscription)) {
	f.Helper()
	for {
		r, ok := f.record(id)
		if !ok {
			f.Fatalf("subscription %s does not exist", id)
		}
		edit(&r)
		_, err := f.watch.PutSubscription(f.Context(), r)
		if err == nil {
			return
		}
		if !errors.Is(err, store.ErrConflict) { // otherwise the owner has written in between
			f.Fatal(err)
		}
	}
}

// refreshAtAHandover tests a refresh while attempts are in progress and another process joins and receives a share of
// the shards.
func refreshAtAHandover(f *fleet) {
	goOn := make(chan struct{})
	f.r.handle = func(http.ResponseWriter, *webhookRequest) { <-goOn }
	f.start(1)
	const n = 6
	for i := range n {
		f.members[0].subscribe(fmt.Sprint("p", i), params(hook(i), secretA, ""))
	}
	f.members[0].emit(incident{ID: "1"})
	f.soon("all attempts", func() bool {
		for i := range n {
			if len(f.r.requestsTo(hook(i))) == 0 {
				return false
			}
		}
		return true
	})
	next := f.join()
	time.Sleep(2 * time.Second) // the shard is handed over
	for i := range n {
		next.subscribe(fmt.Sprint("p", i), params(hook(i), secretA, ""))
	}
	f.waitForOrders()
	close(goOn)
	f.waitSettled()
	f.idle()
	for i := range n {
		f.equal("delivered", f.r.requestsTo(hook(i)), "1")
	}
}

// expiryMeetsARefresh tests that a subscription without a refresh expires. A refreshed subscription is not restored
// from the store, because that would repeat deliveries with unsaved results.
func expiryMeetsARefresh(f *fleet) {
	j := f.recordHooks()
	f.start(2)
	const ttl = `,"ttlMs":600000`
	s := f.members[0].subscribe("ann", params(hook(0), secretA, ttl))
	over := f.members[0].subscribe("ann", params(hook(1), secretA, ttl))
	f.editRecord(s.ID, func(r *store.Subscription) { r.ExpiresAt = r.ExpiresAt.Add(10 * time.Minute) })
	f.soon("both are live", func() bool { return f.live() == 2 })
	n := len(j.lines())
	time.Sleep(15 * time.Minute)
	f.members[0].emit(incident{ID: "1"})
	f.soon("the delivery", func() bool { return len(f.r.requestsTo(hook(0))) == 1 })
	if _, ok := f.record(over.ID); ok {
		f.Error("the record of the expired subscription still exists")
	}
	f.equal("the expired subscription", f.r.requestsTo(hook(1)))
	f.equal("the extended subscription continues, the expired one ends", j.lines()[n:], "off")
	time.Sleep(10 * time.Minute)
	if _, ok := f.record(s.ID); ok {
		f.Error("the subscription continues after its end")
	}
}
