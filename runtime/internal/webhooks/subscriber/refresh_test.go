package subscriber_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// places are the processes that may be asked for what is live at the owner.
var places = map[string]func(owner, other *process) *process{
	"at the owner": func(owner, _ *process) *process { return owner },
	"at another":   func(_, other *process) *process { return other },
}

// SUB-5: a refresh with the same secret or another one prolongs the subscription in place, wherever it is asked for. A
// replaced secret signs for a while, too, and what was not settled goes on under the new one.
func TestSUB5Refresh(t *testing.T) {
	for name, at := range places {
		for _, secret := range []string{secretA, secretB} {
			t.Run(name+" with "+secret[:7], func(t *testing.T) {
				bubble(t, func(t *testing.T, f *deployment) {
					owner, other := f.process().own(), f.process()
					first := owner.subscribe("ann", origin+"a", lasting(time.Hour))
					f.r.on(func(d *received) int {
						if d.what == "late" && d.try == 1 {
							return http.StatusServiceUnavailable
						}
						return 0
					})
					owner.emit("late")
					time.Sleep(while)
					before, _ := f.stored(first.ID)
					res := at(owner, other).subscribe("ann", origin+"a", withSecret(secret), lasting(10*time.Hour))
					after, ok := f.stored(first.ID)
					if res.ID != first.ID || !ok || after.Generation != before.Generation || !after.ExpiresAt.After(before.ExpiresAt.Add(8*time.Hour)) {
						t.Errorf("%+v, stored as %+v", res, after)
					}
					if res.DeliveryStatus == nil || !res.DeliveryStatus.Active {
						t.Errorf("deliveryStatus %+v", res.DeliveryStatus)
					}
					time.Sleep(time.Minute)
					f.r.wants("the retry", "a", "late", "late")
					got := f.r.to("a")
					if !got[1].signedBy(secret) || !got[1].signedBy(secretA) {
						t.Error("within the grace not both secrets sign")
					}
					time.Sleep(2 * time.Hour)
					owner.emit("2")
					time.Sleep(while)
					f.r.wants("after the first end", "a", "late", "late", "2")
					got = f.r.to("a")
					if !got[2].signedBy(secret) || got[2].signedBy(secretA) != (secret == secretA) {
						t.Error("after the grace the wrong secret signs")
					}
					owner.hooks("a refresh asks nobody", "on ann")
					other.hooks("a refresh asks nobody")
				})
			})
		}
	}
}

// SUB-5, ERR-2: a refresh that is refused or fails leaves the subscription as it was: its secret, its end and its
// deliveries.
func TestSUB5RefusedRefresh(t *testing.T) {
	for name, c := range map[string]struct {
		before func(f *deployment, p *process)
		kind   events.Kind
	}{
		"the callback is not verified any more and refuses the challenge": {func(f *deployment, _ *process) {
			f.r.on(func(d *received) int {
				return map[string]int{wire.EnvelopeVerification: http.StatusTeapot}[d.what]
			})
		}, wire.CallbackEndpointError},
		"the record cannot be read":   {faulty("Subscription"), 0},
		"the record cannot be stored": {faulty("PutSubscription"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p := f.process().own()
				id := p.subscribe("ann", strange+"a", lasting(time.Hour)).ID
				before, _ := f.stored(id)
				if err := f.db.DeleteVerification(t.Context(), "ann", strange+"a"); err != nil {
					t.Fatal(err)
				}
				c.before(f, p)
				res, err := p.ask(t.Context(), "ann", strange+"a", withSecret(secretB), lasting(10*time.Hour))
				p.faults()
				if c.kind == 0 && err == nil || kindOf(err) != c.kind {
					t.Errorf("%+v, %v", res, err)
				}
				if after, _ := f.stored(id); !after.ExpiresAt.Equal(before.ExpiresAt) || len(after.Secrets) != 1 {
					t.Errorf("stored as %+v", after)
				}
				f.r.on(nil)
				p.emit("1")
				time.Sleep(while)
				f.r.wants("it goes on", "a", "1")
				if got := f.r.to("a"); len(got) > 0 && !got[0].signedBy(secretA) {
					t.Error("the refused secret signs")
				}
			})
		})
	}
}

// HOOK-5, HOOK-8: a refresh finds out what the deliveries have come to, wherever it is asked for, and revives a
// suspended subscription: what it has missed is delivered.
func TestHOOK5RefreshRevives(t *testing.T) {
	suspends := func(o *subscriber.Options, _ *eventtypetest.Options) {
		o.Delivery.Suspend.Min, o.Delivery.Suspend.Window = 3, 10*time.Minute
	}
	for name, at := range places {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner, other := f.process(suspends).own(), f.process(suspends)
				id := owner.subscribe("ann", origin+"a", lasting(24*time.Hour)).ID
				f.r.on(func(*received) int { return http.StatusServiceUnavailable })
				for _, event := range []string{"1", "2", "3", "4"} {
					owner.emit(event)
					time.Sleep(5 * time.Minute)
				}
				time.Sleep(time.Hour)
				if r, _ := f.stored(id); !r.Health.Suspended {
					t.Fatalf("it is not suspended: %+v", r.Health)
				}
				f.r.on(nil)
				seen := len(f.r.to("a"))
				time.Sleep(time.Hour)
				if n := len(f.r.to("a")); n != seen {
					t.Errorf("%d attempts while it is suspended", n-seen)
				}
				res := at(owner, other).subscribe("ann", origin+"a", lasting(24*time.Hour))
				if d := res.DeliveryStatus; d == nil || d.Active || d.LastError == nil || *d.LastError != wire.HTTP5xx || d.FailedSince == nil {
					t.Errorf("deliveryStatus %+v", d)
				}
				time.Sleep(time.Minute)
				owner.emit("5")
				time.Sleep(while)
				got := f.r.to("a")[seen:]
				if len(got) == 0 || got[len(got)-1].what != "5" {
					t.Errorf("after the refresh %d came", len(got))
				}
				res = at(owner, other).subscribe("ann", origin+"a", lasting(24*time.Hour))
				if d := res.DeliveryStatus; d == nil || !d.Active || d.LastDeliveryAt == nil {
					t.Errorf("later deliveryStatus %+v", d)
				}
			})
		})
	}
}

// SUB-7, HOOK-6: the cursor of a refresh never passes an event that is not settled, wherever it is asked for: who
// subscribes from it under another key loses nothing.
func TestSUB7CursorOfARefresh(t *testing.T) {
	for name, at := range places {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner, other := f.process().own(), f.process()
				owner.subscribe("ann", origin+"a")
				f.r.on(func(d *received) int {
					return map[string]int{"2": http.StatusServiceUnavailable}[d.what]
				})
				owner.emit("1", "2", "3")
				time.Sleep(while)
				res := at(owner, other).subscribe("ann", origin+"a")
				f.r.on(nil)
				owner.subscribe("bob", origin+"b", from(res.Cursor))
				time.Sleep(while)
				f.r.wants("from the cursor", "b", "2", "3")
				time.Sleep(time.Hour / 2)
				f.r.wants("from the cursor", "b", "2", "3")
				res = at(owner, other).subscribe("ann", origin+"a")
				owner.subscribe("eve", origin+"c", from(res.Cursor))
				time.Sleep(while)
				f.r.wants("when all is settled", "c")
			})
		})
	}
}

// SUB-5, SRV-3: a subscription that was not refreshed in time gets nothing any more, is not stored and is left once;
// one that was refreshed at another process goes on, although its owner has not heard of that.
func TestSUB5Expiry(t *testing.T) {
	for name, c := range map[string]struct {
		before func(f *deployment, owner, other *process)
		goesOn bool
	}{
		"it was not refreshed": {func(*deployment, *process, *process) {}, false},
		"it was refreshed and nobody has heard": {func(f *deployment, _, other *process) {
			f.locked(func() { f.unheard = true })
			other.subscribe("ann", origin+"a", lasting(10*time.Hour))
		}, true},
		"the store is away": {func(f *deployment, owner, _ *process) {
			owner.faults("Subscription", "Owned", "PutSubscription", "DeleteSubscription")
			time.AfterFunc(90*time.Minute, func() { owner.faults() })
		}, false},
		"it is paused": {func(f *deployment, owner, other *process) {
			r, _ := f.db.Subscriptions(f.t.Context(), "", 1)
			if err := owner.SetPaused(f.t.Context(), r[0].ID, true); err != nil {
				f.t.Fatal(err)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner, other := f.process().own(), f.process()
				id := owner.subscribe("ann", origin+"a", lasting(time.Hour)).ID
				f.r.on(func(d *received) int {
					return map[string]int{"refused": http.StatusServiceUnavailable}[d.what]
				})
				time.Sleep(50 * time.Minute)
				c.before(f, owner, other)
				time.Sleep(11 * time.Minute) // a minute after its end
				owner.emit("2")
				time.Sleep(while)
				var want []string
				if c.goesOn {
					want = []string{"2"}
				}
				f.r.wants("after its end", "a", want...)
				time.Sleep(2 * time.Hour)
				if _, ok := f.stored(id); ok != c.goesOn {
					t.Errorf("stored: %v", ok)
				}
				if c.goesOn {
					owner.hooks("it goes on", "on ann")
					return
				}
				owner.hooks("it has ended", "on ann", "off ann")
				owner.subscribe("ann", origin+"a", from(new(string)))
				owner.emit("3")
				time.Sleep(while)
				f.r.wants("subscribed again", "a", "3")
			})
		})
	}
}

// SUB-5: an owner that is about to delete a record whose time is over looks again if another process has just changed it:
// a refreshed subscription goes on, and one that others keep changing without a refresh ends all the same.
func TestSUB5ChangedAtTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		times  int // that the record is changed just before the owner writes it
		change func(r *store.Subscription)
		goesOn bool
	}{
		"refreshed": {1, func(r *store.Subscription) {
			r.RefreshedAt, r.ExpiresAt = time.Now(), time.Now().Add(10*time.Hour)
		}, true},
		"changed":       {1, func(r *store.Subscription) { r.Truncated = true }, false},
		"changed often": {100, func(r *store.Subscription) { r.Truncated = !r.Truncated }, false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner := f.process().own()
				id := owner.subscribe("ann", origin+"a", lasting(61*time.Minute)).ID // an owner compares every other minute
				r, _ := f.stored(id)
				time.Sleep(time.Until(r.ExpiresAt) - time.Second)
				left := tt.times
				owner.inject([]string{"Owned.PutSubscription"}, func() error {
					if left > 0 {
						left--
						f.change(id, tt.change)
					}
					return nil
				})
				time.Sleep(while)
				owner.emit("1")
				time.Sleep(while)
				if tt.goesOn {
					f.r.wants("refreshed", "a", "1")
					owner.hooks("refreshed", "on ann")
					return
				}
				f.r.wants("over", "a")
				f.gone("over", id)
				owner.hooks("over", "on ann", "off ann")
			})
		})
	}
}

// SUB-5, SUB-6, trap 6: up to its very end a subscription is refreshed in place; from then on a subscribe begins
// another one, which gets what the request's cursor says, and hooks hear of both.
func TestSUB5SubscribeAtTheEnd(t *testing.T) {
	for name, at := range places {
		for _, after := range []time.Duration{-1, 0, 1, time.Hour} {
			t.Run(fmt.Sprint(name, " ", after, " after it"), func(t *testing.T) {
				bubble(t, func(t *testing.T, f *deployment) {
					owner, other := f.process().own(), f.process()
					first := owner.subscribe("ann", origin+"a", lasting(time.Hour))
					before, _ := f.stored(first.ID)
					owner.emit("1")
					time.Sleep(time.Until(before.ExpiresAt) + after)
					res := at(owner, other).subscribe("ann", origin+"a", from(first.Cursor))
					now, ok := f.stored(first.ID)
					live := after < 0
					if res.ID != first.ID || !ok || (now.Generation == before.Generation) != live || (res.DeliveryStatus != nil) != live || !now.ExpiresAt.After(time.Now()) {
						t.Errorf("%+v, stored as %+v", res, now)
					}
					time.Sleep(while)
					want := []string{"1"}
					if !live { // its cursor is before the first event
						want = []string{"1", "1"}
					}
					f.r.wants("in all", "a", want...)
					again := owner.subscribe("ann", origin+"a")
					if *again.Cursor == *first.Cursor {
						t.Error("the cursor of a refresh stays where it was (CUR-4)")
					}
				})
			})
		}
	}
}

// Trap 6, SUB-5: an expiry of which the engine reports late, since a refresh is under way that comes too late, does not
// end the subscription that this begins.
func TestTrap6LateExpiry(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		first := p.subscribe("ann", strange+"a", lasting(time.Minute))
		if err := f.db.DeleteVerification(t.Context(), "ann", strange+"a"); err != nil {
			t.Fatal(err)
		}
		f.r.on(func(d *received) int {
			if d.what == wire.EnvelopeVerification {
				time.Sleep(2 * time.Second)
			}
			return 0
		})
		before, _ := f.stored(first.ID)
		time.Sleep(time.Until(before.ExpiresAt) - time.Second)
		if res := p.subscribe("ann", strange+"a", lasting(time.Minute)); res.ID != first.ID || res.DeliveryStatus != nil {
			t.Errorf("not another one: %+v", res)
		}
		f.r.on(nil)
		time.Sleep(while)
		p.emit("1")
		time.Sleep(while)
		f.r.wants("of the new one", "a", "1")
		p.hooks("in pairs", "on ann", "off ann", "on ann")
		if h := p.Get(first.ID); h == nil || !h.Handle.Status().Active {
			t.Error("the new one is not active")
		}
	})
}

// SUB-5: a subscribe that finds a record whose time is over, although it is live, begins another subscription in its
// place, and no delivery of the one before goes on.
func TestSUB5FoundLapsed(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		first := p.subscribe("ann", origin+"a")
		f.r.on(func(d *received) int {
			return map[string]int{"1": http.StatusServiceUnavailable}[d.what]
		})
		p.emit("1")
		time.Sleep(while)
		f.change(first.ID, func(r *store.Subscription) { r.ExpiresAt = time.Now() })
		p.subscribe("ann", origin+"a")
		p.emit("2")
		time.Sleep(time.Minute)
		f.r.wants("in all", "a", "1", "2")
		if n := p.Delivering(); n != 1 {
			t.Errorf("%d are delivered to", n)
		}
		p.hooks("in pairs", "on ann", "off ann", "on ann")
	})
}

// HOOK-5, SUB-11: a refresh of a suspended subscription that has no owner at the time revives it at the next one. ERR-1:
// it is told of the server's own proxy as of a refused connection.
func TestHOOK5RefreshedWithoutAnOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner := f.process().own()
		id := owner.subscribe("ann", origin+"a").ID
		owner.crash()
		r, _ := f.stored(id)
		r.Health.Suspended, r.Health.SuspendedAfter, r.Health.LastError, r.Health.FailedSince = true, r.RefreshedAt, string(wire.Proxy), time.Now()
		if err := f.db.SaveProgress(t.Context(), []store.Update{{ID: id, Generation: r.Generation, Progress: r.Progress, Health: r.Health}}); err != nil {
			t.Fatal(err)
		}
		other := f.process()
		other.emit("1")
		time.Sleep(while)
		if res := other.subscribe("ann", origin+"a"); res.DeliveryStatus == nil || res.DeliveryStatus.Active || *res.DeliveryStatus.LastError != wire.ConnectionRefused {
			t.Errorf("deliveryStatus %+v", res.DeliveryStatus)
		}
		other.own()
		time.Sleep(while)
		f.r.wants("at the next owner", "a", "1")
	})
}
