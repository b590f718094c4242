package subscriber_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// withCheck gives the type a check in place of its log.
func withCheck(_ *subscriber.Options, e *eventtypetest.Options) { e.Emits, e.Checks = false, true }

// keeping has the log keep so many entries.
func keeping(n int) setting {
	return func(_ *subscriber.Options, e *eventtypetest.Options) { e.Kept = topic.Kept{MaxCount: n} }
}

// HOOK-7, AUTH-2: whoever ends a subscription, it gets its envelope and nothing after it, retries included; it is
// stored no more, unless the store is away, and OnUnsubscribe hears of it once.
func TestHOOK7Ended(t *testing.T) {
	reason := events.Forbidden("no more")
	for name, end := range map[string]func(p *process, id string){
		"by an operator": func(p *process, id string) { p.End(p.Get(id), reason) },
		"twice": func(p *process, id string) {
			h := p.Get(id)
			p.End(h, reason)
			p.End(h, events.Forbidden("another reason"))
		},
		"while the store takes its time": func(p *process, id string) {
			p.slow(while, "Owned.DeleteSubscription")
			go p.End(p.Get(id), reason)
			time.Sleep(time.Second)
		},
		"by Authorize when it is asked again": func(p *process, id string) {
			p.author.set(func(a *author) { a.refuses = func(string) *events.Error { return reason } })
			p.Recheck(context.Background(), p.Get(id))
		},
		"by Authorize when it is asked now and then": func(p *process, _ string) {
			p.author.set(func(a *author) { a.refuses = func(string) *events.Error { return reason } })
			time.Sleep(10 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p := f.process(func(o *subscriber.Options, _ *eventtypetest.Options) { o.Reauthorize = 10 * time.Minute }).own()
				id := p.subscribe("ann", origin+"a").ID
				f.r.on(func(d *received) int {
					return map[string]int{"refused": http.StatusServiceUnavailable}[d.what]
				})
				p.emit("1")
				time.Sleep(while)
				p.Recheck(t.Context(), p.Get(id))
				p.emit("refused")
				time.Sleep(time.Second)
				end(p, id)
				p.emit("3")
				time.Sleep(time.Hour / 2)
				got := f.r.to("a")
				if n := len(got); n < 3 || got[0].what != "1" || got[n-1].what != terminated(reason) || got[n-2].what != "refused" {
					t.Errorf("%d came, %q at last", n, got[n-1].what)
				}
				f.gone("ended", id)
				p.hooks("in pairs", "on ann", "off ann")
			})
		})
	}
}

// HOOK-7, REP-13: what ends while the store is away gets its envelope and nothing else, although its record stays: the
// order that has ended it ends it when the record is met, and OnSubscribe does not hear of that.
func TestHOOK7EndedWhileTheStoreIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		reason := fault.Revoked()
		p := f.process().own()
		id := p.subscribe("ann", origin+"a").ID
		p.faults("Owned.DeleteSubscription")
		p.NoteRevoked(subscriber.Revocation{Principal: "ann", At: f.request()})
		p.End(p.Get(id), reason)
		p.emit("1")
		time.Sleep(time.Minute)
		f.r.wants("ended", "a", terminated(reason))
		if _, ok := f.stored(id); !ok {
			t.Error("the store has refused that")
		}
		p.faults()
		time.Sleep(5 * time.Minute) // it compares what is stored
		f.gone("when the store is back", id)
		for _, d := range f.r.to("a") {
			if d.what != terminated(reason) {
				t.Errorf("%s came after the end", d.what)
			}
		}
		p.hooks("in pairs", "on ann", "off ann")
	})
}

// SRV-8: an operator's pause holds deliveries back wherever it is asked for, lasts over a change of owners, and loses
// nothing; what cannot be stored, and what is not there, is an error.
func TestSRV8Pause(t *testing.T) {
	for name, at := range places {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner, other := f.process().own(), f.process()
				p := at(owner, other)
				id := owner.subscribe("ann", origin+"a").ID
				set := func(paused bool) {
					t.Helper()
					if err := p.SetPaused(t.Context(), id, paused); err != nil {
						t.Fatal(err)
					}
					time.Sleep(while)
				}
				p.faults("PutSubscription")
				if err := p.SetPaused(t.Context(), id, true); !errors.Is(err, errStore) {
					t.Errorf("while the store is away: %v", err)
				}
				p.faults()
				owner.emit("1")
				time.Sleep(while)
				set(true)
				owner.emit("2")
				time.Sleep(time.Minute)
				f.r.wants("paused", "a", "1")
				owner.giveAway()
				owner = f.process().own()
				p = at(owner, other)
				time.Sleep(time.Minute)
				f.r.wants("paused at the next owner", "a", "1")
				if res := owner.subscribe("ann", origin+"a"); res.DeliveryStatus == nil || res.DeliveryStatus.Active {
					t.Errorf("deliveryStatus %+v", res.DeliveryStatus)
				}
				set(false)
				f.r.wants("afterwards", "a", "1", "2")
				if err := p.SetPaused(t.Context(), "sub_unknown", true); kindOf(err) != events.KindNotFound {
					t.Errorf("of no subscription: %v", err)
				}
			})
		})
	}
}

// SRV-8: a replay delivers again what follows a cursor, up to where it is to end, and the rest once; it never passes
// over what is unsettled.
func TestSRV8Replay(t *testing.T) {
	for name, c := range map[string]struct {
		last store.Position
		want []string // in any order
	}{
		"to the present": {0, []string{"2", "2", "3", "3", "4"}},
		"up to an event": {2, []string{"2", "2", "3", "4"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p := f.process().own()
				p.emit("1")
				res := p.subscribe("ann", origin+"a")
				p.emit("2", "3")
				time.Sleep(while)
				if err := p.replay(t.Context(), res.ID, *res.Cursor, c.last); err != nil {
					t.Fatal(err)
				}
				p.emit("4")
				time.Sleep(while)
				var got []string
				for _, d := range f.r.to("a") {
					got = append(got, d.what)
				}
				if slices.Sort(got); !slices.Equal(got, c.want) {
					t.Errorf("delivered %q, want %q", got, c.want)
				}
				if _, behind := p.waiting(t, res.ID); behind != 0 {
					t.Errorf("%d entries wait", behind)
				}
			})
		})
	}
}

// SRV-8, CUR-7: a replay from before what is retained reports the gap, and one that cannot be done is an error that
// says why, after which the subscription goes on where it was.
func TestSRV8ReplayRefused(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process(keeping(4)).own()
		res := p.subscribe("ann", origin+"a")
		for _, id := range []string{"1", "2", "3", "4", "5", "6"} {
			p.emit(id)
		}
		other := wire.Cursor{Kind: wire.LogCursor, Name: 7, Position: 1}.String()
		ahead := wire.Cursor{Kind: wire.LogCursor, Name: wire.NameHash("e"), Epoch: p.typ.Topic().Epoch(), Position: 99}.String()
		checked := wire.Cursor{Kind: wire.CheckCursor, Name: wire.NameHash("e"), Upstream: "1"}.String()
		for cursor, want := range map[string]string{"": "malformed", "rubbish": "malformed", (*res.Cursor)[:10]: "malformed", other: "another event type", ahead: "beyond the head", checked: "not a log cursor"} {
			if err := p.replay(t.Context(), res.ID, cursor, 0); !contains(err, want) || cursor != "" && contains(err, cursor) {
				t.Errorf("from %q: %v", cursor, err)
			}
			r, _ := f.stored(res.ID)
			if err := p.CheckReplay(t.Context(), &r, cursor, 0); kindOf(err) != wire.InvalidParams || !contains(err, want) {
				t.Errorf("elsewhere from %q: %v", cursor, err)
			}
		}
		if err := p.replay(t.Context(), "sub_unknown", *res.Cursor, 0); kindOf(err) != events.KindNotFound {
			t.Errorf("of no subscription: %v", err)
		}
		f.r.wants("after errors", "a", "1", "2", "3", "4", "5", "6")
		if err := p.replay(t.Context(), res.ID, *res.Cursor, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(while)
		got := map[string]int{}
		for _, d := range f.r.to("a")[6:] {
			got[d.what]++
		}
		if len(got) != 5 || got["3"] != 1 || got["6"] != 1 || got[wire.EnvelopeGap] != 1 {
			t.Errorf("from before what is retained: %v", got)
		}
		p.typ.Remove()
		if err := p.replay(t.Context(), res.ID, *res.Cursor, 0); !contains(err, `"kind":"event"`) {
			t.Errorf("of a type that is gone: %v", err)
		}
	})
}

// SRV-8: a replay of what a check finds asks the check again from the cursor and has no end but the present; if the
// store or the check fails, the subscription goes on where it was.
func TestSRV8ReplayOfACheck(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process(withCheck).own()
		revoked := subscriber.Revocation{Principal: "ann", At: f.request()}
		res := p.subscribe("ann", origin+"a")
		p.typ.Put("1")
		time.Sleep(while)
		r, _ := f.stored(res.ID)
		if err := p.CheckReplay(t.Context(), &r, *res.Cursor, 1); kindOf(err) != wire.Unsupported {
			t.Errorf("with an end: %v", err)
		}
		if err := p.replay(t.Context(), res.ID, *res.Cursor, 1); !contains(err, "always runs to the present") {
			t.Errorf("with an end: %v", err)
		}
		foreign := wire.Cursor{Kind: wire.CheckCursor, Name: wire.NameHash("e"), Feed: 1, Upstream: "0"}.String()
		if err := p.replay(t.Context(), res.ID, foreign, 0); !contains(err, "other arguments") {
			t.Errorf("from another one's cursor: %v", err)
		}
		p.faults("Owned.PutSubscription")
		if err := p.replay(t.Context(), res.ID, *res.Cursor, 0); err == nil {
			t.Error("what cannot be stored is no error")
		}
		p.faults()
		p.typ.Put("2")
		time.Sleep(while)
		f.r.wants("after errors", "a", "1", "2")
		if err := p.replay(t.Context(), res.ID, *res.Cursor, 0); err != nil {
			t.Fatal(err)
		}
		p.typ.Put("3")
		time.Sleep(while)
		f.r.wants("replayed", "a", "1", "2", "1", "2", "3")
		if after, ok := f.stored(res.ID); !ok || after.Generation == r.Generation {
			t.Errorf("stored as %+v", after)
		}
		h := p.Get(res.ID)
		if revoked.Ends(h) {
			t.Error("a revocation from before it began ends it after the replay")
		}
		if err := p.replay(t.Context(), res.ID, *res.Cursor, 0); err != nil {
			t.Fatal(err)
		}
		p.End(h, events.Forbidden("no more")) // found before the replay
		time.Sleep(while)
		all := f.r.to("a")
		last := all[len(all)-1].at
		if !slices.ContainsFunc(all, func(d *received) bool {
			return d.at.Equal(last) && d.what == terminated(events.Forbidden("no more"))
		}) {
			t.Errorf("at last %q", all[len(all)-1].what)
		}
		f.gone("ended", res.ID)
		p.hooks("one subscription all the time", "on ann", "off ann")
	})
}

// SRV-8: a replay of a check that meets the end of the ownership stays pending although its record is stored, and the next
// owner performs it. Neither author hears of an end.
func TestSRV8ReplayOfACheckWhileTheShardMoves(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process(withCheck).own()
		res := p.subscribe("ann", origin+"a")
		p.typ.Put("1")
		time.Sleep(while)
		f.r.wants("found", "a", "1")
		before, _ := f.stored(res.ID)
		owning := p.owning
		p.inject([]string{"Owned.PutSubscription"}, sync.OnceValue(func() error {
			close(p.ownership.draining)
			<-owning
			return nil
		}))
		if err := p.replay(t.Context(), res.ID, *res.Cursor, 0); !errors.Is(err, errPending) {
			t.Errorf("at the old owner: %v", err)
		}
		r, _ := f.stored(res.ID)
		if q := r.Requests[store.RequestReplay]; r.Generation == before.Generation || !q.Pending() {
			t.Fatalf("the record of the replay is not stored, or the replay is done: %+v", r)
		}
		p.free()
		next := f.process(withCheck)
		next.typ.Put("1") // its upstream is the same
		next.own()
		time.Sleep(time.Minute)
		r, _ = f.stored(res.ID)
		if q := r.Requests[store.RequestReplay]; q.Pending() || q.Done.Failure != "" {
			t.Errorf("at the next owner: %+v", q)
		}
		if n := count(f.r, "a", "1"); n < 2 {
			t.Errorf("it was delivered %d times", n)
		}
		p.hooks("at the old owner", "on ann")
		next.hooks("at the next owner", "restored ann")
	})
}

// SRV-8, HOOK-7: a replay of a check goes on if the response of the store to its record is lost, and the subscription
// ends if an end began before the replay. It does not repeat a gap.
func TestSRV8ReplayOfACheckMeanwhile(t *testing.T) {
	end := terminated(fault.Revoked())
	for name, c := range map[string]struct {
		during func(p *process, id string)
		want   []string
		hooks  []string
	}{
		"the response is lost": {func(p *process, _ string) {
			var lost atomic.Bool
			p.store.Inject(memcluster.Faults{Lost: func(op string) bool { return op == "Owned.PutSubscription" && !lost.Swap(true) }})
		}, []string{"1", "1", "2"}, []string{"on ann"}},
		"a gap was signaled before": {func(p *process, _ string) {
			p.GapOfType(p.typ, p.f.request())
			time.Sleep(while)
		}, []string{"1", "gap", "1", "2"}, []string{"on ann"}},
		"it is ended": {func(p *process, id string) {
			p.slow(2*time.Second, "Owned.DeleteSubscription")
			go p.End(p.Get(id), fault.Revoked())
			time.Sleep(time.Second)
		}, []string{"1", "1", end}, []string{"on ann", "off ann"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				p := f.process(withCheck).own()
				res := p.subscribe("ann", origin+"a")
				p.typ.Put("1")
				time.Sleep(while)
				c.during(p, res.ID)
				if err := p.replay(t.Context(), res.ID, *res.Cursor, 0); err != nil {
					t.Error(err)
				}
				time.Sleep(2 * while)
				p.typ.Put("2")
				time.Sleep(while)
				f.r.wants("in all", "a", c.want...)
				p.hooks("in all", c.hooks...)
				if _, ok := f.stored(res.ID); ok != !slices.Contains(c.want, end) {
					t.Errorf("stored: %v", ok)
				}
			})
		})
	}
}

// AUTH-2: all subscriptions are asked for once per interval, although the hook is slow, and not all at the same time.
// Those that the hook refuses end.
func TestAUTH2SlowHook(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		const n, limit = 50, 8
		p := f.process(func(o *subscriber.Options, _ *eventtypetest.Options) { o.Reauthorize = 10 * time.Minute }).own()
		for i := range n {
			p.subscribe(fmt.Sprint("ann", i), origin+fmt.Sprint(i))
		}
		refused := events.Forbidden("no more")
		var asked, now atomic.Int64
		p.author.set(func(a *author) {
			a.refuses = func(principal string) *events.Error {
				asked.Add(1)
				if c := now.Add(1); c > limit {
					t.Errorf("%d at the same time", c)
				}
				defer now.Add(-1)
				time.Sleep(time.Minute)
				if principal == "ann7" {
					return refused
				}
				return nil
			}
		})
		time.Sleep(18 * time.Minute) // one interval and most of the next
		if asked.Load() != n {
			t.Errorf("asked %d times, want %d", asked.Load(), n)
		}
		f.r.wants("refused", "7", terminated(refused))
		f.r.wants("allowed", "8")
	})
}

// HOOK-7, D7: an operator's gap is delivered as an envelope, also to what is still to be taken up, and the next refresh
// reports it once. A type without replay has none.
func TestHOOK7Gap(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		id := p.subscribe("ann", origin+"a").ID
		p.Get(id).Handle.Gap()
		time.Sleep(while)
		f.r.wants("live", "a", wire.EnvelopeGap)
		if res := p.subscribe("ann", origin+"a"); !res.Truncated {
			t.Error("the next refresh does not report it")
		}
		if res := p.subscribe("ann", origin+"a"); res.Truncated {
			t.Error("a later refresh reports it too")
		}
		p.stop()
		next := f.process()
		next.faults("Owned.Subscriptions")
		next.own()
		if n := next.GapOfType(next.typ, f.request()); n != 0 {
			t.Errorf("%d are live", n)
		}
		next.faults()
		time.Sleep(time.Minute)
		next.emit("1")
		time.Sleep(while)
		f.r.wants("still to be taken up", "a", wire.EnvelopeGap, wire.EnvelopeGap, "1")
	})
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process()
		p.typ.Kernel().NoReplay = true
		p.own()
		res := p.subscribe("ann", origin+"a")
		p.Get(res.ID).Handle.Gap()
		p.emit("1")
		time.Sleep(while)
		f.r.wants("without replay", "a", "1")
		r, _ := f.stored(res.ID)
		if err := p.CheckReplay(t.Context(), &r, "x", 0); res.Cursor != nil || kindOf(err) != wire.Unsupported {
			t.Errorf("cursor %v, a replay is %v", res.Cursor, err)
		}
		if err := p.replay(t.Context(), res.ID, "x", 0); !contains(err, "has no replay") {
			t.Errorf("a replay is %v", err)
		}
		if p.Describe(t.Context(), &r) != nil {
			t.Error("it is described with a cursor")
		}
	})
}

// SRV-6: a process that ends keeps what the store keeps and asks no hook; on a store that ends with it, all that is
// live ends, and OnUnsubscribe hears of it.
func TestSRV6Shutdown(t *testing.T) {
	for _, durable := range []bool{true, false} {
		bubble(t, func(t *testing.T, f *deployment) {
			p := f.process(func(o *subscriber.Options, _ *eventtypetest.Options) { o.Durable = durable }).own()
			p.subscribe("ann", origin+"a")
			p.emit("1")
			time.Sleep(while)
			if err := p.Shutdown(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := p.ask(t.Context(), "bob", origin+"b"); err == nil {
				t.Error("it still accepts subscriptions")
			}
			want := []string{"on ann", "on bob", "off bob"}
			if !durable {
				want = append(want, "off ann")
			}
			p.hooks("at the end", want...)
			f.r.wants("at the end", "b")
		})
	}
}

// SRV-8: an operator is shown how many subscriptions are live and how far they are behind.
func TestSRV8View(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		res := p.subscribe("ann", origin+"a")
		p.subscribe("bob", origin+"b")
		f.r.on(func(d *received) int {
			return map[string]int{"a": http.StatusServiceUnavailable}[d.path]
		})
		p.emit("1", "2")
		time.Sleep(while)
		if base, behind := p.waiting(t, res.ID); base != 0 || behind != 2 {
			t.Errorf("settled up to %d, %d wait", base, behind)
		}
		if c := p.Census(); c.Types["e"] != 2 || c.Lag["e"] != 2 || p.Delivering() != 2 {
			t.Errorf("%+v", c)
		}
		n := p.Each(subscriber.OfPrincipal("ann", []string{"e"}), func(h *subscriber.Live) {
			if h.ID() != res.ID || h.CreatedAt().After(time.Now()) || h.Identity().Principal != "ann" {
				t.Errorf("%+v", h)
			}
		})
		if none := p.Each(subscriber.OfPrincipal("ann", []string{"f"}), func(*subscriber.Live) {}); n != 1 || none != 0 {
			t.Errorf("%d of ann, %d of another type", n, none)
		}
		r, _ := f.stored(res.ID)
		other := f.process()
		if got := other.Describe(t.Context(), &r); got == nil || *got != *res.Cursor {
			t.Errorf("described elsewhere with %v, want %s", got, *res.Cursor)
		}
		if s := p.Get(res.ID).Handle.Status(); s == (delivery.Status{}) || s.LastError != wire.HTTP5xx {
			t.Errorf("%+v", s)
		}
	})
}

// SRV-8: a replay from a later position does not pass over what waits for its retry.
func TestSRV8ReplayKeepsWhatIsUnsettled(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		id := p.subscribe("ann", origin+"a").ID
		f.r.on(func(d *received) int {
			if d.what == "1" && d.try == 1 {
				return http.StatusServiceUnavailable
			}
			return 0
		})
		p.emit("1", "2")
		later := p.subscribe("bob", origin+"b")
		p.emit("3")
		if err := p.replay(t.Context(), id, *later.Cursor, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for event, want := range map[string]int{"1": 2, "3": 2} {
			if n := count(f.r, "a", event); n < want {
				t.Errorf("%s came %d times", event, n)
			}
		}
	})
}
