package subscriber_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// ahead returns a lead for withClock. The test may change it.
func ahead(d time.Duration) *atomic.Int64 {
	lead := new(atomic.Int64)
	lead.Store(int64(d))
	return lead
}

// withClock adds the current lead to what a process takes for the store's time.
func withClock(lead *atomic.Int64) setting {
	return func(o *subscriber.Options, _ *eventtypetest.Options) {
		o.Cluster.Now = func() time.Time { return time.Now().Add(time.Duration(lead.Load())) }
	}
}

const secretC = "whsec_CCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCCA="

// SUB-5, REP-13: the last of several rotations applies, although the process that took an earlier one has a clock ahead,
// or the clock of the one process was set back in between.
func TestSUB5LastRotation(t *testing.T) {
	for name, ask := range map[string]func(f *deployment, owner *process, subscribe func(p *process, secret string)){
		"apart": func(f *deployment, owner *process, subscribe func(*process, string)) {
			subscribe(f.process(withClock(ahead(20*time.Second))), secretB)
			subscribe(f.process(withClock(ahead(0))), secretC)
		},
		"set back": func(f *deployment, owner *process, subscribe func(*process, string)) {
			lead := ahead(0)
			p := f.process(withClock(lead))
			subscribe(p, secretB)
			lead.Store(int64(-time.Minute))
			subscribe(p, secretC)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner := f.process().own()
				owner.subscribe("ann", origin+"a")
				ask(f, owner, func(p *process, secret string) {
					if _, err := p.ask(t.Context(), "ann", origin+"a", withSecret(secret)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(100 * time.Millisecond)
				})
				owner.emit("1")
				time.Sleep(while)
				f.r.wants("after the rotations", "a", "1")
				for _, d := range f.r.to("a") {
					if !d.signedBy(secretC) {
						t.Error("the last secret does not sign")
					}
				}
			})
		})
	}
}

// HOOK-5, SUB-11: a refresh revives a suspended subscription at the next owner, although the clock of the owner that
// suspended it was ahead and its last write came after the refresh.
func TestHOOK5RevivedByAClockBehind(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner := f.process(withClock(ahead(time.Minute)), func(o *subscriber.Options, _ *eventtypetest.Options) {
			o.Delivery.Suspend = delivery.Suspension{Window: time.Hour, Min: 3, Rate: 0.5, Span: -1}
		}).own()
		f.r.on(func(*received) int { return 500 })
		id := owner.subscribe("ann", origin+"a").ID
		f.locked(func() { f.unheard = true })
		owner.emit("1", "2", "3")
		time.Sleep(while)
		if r, _ := f.stored(id); !r.Health.Suspended {
			t.Fatalf("%+v is not suspended", r.Health)
		}
		other := f.process()
		other.subscribe("ann", origin+"a")
		owner.crash()
		f.r.on(nil)
		before := len(f.r.to("a"))
		other.own()
		time.Sleep(while)
		if n := len(f.r.to("a")) - before; n != 3 {
			t.Errorf("%d deliveries at the next owner, want 3", n)
		}
	})
}

// AUTH-2, REP-13: the next owner applies a revocation and a gap to the subscriptions that were admitted before, and not
// to those admitted later, although it has heard of neither.
func TestREP13RequestsOverAnAdmission(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		other := f.process()
		f.request()
		other.subscribe("ann", origin+"before")
		other.subscribe("bob", origin+"told")
		f.revoke("ann")
		other.subscribe("ann", origin+"between")
		at := f.request()
		f.locked(func() { f.standing.Gaps = map[string]store.ControlPosition{"e": at} })
		other.subscribe("bob", origin+"after")
		f.process().own()
		time.Sleep(while)
		f.r.wants("revoked", "before", terminated(fault.Revoked()))
		f.r.wants("admitted after the revocation", "between", "gap")
		f.r.wants("admitted before the gap", "told", "gap")
		f.r.wants("admitted after the gap", "after")
	})
}

// HOOK-7, REP-13: a gap covers the subscriptions that the owner does not know yet, and those that it is about to start,
// and not those that were admitted after it and are live before the owner hears of it.
func TestREP13GapAroundAnAdmission(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, other := f.process().own(), f.process()
		raise := func() { owner.GapOfType(owner.typ, f.request()) }
		f.locked(func() { f.unheard = true })
		other.subscribe("ann", origin+"unknown")
		raise()
		f.locked(func() { f.unheard = false })
		if err := owner.Compare(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(while)
		f.r.wants("admitted before the gap was raised", "unknown", "gap")

		owner.author.set(func(a *author) {
			a.accepts = func(context.Context, eventtype.Subscription) error { raise(); return nil }
		})
		owner.subscribe("bob", origin+"starts")
		owner.author.set(func(a *author) { a.accepts = nil })
		time.Sleep(while)
		f.r.wants("admitted while the gap was raised", "starts", "gap")

		at := f.request()
		owner.subscribe("eve", origin+"after")
		if n := owner.GapOfType(owner.typ, at); n != 2 {
			t.Errorf("%d are told", n)
		}
		time.Sleep(while)
		f.r.wants("admitted after the gap was raised", "after")
		f.r.wants("admitted before", "starts", "gap", "gap")
	})
}

// AUTH-2, REP-13: the latest of several revocations applies to what becomes live later, in whichever order a process
// hears of them.
func TestREP13RevokedRepeatedly(t *testing.T) {
	for name, heard := range map[string][]int{"in order": {0, 1}, "out of order": {1, 0}, "repeated": {0, 1, 0, 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				other, next := f.process(), f.process()
				first := f.request()
				other.subscribe("ann", origin+"a")
				all := []store.ControlPosition{first, f.request()}
				other.subscribe("ann", origin+"b")
				for _, i := range heard {
					next.NoteRevoked(subscriber.Revocation{Principal: "ann", At: all[i]})
				}
				next.own()
				next.emit("1")
				time.Sleep(while)
				f.r.wants("before the second", "a", terminated(fault.Revoked()))
				f.r.wants("after both", "b", "1")
			})
		})
	}
}

// AUTH-2, REP-13: a revocation ends at the next owner what the principal has of the named types, and nothing of others,
// whatever other revocations there are.
func TestREP13RevokedTypes(t *testing.T) {
	for _, tt := range []struct {
		name          string
		before, after [][]string // the types of each revocation, before and after the subscription to e is admitted
		ends          bool
	}{
		{"all types", nil, [][]string{nil}, true},
		{"its type", nil, [][]string{{"f", "e"}}, true},
		{"another type", nil, [][]string{{"f"}}, false},
		{"another type, then its type", nil, [][]string{{"f"}, {"e"}}, true},
		{"its type, then another type", nil, [][]string{{"e"}, {"f"}}, true},
		{"its type before, and another type after", [][]string{{"e"}}, [][]string{{"f"}}, false},
		{"all types before, and another type after", [][]string{nil}, [][]string{{"f"}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				other := f.process()
				for _, names := range tt.before {
					f.revoke("ann", names...)
				}
				other.subscribe("ann", origin+"a")
				for _, names := range tt.after {
					f.revoke("ann", names...)
				}
				next := f.process().own()
				next.emit("1")
				time.Sleep(while)
				f.r.wants("at the next owner", "a", map[bool]string{false: "1", true: terminated(fault.Revoked())}[tt.ends])
			})
		})
	}
}

// SUB-1, REP-11: deliveries wait for the response of a process whose clock is ahead no longer than for another's.
func TestSUB1HeldByAClockAhead(t *testing.T) {
	const lead = 20 * time.Second
	for name, delivers := range map[string]func(f *deployment) (owner, other *process){
		"refreshed": func(f *deployment) (owner, other *process) {
			owner = f.process().own()
			owner.subscribe("ann", origin+"a")
			return owner, f.process(withClock(ahead(lead)))
		},
		"created": func(f *deployment) (owner, other *process) {
			return f.process().own(), f.process(withClock(ahead(lead)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner, other := delivers(f)
				other.subscribe("ann", origin+"a")
				owner.emit("1")
				time.Sleep(while)
				f.r.wants("in time", "a", "1")
			})
		})
	}
}
