package subscriber_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
)

// serve makes the process the only one, which serves the event type with its registration.
func (p *process) serve(restored func()) error {
	p.f.t.Helper()
	if p.ownership == nil {
		p.claim()
	}
	return p.Serve(p.f.t.Context(), p.ownership, p.typ, restored)
}

// SUB-11: a process that is the only one on its store takes its subscriptions up with the registration of their type.
// Until all were tried it counts as one that restores, and says when it is done.
func TestSUB11Served(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		first := f.process()
		done := 0
		if err := first.serve(func() { done++ }); err != nil || done != 1 || first.Restoring() != 0 {
			t.Fatalf("with nothing stored: %v, %d times done, %d restoring", err, done, first.Restoring())
		}
		first.subscribe("ann", origin+"a")
		first.emit("1")
		time.Sleep(while)
		first.stop()

		p := f.process()
		answered := make(chan struct{})
		p.author.set(func(a *author) {
			a.accepts = func(context.Context, eventtype.Subscription) error { <-answered; return errors.New("away") }
		})
		p.claim()
		p.faults("Owned.Mark")
		if err := p.serve(func() { t.Error("restored without its mark") }); !errors.Is(err, errStore) {
			t.Errorf("while the mark cannot be read: %v", err)
		}
		p.faults()
		var restored atomic.Int32
		restore := func() { restored.Add(1) }
		if err := p.serve(restore); err != nil {
			t.Fatal(err)
		}
		p.emit("2")
		time.Sleep(while)
		if p.Restoring() != 1 || restored.Load() != 0 {
			t.Errorf("while the hook runs: %d restoring, restored %d times", p.Restoring(), restored.Load())
		}
		if err := p.serve(restore); err != nil { // registered again meanwhile
			t.Fatal(err)
		}
		close(answered)
		synctest.Wait()
		if p.Restoring() != 0 || restored.Load() != 0 {
			t.Errorf("when all were tried: %d restoring, restored %d times", p.Restoring(), restored.Load())
		}
		p.author.set(func(a *author) { a.accepts = nil })
		time.Sleep(time.Minute)
		if err := p.serve(restore); err != nil || restored.Load() != 3 {
			t.Errorf("restored %d times, %v", restored.Load(), err)
		}
		f.r.wants("in all", "a", "1", "2")
		p.hooks("once", "restored ann")
	})
}

// EVOL-1, SRV-1: a type that is registered again as another one, such as with a check in place of its log, has its
// subscriptions go on from there; they do not end and are not asked for again at the callback.
func TestSRV1ServedFromElsewhere(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process()
		if err := p.serve(func() {}); err != nil {
			t.Fatal(err)
		}
		p.subscribe("ann", origin+"a")
		p.emit("1")
		time.Sleep(while)
		p.typ = eventtypetest.New(t, "e", eventtypetest.Options{Emits: true, Fingerprint: "1"})
		if err := p.serve(func() {}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(while)
		p.emit("2")
		time.Sleep(while)
		got := f.r.to("a")
		if n := len(got); n < 2 || got[0].what != "1" || got[n-1].what != "2" || n > 3 {
			t.Errorf("%d came", n)
		}
	})
}

// EVOL-1: the subscriptions of a type that the only process does not register end, although the store is away at first,
// unless the type is registered before.
func TestEVOL1ServedByNobody(t *testing.T) {
	for _, registered := range []bool{false, true} {
		t.Run(fmt.Sprint("registered ", registered), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				first := f.process()
				if err := first.serve(func() {}); err != nil {
					t.Fatal(err)
				}
				id := first.subscribe("ann", origin+"a").ID
				time.Sleep(while)
				first.stop()
				p := f.process()
				p.typ.Unhook()
				p.claim()
				p.faults("Owned.Subscriptions")
				p.EndOrphans(p.ownership)
				time.Sleep(while)
				if registered {
					p.typ.Hook()
				}
				p.faults()
				time.Sleep(while)
				if registered {
					if err := p.serve(func() {}); err != nil {
						t.Fatal(err)
					}
					p.emit("1")
					time.Sleep(while)
					f.r.wants("it goes on", "a", "1")
					return
				}
				f.r.wants("it ends", "a", terminated(fault.UnsupportedMode("webhook")))
				f.gone("ended", id)
			})
		})
	}
}

// CUR-7, CUR-8: where the log has begun a new epoch or an older copy of it was put back, a subscription goes on at the
// oldest entry that there is and reports the gap, by an envelope and to the next refresh; a crash in between changes
// nothing.
func TestCUR8PutBack(t *testing.T) {
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p := f.process().own()
				p.subscribe("ann", origin+"a")
				p.emit("1", "2", "3")
				time.Sleep(while)
				p.stop()
				if err := f.cluster.BeginEpoch(2); err != nil {
					t.Fatal(err)
				}
				next := f.process()
				if crash {
					next.faults("Owned.SaveProgress")
					f.r.on(func(*received) int { return 503 })
					next.own()
					time.Sleep(10 * time.Millisecond)
					next.crash()
					f.r.on(nil)
					next = f.process()
				}
				next.own()
				next.emit("4")
				time.Sleep(time.Minute)
				got := map[string]int{}
				for _, d := range f.r.to("a")[3:] {
					got[d.what]++
				}
				for _, want := range []string{"1", "4", "gap"} {
					if got[want] == 0 {
						t.Errorf("after the copy was put back: %v without %s", got, want)
					}
				}
				if res := next.subscribe("ann", origin+"a"); !res.Truncated {
					t.Error("the next refresh does not report the gap")
				}
				if res := next.subscribe("ann", origin+"a"); res.Truncated {
					t.Error("a later refresh reports it too")
				}
			})
		})
	}
}

// D7, HOOK-7: a subscription that falls behind the log's retention gets a gap envelope, and the next refresh reports
// the gap although the owner has crashed since.
func TestD7FallsBehind(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process(keeping(3)).own()
		id := p.subscribe("ann", origin+"a").ID
		if err := p.SetPaused(t.Context(), id, true); err != nil {
			t.Fatal(err)
		}
		p.emit("1", "2", "3", "4", "5", "6")
		if err := p.SetPaused(t.Context(), id, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(while)
		got := map[string]int{}
		for _, d := range f.r.to("a") {
			got[d.what]++
		}
		if got["gap"] != 1 || got["6"] != 1 || got["1"] != 0 {
			t.Errorf("it got %v", got)
		}
		p.crash()
		next := f.process(keeping(3)).own()
		time.Sleep(while)
		if res := next.subscribe("ann", origin+"a"); !res.Truncated {
			t.Error("the next refresh does not report the gap")
		}
	})
}

// SUB-6: the end of a grant is what was wished for within the bounds, and not after the caller's token.
func TestSUB6Grant(t *testing.T) {
	hour, short, long, negative := time.Hour.Milliseconds(), int64(1), int64(1)<<62, int64(-1)
	day, none := 24*time.Hour, time.Duration(0)
	for name, c := range map[string]struct {
		ms       *int64
		forever  bool
		noExpiry bool
		token    time.Duration
		want     time.Duration // 0 for no end
	}{
		"none":                      {want: time.Hour},
		"an hour":                   {ms: &hour, want: time.Hour},
		"too short":                 {ms: &short, want: time.Minute},
		"negative":                  {ms: &negative, want: time.Minute},
		"too long":                  {ms: &long, want: day},
		"no end":                    {forever: true, noExpiry: true, want: none},
		"no end where there is one": {forever: true, want: day},
		"a token that ends before":  {ms: &hour, token: 10 * time.Minute, want: 10 * time.Minute},
		"a token that ends later":   {ms: &hour, token: 2 * time.Hour, want: time.Hour},
		"no end with a token's end": {forever: true, noExpiry: true, token: time.Hour, want: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p := f.process(func(o *subscriber.Options, _ *eventtypetest.Options) { o.Terms.NoExpiry = c.noExpiry }).own()
				now := time.Now()
				res := p.subscribe("ann", origin+"a", func(q *subscriber.Request, _ *wire.SubscribeParams) {
					q.TTLMs, q.Forever = c.ms, c.forever
					if c.token > 0 {
						q.Expires = now.Add(c.token)
					}
				})
				if r, _ := f.stored(res.ID); c.want == 0 && (res.RefreshBefore != nil || !r.ExpiresAt.IsZero()) {
					t.Errorf("it ends at %v", r.ExpiresAt)
				} else if c.want > 0 && (!r.ExpiresAt.Equal(now.Add(c.want).Truncate(time.Millisecond)) || *res.RefreshBefore != r.ExpiresAt.UTC().Format(time.RFC3339Nano)) {
					t.Errorf("it ends after %v, by the answer at %s; want %v", r.ExpiresAt.Sub(now), *res.RefreshBefore, c.want)
				}
			})
		})
	}
}

// SUB-6, HOOK-5: a subscription without an end that fails for too long ends with an envelope, and is stored and left
// once.
func TestSUB6GivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process(func(o *subscriber.Options, _ *eventtypetest.Options) {
			o.Terms.NoExpiry = true
			o.Delivery.Suspend.Min, o.Delivery.Suspend.Window, o.Delivery.NoExpiryRemoval = 2, 10*time.Minute, 24*time.Hour
		}).own()
		id := p.subscribe("ann", origin+"a", func(q *subscriber.Request, _ *wire.SubscribeParams) { q.Forever = true }).ID
		f.r.on(func(d *received) int { return map[string]int{"1": 503, "2": 503}[d.what] })
		p.emit("1", "2")
		time.Sleep(2 * time.Hour)
		if r, _ := f.stored(id); !r.Health.Suspended {
			t.Fatalf("stored as %+v", r.Health)
		}
		time.Sleep(24 * time.Hour)
		all := f.r.to("a")
		if last := all[len(all)-1].what; last == "1" || last == "2" {
			t.Errorf("at last %q", last)
		}
		f.gone("given up", id)
		p.hooks("in pairs", "on ann", "off ann")
	})
}

// SUB-8, ERR-2: the quotas of all and of one principal are those of what is stored, whichever process has it. They are
// asked before the callback and the hooks are, never for a refresh, and a place is free when a subscription has ended.
func TestSUB8Quota(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		few := func(o *subscriber.Options, _ *eventtypetest.Options) {
			o.Quota = subscriber.Quota{PerPrincipal: 2, Total: 3}
		}
		owner, other := f.process(few).own(), f.process(few)
		id := owner.subscribe("ann", strange+"1").ID
		other.subscribe("ann", strange+"2")
		other.subscribe("bob", strange+"3")
		for principal, limit := range map[string]string{"ann": `"max":2`, "bob": `"max":3`, "eve": `"max":3`} {
			if _, err := owner.ask(t.Context(), principal, strange+"4"); kindOf(err) != wire.ResourceExhausted || !contains(err, limit) {
				t.Errorf("%s: %v", principal, err)
			}
		}
		owner.subscribe("ann", strange+"1")
		challenged := 0
		for _, d := range f.r.all() {
			if d.what == wire.EnvelopeVerification {
				challenged++
			}
		}
		if challenged != 3 {
			t.Errorf("%d challenges", challenged)
		}
		owner.hooks("at the owner", "on ann", "restored ann", "restored bob")
		if ok, err := other.Remove(t.Context(), id); !ok || err != nil {
			t.Fatal(ok, err)
		}
		owner.subscribe("eve", strange+"4")
		owner.subscribe("eve", strange+"4")
	})
}

// REP-13: a subscription of which it is not known whether an order has ended it does not go live: it is taken up as
// soon as that is known, and loses nothing.
func TestREP13OrdersCannotBeRead(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process(func(o *subscriber.Options, _ *eventtypetest.Options) {
			o.Cluster.Standing = func(context.Context) (subscriber.Standing, error) { return subscriber.Standing{}, errStore }
		}).own()
		res, err := p.ask(t.Context(), "ann", origin+"a")
		if err != nil {
			t.Fatal(err)
		}
		p.emit("1")
		time.Sleep(time.Minute)
		f.r.wants("while it is not known", "a")
		p.giveAway()
		f.process().own()
		time.Sleep(while)
		f.r.wants("when it is known", "a", "1")
		if _, ok := f.stored(res.ID); !ok {
			t.Error("it is not stored")
		}
	})
}
