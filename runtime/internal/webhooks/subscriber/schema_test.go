package subscriber_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// narrow is an InputSchema under which the severities of [eventtypetest.InputSchema] are not valid.
const narrow = `{"type":"object","properties":{"severity":{"type":"number"}},"additionalProperties":false}`

// changed is what a subscription ends with whose schemas nobody serves.
var changed = fault.SchemaChanged(fault.FeatureInput)

// supersede has the subscriptions end that were accepted under the schemas of a fingerprint.
func (f *deployment) supersede(fingerprint string) {
	f.locked(func() {
		f.obsolete = func(schema string, _ bool) *events.Error {
			if schema == fingerprint {
				return changed
			}
			return nil
		}
	})
}

// build has a process serve schemas of that fingerprint.
func build(fingerprint, inputSchema string) setting {
	return func(_ *subscriber.Options, e *eventtypetest.Options) {
		e.Fingerprint, e.InputSchema = fingerprint, inputSchema
	}
}

// EVOL-2, EVOL-3: after an additive change of its type a live subscription goes on, under the new definition; after an
// incompatible one it ends with the reason, and another one can begin.
func TestEVOL3ChangedWhileLive(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		old := p.subscribe("ann", origin+"old", withArguments(`{"severity":"P1"}`)).ID
		p.typ.Redefine(strings.Replace(eventtypetest.InputSchema, `"P3"`, `"P3","P4"`, 1))
		p.typ.Reprint("2")
		p.Redefined(p.typ)
		p.subscribe("ann", origin+"new", withArguments(`{"severity":"P4"}`))
		for _, i := range []eventtypetest.Incident{{ID: "1", Severity: "P1"}, {ID: "2", Severity: "P4"}} {
			p.typ.Emit(i)
		}
		time.Sleep(while)
		f.r.wants("accepted before the change", "old", "1")
		f.r.wants("accepted after it", "new", "2")
		f.supersede("1")
		p.Redefined(p.typ)
		p.typ.Emit(eventtypetest.Incident{ID: "3", Severity: "P1"})
		p.typ.Emit(eventtypetest.Incident{ID: "4", Severity: "P4"})
		time.Sleep(while)
		f.r.wants("of schemas that nobody serves", "old", "1", terminated(changed))
		f.r.wants("of the present schemas", "new", "2", "4")
		f.gone("ended", old)
		p.hooks("one has ended", "on ann", "on ann", "off ann")
	})
}

// EVOL-4, REP-16: a refresh at a build with other schemas makes the subscription one of those, wherever it lives: it
// does not end with the older ones.
func TestREP16RefreshedAtANewerBuild(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, newer := f.process().own(), f.process(build("2", ""))
		a, b := owner.subscribe("ann", origin+"a").ID, owner.subscribe("ann", origin+"b").ID
		newer.subscribe("ann", origin+"a")
		f.supersede("1")
		owner.Review(owner.typ)
		owner.emit("1")
		time.Sleep(while)
		f.r.wants("refreshed", "a", "1")
		f.r.wants("not refreshed", "b", terminated(changed))
		f.warns("not refreshed", "event=e subscriptions=1 reason=")
		if r, ok := f.stored(a); !ok || r.Schema != "2" {
			t.Errorf("stored as %+v", r)
		}
		f.gone("not refreshed", b)
	})
}

// EVOL-2, REP-16: whoever takes a shard up ends what nobody serves any more, with the reason, and without asking hooks;
// what only another build understands waits for one, and misses nothing.
func TestREP16TakenUpByAnotherBuild(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		first := f.process().own()
		over := first.subscribe("ann", origin+"over").ID
		first.stop()
		second := f.process(build("2", "")).own()
		second.subscribe("bob", origin+"left", withArguments(`{"severity":"P1"}`))
		second.subscribe("eve", origin+"stays")
		time.Sleep(while)
		second.stop()
		f.supersede("1")
		third := f.process(build("3", narrow)).own()
		third.typ.Emit(eventtypetest.Incident{ID: "1", Severity: "P1"})
		time.Sleep(5 * time.Minute) // it compares what is stored
		f.r.wants("of a build that nobody runs", "over", terminated(changed))
		f.gone("ended", over)
		f.r.wants("of a build that understands it", "left")
		f.r.wants("that both understand", "stays", "1")
		third.hooks("of what goes on", "restored eve")
		third.giveAway()
		fourth := f.process(build("2", "")).own()
		fourth.typ.Emit(eventtypetest.Incident{ID: "2", Severity: "P1"})
		time.Sleep(while)
		f.r.wants("at a build that understands it", "left", "1", "2")
		f.r.wants("that both understand", "stays", "1", "2")
	})
}

// EVOL-2, REP-16: what waits for another build ends when no such build is there any more, unless it was refreshed at
// one that is; a store that is away then leaves it for later.
func TestREP16WhatWaitsForAnotherBuildEnds(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		older := f.process().own()
		left := older.subscribe("ann", origin+"left", withArguments(`{"severity":"P1"}`)).ID
		refreshed := older.subscribe("ann", origin+"refreshed", withArguments(`{"severity":"P2"}`)).ID
		time.Sleep(while)
		older.stop()
		p := f.process(build("2", narrow)).own()
		time.Sleep(while)
		f.supersede("1")
		f.change(refreshed, func(r *store.Subscription) { r.Schema = "1b" })
		for _, step := range []string{"Subscription", "Owned.DeleteSubscription"} {
			p.faults(step)
			p.Review(p.typ)
			time.Sleep(while)
			if _, ok := f.stored(left); !ok {
				t.Errorf("%s fails, and it is gone", step)
			}
		}
		p.faults()
		p.Review(p.typ)
		time.Sleep(while)
		var reads atomic.Int64
		p.inject([]string{"Subscription"}, func() error { reads.Add(1); return nil })
		p.Review(p.typ)
		time.Sleep(while)
		if n := reads.Load(); n != 0 {
			t.Errorf("%d reads of what has ended", n)
		}
		f.r.wants("once nobody serves it", "left", terminated(changed))
		f.gone("ended", left)
		f.r.wants("refreshed elsewhere", "refreshed")
		if _, ok := f.stored(refreshed); !ok {
			t.Error("what was refreshed at a build that is there has ended")
		}
		p.hooks("nobody is asked")
	})
}

// EVOL-1, LIST-3: subscriptions of a type that nobody serves by webhook end with the reason, those whose time is over
// end without a word, and those that somebody has forged stay as they are.
func TestEVOL1Orphans(t *testing.T) {
	for name, c := range map[string]struct {
		change func(typ *eventtypetest.Type)
		reason *events.Error
	}{
		"removed":          {(*eventtypetest.Type).Remove, fault.NotFound("event")},
		"without webhooks": {(*eventtypetest.Type).Unhook, fault.UnsupportedMode(wire.ModeWebhook)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p := f.process().own()
				id := p.subscribe("ann", origin+"a", lasting(10*time.Hour)).ID
				p.subscribe("ann", origin+"lapsed", lasting(time.Hour))
				r, _ := f.stored(id)
				forged := f.add(r, "forged")
				f.change(forged.ID, func(r *store.Subscription) { r.URL = origin + "b" })
				p.giveAway()
				time.Sleep(2 * time.Hour)
				next := f.process()
				c.change(next.typ)
				next.faults("Owned.DeleteSubscription")
				next.own()
				time.Sleep(while)
				if _, ok := f.stored(id); !ok {
					t.Error("it is gone although the store has refused that")
				}
				next.faults()
				time.Sleep(time.Minute)
				f.r.wants("its envelope", "a", terminated(c.reason))
				f.r.wants("without a word", "lapsed")
				f.r.wants("forged", "b")
				if left, err := f.db.Subscriptions(t.Context(), "", 10); err != nil || len(left) != 1 || left[0].ID != forged.ID {
					t.Errorf("left: %+v, %v", left, err)
				}
				f.warns("ended", "event=e subscriptions=1 reason=")
				next.hooks("nobody is asked")
			})
		})
	}
}

// EVOL-1: a type that is registered while its subscriptions are held as those of nobody has them go on.
func TestEVOL1RegisteredAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		p.subscribe("ann", origin+"a")
		p.giveAway()
		next := f.process()
		definition := next.typ.Current()
		next.typ.Unhook()
		next.faults("Owned.Subscriptions") // nothing ends meanwhile
		next.own()
		time.Sleep(while)
		next.typ.Hook()
		time.Sleep(while)
		select {
		case <-next.owning: // the shard is free for who serves it
		default:
			t.Fatal("the shard is still held as nobody's")
		}
		next.faults()
		if next.typ.Current() == definition {
			t.Fatal("the type was not registered again")
		}
		next.free()
		next.own()
		next.emit("1")
		time.Sleep(while)
		f.r.wants("it goes on", "a", "1")
		next.hooks("as restored", "restored ann")
	})
}
