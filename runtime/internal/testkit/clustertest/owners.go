package clustertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// ownerTests contains the tests of shard ownership and of deliveries when the owner changes.
var ownerTests = []test{
	{name: "REP-6, REP-11: each process answers subscribes, and events emitted at any process reach all subscriptions once", run: subscribeAnywhere},
	{name: "REP-9: a rolling restart under load misses nothing and repeats nothing", run: rollingRestart},
	{name: "REP-9, REP-10: after a crash another process continues, and nothing is missed", run: crash},
	{name: "REP-7: an owner whose shards were claimed without its knowledge stops", run: fencedOwnerStops},
	{name: "REP-11: an owner that has not heard of the others for two seconds begins no attempt", run: unheardOwner},
	{name: "REP-9: an attempt that hangs while its process shuts down delays only its shard", run: slowAttempt},
	{name: "REP-10, CUR-7: a type without replay misses nothing in a handover", run: withoutReplay},
}

// level returns the params of a subscribe request that matches all incidents. The arguments depend on i, which
// distributes the subscriptions over the shards.
func level(i int) string {
	return params(hook(i), secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i))
}

// subscribeAnywhere tests that each process owns a share of the subscriptions.
func subscribeAnywhere(f *fleet) {
	f.start(3)
	const each = 12
	var ids []string
	for i := range each {
		s := f.members[i%3].subscribe(fmt.Sprint("p", i), level(i))
		if s.Cursor == nil || s.Truncated || s.DeliveryStatus != nil {
			f.Fatalf("%+v", s)
		}
		ids = append(ids, s.ID)
	}
	owners := map[string]int{}
	for _, id := range ids {
		owners[f.owner(id).name]++
	}
	if len(owners) < 2 {
		f.Errorf("owners %v", owners)
	}
	var want []string
	for i := range each {
		id := fmt.Sprintf("i%02d", i)
		f.members[(i+1)%3].emit(incident{ID: id, Level: 100})
		want = append(want, id)
	}
	for i := range each {
		f.soon("all for "+hook(i), func() bool { return len(f.r.requestsTo(hook(i))) >= each })
		f.equal(hook(i), slices.Sorted(slices.Values(f.r.requestsTo(hook(i)))), want...)
	}
}

func rollingRestart(f *fleet) {
	f.start(2)
	const subs = 8
	for i := range subs {
		f.members[i%2].subscribe("ann", level(i))
	}
	stop := make(chan struct{})
	var sent []string
	var done sync.WaitGroup
	done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			id := fmt.Sprintf("i%05d", i)
			all := f.alive()
			if err := all[i%len(all)].emitter.Emit(context.Background(), incident{ID: id, Level: 100}, events.WithID(id)); err != nil {
				continue // the server has been shut down, or the emit was refused
			}
			sent = append(sent, id)
		}
	})
	for range 3 {
		time.Sleep(300 * time.Millisecond)
		f.join()
		f.waitSettled()
		f.leave(f.alive()[0])
		f.waitSettled()
	}
	time.Sleep(300 * time.Millisecond)
	close(stop)
	done.Wait()
	for i := range subs {
		f.soon("all for "+hook(i), func() bool { return len(f.r.requestsTo(hook(i))) >= len(sent) })
		f.equal(hook(i), slices.Sorted(slices.Values(f.r.requestsTo(hook(i)))), sent...)
	}
}

// crash tests that the next owner starts at most the lease plus about two seconds later. It repeats only events that
// were not settled.
func crash(f *fleet) {
	f.lease = 3 * time.Second
	f.start(3)
	const subs = 8
	var first string
	for i := range subs {
		if id := f.members[i%3].subscribe("ann", level(i)).ID; i == 0 {
			first = id
		}
	}
	var sent []string
	send := func(by *member) {
		id := fmt.Sprintf("i%05d", len(sent))
		by.emit(incident{ID: id, Level: 100})
		sent = append(sent, id)
	}
	for i := range 20 {
		send(f.members[i%3])
	}
	for range 2 {
		f.disconnect(f.owner(first))
		crashed := time.Now()
		for range 20 {
			send(f.alive()[0])
		}
		f.waitSettled()
		for i := range subs {
			f.soon("all for "+hook(i), func() bool { return sameSet(f.r.requestsTo(hook(i)), sent) })
		}
		if d := time.Since(crashed); f.bubble && d > 20*time.Second {
			f.Errorf("delivered %v after the crash", d)
		}
	}
}

// fencedOwnerStops tests that a fenced owner stops writing and that the new owner continues.
func fencedOwnerStops(f *fleet) {
	f.start(2)
	s := f.members[0].subscribe("ann", params(hook(0), secretA, ""))
	owner, other := f.owner(s.ID), f.other(s.ID)
	other.emit(incident{ID: "1"})
	f.soon("the first", func() bool { return len(f.r.requestsTo(hook(0))) == 1 })
	held := make(chan struct{})
	f.r.setHandler(func(_ http.ResponseWriter, d *webhookRequest) {
		if d.body.EventID == "2" {
			<-held
		}
	})
	other.emit(incident{ID: "2"})
	f.soon("the second", func() bool { return len(f.r.requestsTo(hook(0))) == 2 })
	// Simulate a lease that expires while the process is suspended.
	if err := f.watch.Leave(f.Context(), f.fence(owner)); err != nil {
		f.Fatal(err)
	}
	f.soon("the other process owns it", func() bool { return f.owner(s.ID) == other })
	close(held)
	f.wait("the old owner has joined with a new lease", func() bool { has, _ := f.owners(); return len(has[owner.name]) > 0 })
	owner.emit(incident{ID: "3"})
	f.soon("the third", func() bool { return sameSet(f.r.requestsTo(hook(0)), []string{"1", "2", "3"}) })
	f.idle()
	if got := f.r.requestsTo(hook(0)); slices.Index(got, "3") != len(got)-1 {
		f.Errorf("the third was delivered more than once: %q", got)
	}
}

func slowAttempt(f *fleet) {
	f.start(1)
	old := f.members[0]
	const subs = 6
	for i := range subs {
		old.subscribe("ann", level(i))
	}
	release := make(chan struct{})
	f.r.setHandler(func(_ http.ResponseWriter, d *webhookRequest) {
		if d.url == hook(0) && d.body.EventID == "1" {
			<-release
		}
	})
	old.emit(incident{ID: "1", Level: 9})
	for i := range subs {
		f.soon("the attempts are in progress", func() bool { return len(f.r.requestsTo(hook(i))) == 1 })
	}
	next := f.join()
	f.waitSettled()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		f.leave(old)
	}()
	f.soon("the other shards are handed over", func() bool {
		has, _ := f.owners()
		return len(has[old.name]) == 1
	})
	next.emit(incident{ID: "2", Level: 9})
	f.soon("the second, but for the slow one's shard", func() bool {
		return slices.ContainsFunc([]int{1, 2, 3, 4, 5}, func(i int) bool { return len(f.r.requestsTo(hook(i))) == 2 })
	})
	select {
	case <-gone:
		f.Error("the process ended before its last attempt")
	default:
	}
	close(release)
	<-gone
	for i := range subs {
		f.soon("both", func() bool { return len(f.r.requestsTo(hook(i))) >= 2 })
		f.equal(hook(i), f.r.requestsTo(hook(i)), "1", "2")
	}
}

func withoutReplay(f *fleet) {
	f.typ.Info.NoReplay = true
	f.start(1)
	if s := f.members[0].subscribe("ann", params(hook(0), secretA, "")); s.Cursor != nil {
		f.Error("the response has a cursor")
	}
	f.join()
	f.waitSettled()
	var sent []string
	for range 3 {
		old := f.alive()[0]
		next := f.join()
		f.waitSettled()
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.leave(old)
		}()
		for range 20 {
			id := fmt.Sprintf("i%03d", len(sent))
			next.emit(incident{ID: id})
			sent = append(sent, id)
			time.Sleep(5 * time.Millisecond)
		}
		<-done
		f.waitSettled()
	}
	f.soon("all", func() bool { return len(f.r.requestsTo(hook(0))) >= len(sent) })
	f.equal("delivered", slices.Sorted(slices.Values(f.r.requestsTo(hook(0)))), sent...)
}

// unheardOwner tests that an owner without news of the others pauses its deliveries but retains its lease. It continues
// when it receives news.
func unheardOwner(f *fleet) {
	if f.Silence == nil {
		f.Skip("the engine cannot be cut off from one log")
	}
	f.start(2)
	s := f.members[0].subscribe("ann", params(hook(0), secretA, ""))
	owner, other := f.owner(s.ID), f.other(s.ID)
	other.emit(incident{ID: "1"})
	f.soon("the first", func() bool { return len(f.r.requestsTo(hook(0))) == 1 })
	f.Silence(owner.store, engine.ControlLog)
	time.Sleep(2100 * time.Millisecond)
	other.emit(incident{ID: "2"})
	f.idle()
	f.equal("while the owner hears nothing", f.r.requestsTo(hook(0)), "1")
	if f.owner(s.ID) != owner {
		f.Error("the owner has lost its lease")
	}
	f.Silence(owner.store, "no log")
	f.soon("delivery continues", func() bool { return sameSet(f.r.requestsTo(hook(0)), []string{"1", "2"}) })
}
