package subscriber_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// handovers are the ways by which a shard gets another owner. next makes the process that owns it afterwards.
var handovers = map[string]func(f *deployment, old *process) (next *process){
	"given away": func(f *deployment, old *process) *process {
		old.giveAway()
		return f.process()
	},
	"its process crashes": func(f *deployment, old *process) *process {
		old.crash()
		return f.process()
	},
	"its process ends in order": func(f *deployment, old *process) *process {
		old.stop()
		return f.process()
	},
}

// SUB-11, REP-10: however a shard gets another owner, its subscriptions go on: what was settled a while ago is not sent
// again, what waits for its retry is, and nothing of what is emitted meanwhile is lost. OnSubscribe hears of each as
// restored, and OnUnsubscribe of none.
func TestSUB11TakenOver(t *testing.T) {
	for name, handover := range handovers {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				old := f.process().own()
				old.subscribe("ann", origin+"a")
				old.subscribe("bob", origin+"b")
				f.r.on(func(d *received) int {
					if d.path == "b" && d.what == "1" && d.try == 1 {
						return http.StatusServiceUnavailable
					}
					return 0
				})
				old.emit("1", "2")
				time.Sleep(while)
				next := handover(f, old)
				next.emit("3")
				next.own()
				time.Sleep(time.Minute)
				next.emit("4")
				time.Sleep(time.Minute)
				f.r.wants("one that accepts", "a", "1", "2", "3", "4")
				f.r.wants("one that has refused", "b", "1", "2", "1", "3", "4")
				old.hooks("of the old owner", "on ann", "on bob")
				next.hooks("of the next owner", "restored ann", "restored bob")
			})
		})
	}
}

// REP-10: what a process has delivered and could not store when it crashed is delivered again, and no more than that.
func TestREP10CrashRepeatsOnlyWhatIsNotStored(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		old := f.process().own()
		old.subscribe("ann", origin+"a")
		old.emit("1")
		time.Sleep(while)
		old.faults("Owned.SaveProgress", "Owned.SaveMark")
		old.emit("2")
		time.Sleep(while)
		old.crash()
		f.process().own()
		time.Sleep(while)
		f.r.wants("after a crash", "a", "1", "2", "2")
	})
}

// REP-7: an owner whose writes are refused, since another process owns the shard, sends nothing any more and ends
// nothing.
func TestREP7Fenced(t *testing.T) {
	for name, do := range map[string]func(f *deployment, old *process, id string){
		"it delivers": func(_ *deployment, old *process, _ string) { old.emit("1") },
		"it ends one": func(_ *deployment, old *process, id string) { old.End(old.Get(id), events.Forbidden("no more")) },
		"one expires": func(f *deployment, _ *process, id string) {
			f.locked(func() { f.unheard = true })
			f.change(id, func(r *store.Subscription) { r.ExpiresAt = r.ExpiresAt.Add(24 * time.Hour) })
			time.Sleep(2 * time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				old := f.process().own()
				id := old.subscribe("ann", origin+"a", lasting(time.Hour)).ID
				time.Sleep(while)
				old.lose()
				next := f.process().own()
				do(f, old, id)
				time.Sleep(while)
				next.emit("2")
				time.Sleep(while)
				if _, ok := f.stored(id); !ok {
					t.Fatal("the record is gone")
				}
				ids := map[string]int{}
				for _, d := range f.r.to("a") {
					ids[d.what]++
				}
				if ids["2"] == 0 || len(ids) > 2 || ids["1"] == 0 && len(ids) > 1 {
					t.Errorf("delivered %v", ids)
				}
				old.hooks("of the old owner", "on ann")
				next.hooks("of the next owner", "restored ann")
				next.emit("3")
				time.Sleep(while)
				if n := count(f.r, "a", "3"); n != 1 {
					t.Errorf("an event after that was delivered %d times", n)
				}
			})
		})
	}
}

// count is how often an event came to a callback.
func count(r *receiver, path, id string) (n int) {
	for _, d := range r.to(path) {
		if d.what == id {
			n++
		}
	}
	return n
}

// SUB-11, REP-17: a hook that refuses a subscription that is taken up ends it with its reason; one that fails or panics
// is asked again until it answers, and nothing is lost meanwhile; one that is slow holds up nobody else.
func TestSUB11HooksAtTakeUp(t *testing.T) {
	refusal := events.Forbidden("moved out")
	for name, c := range map[string]struct {
		accepts func(ctx context.Context, tries int) error
		refuses *events.Error // of Authorize
		want    []string
		ends    bool
		fails   bool // a refresh meanwhile fails, too
	}{
		"OnSubscribe refuses":       {accepts: func(context.Context, int) error { return refusal }, want: []string{terminated(refusal)}, ends: true},
		"Authorize refuses":         {refuses: refusal, want: []string{terminated(refusal)}, ends: true},
		"OnSubscribe fails":         {accepts: func(_ context.Context, n int) error { return failUntil(n, errors.New("away")) }, want: []string{"1", "2"}, fails: true},
		"OnSubscribe panics":        {accepts: func(_ context.Context, n int) error { return panicUntil(n) }, want: []string{"1", "2"}},
		"OnSubscribe is slow":       {accepts: func(context.Context, int) error { time.Sleep(30 * time.Second); return nil }, want: []string{"1", "2"}},
		"an internal error of ours": {accepts: func(_ context.Context, n int) error { return failUntil(n, events.NewError(events.KindInternal, nil)) }, want: []string{"1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				old := f.process().own()
				id := old.subscribe("bob", origin+"b").ID
				old.subscribe("ann", origin+"a")
				time.Sleep(while)
				old.giveAway()
				old.emit("1")
				next := f.process()
				tries := 0
				hooked(func(ctx context.Context) error {
					if c.accepts == nil {
						return nil
					}
					tries++
					return c.accepts(ctx, tries)
				})(f, next)
				next.author.set(func(a *author) {
					a.refuses = func(principal string) *events.Error {
						if principal == "bob" {
							return c.refuses
						}
						return nil
					}
				})
				next.own()
				if c.fails {
					if _, err := next.ask(t.Context(), "bob", origin+"b"); err == nil {
						t.Error("a refresh gets around the hook")
					}
					f.r.wants("after the refresh", "b")
				}
				time.Sleep(while)
				f.r.wants("another one is not held up", "a", "1")
				next.emit("2")
				time.Sleep(time.Minute)
				f.r.wants("in all", "b", c.want...)
				f.r.wants("another one", "a", "1", "2")
				if _, ok := f.stored(id); ok == c.ends {
					t.Errorf("stored: %v", ok)
				}
				want := []string{"restored ann"}
				if !c.ends {
					want = append(want, "restored bob")
				}
				next.hooks("of the next owner", want...)
			})
		})
	}
}

// failUntil fails for the first tries.
func failUntil(n int, err error) error {
	if n < 4 {
		return err
	}
	return nil
}

func panicUntil(n int) error {
	if n < 4 {
		panic("oops")
	}
	return nil
}

// SUB-11: what is over when a shard is taken up does not come back: one whose time is over ends without a word, one
// that an order has ended with its reason.
func TestSUB11WhatIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		revoked := events.Forbidden("access revoked")
		old := f.process().own()
		lapsed := old.subscribe("ann", origin+"lapsed", lasting(time.Hour)).ID
		ordered := old.subscribe("bob", origin+"ordered", lasting(10*time.Hour)).ID
		old.subscribe("eve", origin+"stays", lasting(10*time.Hour))
		time.Sleep(while)
		old.stop()
		time.Sleep(2 * time.Hour)
		f.revoke("bob")
		next := f.process()
		next.emit("1")
		next.own()
		time.Sleep(while)
		f.r.wants("lapsed", "lapsed")
		f.r.wants("ordered", "ordered", terminated(revoked))
		f.r.wants("the third", "stays", "1")
		f.gone("lapsed", lapsed)
		f.gone("ordered", ordered)
		next.hooks("only of what goes on", "restored eve")
	})
}

// SUB-11, REP-10: more subscriptions than are read or taken up at once all go on, and a store that fails meanwhile
// costs no more than time.
func TestSUB11ManyAndAStoreThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		const n = 600 // more than a page
		old := f.process().own()
		id := old.subscribe("ann", origin+"0").ID
		r, _ := f.stored(id)
		for i := 1; i < n; i++ {
			path := fmt.Sprint(i)
			f.add(r, path)
		}
		time.Sleep(while)
		old.stop()
		next := f.process()
		next.faults("Owned.Subscriptions")
		next.own()
		time.Sleep(while)
		next.faults("Owned.Mark")
		time.Sleep(5 * time.Second)
		next.emit("1")
		next.faults()
		time.Sleep(time.Minute)
		for i := range n {
			f.r.wants("in all", fmt.Sprint(i), "1")
			if t.Failed() {
				break
			}
		}
		if got := next.Settled("e"); got != 1 {
			t.Errorf("%d shards are settled", got)
		}
	})
}

// lastPath is a callback of the principal whose subscription is taken up after those of others.
func lastPath(principal string) (path string) {
	last := ""
	for i := range 200 {
		p := fmt.Sprint("b", i)
		if id := wire.SubscriptionID(wire.ModeWebhook, principal, origin+p, "e", []byte(`{}`)); id > last {
			path, last = p, id
		}
	}
	return path
}

// SUB-11, REP-11: a request for a subscription that is still to be taken up is answered as if it were: it is taken up
// first.
func TestSUB11RequestsWhileItIsTakenUp(t *testing.T) {
	for name, do := range map[string]func(t *testing.T, f *deployment, p *process, path, id string) (want []string){
		"a refresh": func(t *testing.T, _ *deployment, p *process, path, id string) []string {
			if res := p.subscribe("bob", origin+path); res.ID != id || res.DeliveryStatus == nil {
				t.Errorf("%+v", res)
			}
			return []string{"1", "2"}
		},
		"an unsubscribe": func(t *testing.T, f *deployment, p *process, _, id string) []string {
			if ok, err := p.Remove(t.Context(), id); !ok || err != nil {
				t.Errorf("%v, %v", ok, err)
			}
			f.gone("unsubscribed", id)
			return nil
		},
		"a refresh and an unsubscribe": func(t *testing.T, f *deployment, p *process, path, id string) []string {
			p.subscribe("bob", origin+path)
			if ok, err := p.Remove(t.Context(), id); !ok || err != nil {
				t.Errorf("%v, %v", ok, err)
			}
			return nil
		},
		"an operator": func(t *testing.T, _ *deployment, p *process, _, id string) []string {
			if err := p.perform(t.Context(), id, store.RequestResume, store.Request{}); err != nil {
				t.Error(err)
			}
			return []string{"1", "2"}
		},
		"a revocation": func(_ *testing.T, f *deployment, p *process, _, _ string) []string {
			p.NoteRevoked(subscriber.Revocation{Principal: "bob", At: f.request()})
			return []string{terminated(fault.Revoked())}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				old := f.process().own()
				for i := range 9 { // more than are taken up at once
					old.subscribe("ann", origin+fmt.Sprint("a", i))
				}
				path := lastPath("bob")
				id := old.subscribe("bob", origin+path).ID
				time.Sleep(while)
				old.stop()
				next := f.process()
				wait := make(chan struct{})
				next.author.set(func(a *author) {
					a.accepts = func(_ context.Context, sub eventtype.Subscription) error {
						if sub.Principal == "ann" {
							<-wait
						}
						return nil
					}
				})
				next.own()
				next.hooks("they wait")
				want := do(t, f, next, path, id)
				next.emit("1")
				close(wait)
				time.Sleep(while)
				next.emit("2")
				time.Sleep(while)
				f.r.wants("in all", path, want...)
				f.r.wants("another one", "a0", "1", "2")
			})
		})
	}
}

// REP-10: what is under way when a shard is given away is concluded and not repeated, although its record is changed at
// that moment.
func TestREP10ConcludedWhileItIsGivenAway(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		old := f.process().own()
		id := old.subscribe("ann", origin+"a").ID
		f.r.on(func(*received) int { time.Sleep(while); return 0 })
		old.emit("1")
		time.AfterFunc(time.Second, func() {
			f.change(id, func(r *store.Subscription) { r.Truncated = true })
			old.Changed(id, old.ownership.hold.Shard)
		})
		old.giveAway()
		f.r.on(nil)
		f.process().own().emit("2")
		time.Sleep(time.Minute)
		f.r.wants("in all", "a", "1", "2")
	})
}

// REP-11: when deliveries may begin is stored with a subscription: who delivers after a crash waits for that, too, and
// a clock that was wrong then holds nothing up for long.
func TestREP11NotBefore(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		p.emit("1")
		first := p.subscribe("bob", origin+"b")
		p.emit("2")
		began := time.Now()
		res, err := p.ask(t.Context(), "ann", origin+"a", from(first.Cursor))
		if err != nil {
			t.Fatal(err)
		}
		if r, _ := f.stored(res.ID); !r.NotBefore.Equal(began.Add(subscriber.ReplyTime)) {
			t.Errorf("stored: %v, want %v", r.NotBefore, began.Add(subscriber.ReplyTime))
		}
		p.crash()
		next := f.process().own()
		time.Sleep(time.Until(began.Add(subscriber.ReplyTime)) - time.Millisecond)
		f.r.wants("too early", "a")
		time.Sleep(time.Millisecond)
		f.r.wants("in time", "a", "2")
		time.Sleep(while)
		next.crash()
		f.change(res.ID, func(r *store.Subscription) { r.NotBefore = time.Now().Add(24 * time.Hour) })
		f.process().own().emit("3")
		time.Sleep(time.Minute)
		f.r.wants("after a wrong time", "a", "2", "3")
	})
}

// SUB-11, REP-10: hooks that do not answer hold up only their own subscriptions, even more of them than are taken up at
// once: the others go on and the mark moves. Those go on when the hooks answer, and miss nothing.
func TestSUB11HooksThatHang(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		const n = 9
		old := f.process().own()
		for i := range n {
			old.subscribe(fmt.Sprint("ann", i), origin+fmt.Sprint("a", i))
		}
		old.subscribe("bob", origin+"b")
		time.Sleep(while)
		old.stop()
		next := f.process()
		answer := make(chan struct{})
		next.author.set(func(a *author) {
			a.accepts = func(_ context.Context, sub eventtype.Subscription) error {
				if sub.Principal != "bob" {
					<-answer // whatever its context says
				}
				return nil
			}
		})
		next.own()
		next.emit("1")
		time.Sleep(time.Minute)
		f.r.wants("while they hang", "b", "1")
		f.r.wants("while it hangs", "a0")
		if next.GapOfType(next.typ, f.request()) != 1 {
			t.Error("one is live")
		}
		if mark, err := f.db.Owned(next.ownership.ShardFence()).Mark(t.Context(), "e"); err != nil || mark != 1 {
			t.Errorf("the mark is at %d, %v", mark, err)
		}
		close(answer)
		time.Sleep(2 * time.Minute)
		next.emit("2")
		time.Sleep(while)
		for i := range n {
			f.r.wants("when they have answered", fmt.Sprint("a", i), "gap", "1", "2")
		}
		f.r.wants("the other", "b", "1", "gap", "2")
	})
}
