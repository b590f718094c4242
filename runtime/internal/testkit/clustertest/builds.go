package clustertest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// buildTests contains the tests of processes that serve different schemas of an event type, or do not serve it.
var buildTests = []test{
	{name: "REP-16: additive builds, handovers and rollbacks end nothing and miss nothing", run: additiveBuilds, long: true},
	{name: "REP-16, EVOL-2: an incompatible change ends subscriptions after the last older build", run: lastOlderBuild, long: true},
	{name: "REP-16, EVOL-1: subscriptions of an event type end some time after no process serves it", run: lastServer, long: true},
}

// setPayload replaces a part of the payloadSchema of the processes that join from now on.
func (f *fleet) setPayload(old, new string) {
	f.typ.Info.PayloadSchema = json.RawMessage(strings.Replace(string(f.typ.Info.PayloadSchema), old, new, 1))
}

func additiveBuilds(f *fleet) {
	f.lease = 3 * time.Second
	f.start(1)
	const subs = 6
	for i := range subs {
		f.members[0].subscribe("ann", level(i))
	}
	var sent []string
	send := func() {
		for _, m := range f.alive() {
			id := fmt.Sprintf("i%03d", len(sent))
			m.emit(incident{ID: id, Level: 100})
			sent = append(sent, id)
		}
	}
	const older, newer = `"severity"`, `"added":{"type":"string"},"severity"`
	for range 2 {
		for _, change := range [][2]string{{older, newer}, {newer, older}} {
			f.setPayload(change[0], change[1])
			f.join()
			f.waitSettled()
			send()
			time.Sleep(f.lease + time.Second/2) // long enough for an ending
			f.leave(f.alive()[0])
			send()
		}
	}
	for i := range subs {
		f.wait("all for "+hook(i), func() bool { return sameSet(f.r.requestsTo(hook(i)), sent) })
	}
}

// lastOlderBuild tests that subscriptions of before the change continue while a process of the older build exists, even
// if that process is restarted, and end when none has existed for the time of a lease. Those of the newer build continue.
func lastOlderBuild(f *fleet) {
	f.lease = 8 * time.Second // a restart takes its time
	f.start(1)
	const subs = 6
	for i := range subs {
		f.members[0].subscribe("ann", level(i))
	}
	const older, newer = `"severity":{"type":"string"},`, ``
	typ := f.typ
	f.setPayload(older, newer)
	latest := f.join()
	f.waitSettled()
	fresh := latest.subscribe("bob", params(hook(subs), secretA, ""))
	f.typ = typ
	f.leave(f.members[0])
	restarted := f.join()
	f.waitSettled()
	time.Sleep(f.lease + time.Second)
	restarted.emit(incident{ID: "1", Level: 100})
	for i := range subs {
		f.wait("the delivery", func() bool { return len(f.r.requestsTo(hook(i))) > 0 })
		f.equal(hook(i), f.r.requestsTo(hook(i)), "1")
	}
	f.leave(restarted)
	left := time.Now()
	for i := range subs {
		f.wait("the end", func() bool { return len(f.r.requestsTo(hook(i))) > 1 })
		if got := f.r.requestsTo(hook(i))[1]; !strings.HasPrefix(got, "terminated") || !strings.Contains(got, `"reason":"schema_changed"`) {
			f.Errorf("%s: %s", hook(i), got)
		}
	}
	if d := time.Since(left); d < f.lease/2 {
		f.Errorf("they ended %v after the last older build left", d)
	}
	if f.owner(fresh.ID) != latest || f.live() != 1 {
		f.Errorf("%d subscriptions are live", f.live())
	}
}

func lastServer(f *fleet) {
	f.start(1)
	first := f.members[0]
	s := first.subscribe("ann", params(hook(0), secretA, ""))
	f.typ.Info.Name = "f"
	other := f.join()
	f.typ.Info.Name = "e"
	time.Sleep(3 * time.Second)
	if has, free := f.owners(); free > 0 || len(has) != 1 || len(has[first.name]) == 0 {
		f.Errorf("%d shards are free, and the owners are %v", free, has)
	}
	first.emit(incident{ID: "1"})
	f.soon("the delivery", func() bool { return len(f.r.requestsTo(hook(0))) == 1 })
	if err := first.Remove("e"); err != nil {
		f.Fatal(err)
	}
	time.Sleep(30 * time.Second)
	f.equal("soon after", f.r.requestsTo(hook(0)), "1")
	if _, ok := f.record(s.ID); !ok {
		f.Fatal("it ended at once")
	}
	f.wait("the end", func() bool { return len(f.r.requestsTo(hook(0))) == 2 })
	if got := f.r.last().summary(); !strings.HasPrefix(got, "terminated -32011 NotFound") {
		f.Error(got)
	}
	if _, err := f.register(first.Server); err != nil {
		f.Fatal(err)
	}
	f.wait("the type is owned again", func() bool {
		has, free := f.owners()
		return free == 0 && len(has[first.name]) > 0 && len(has[other.name]) == 0
	})
}
