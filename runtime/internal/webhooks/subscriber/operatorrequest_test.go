package subscriber_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/actor"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// keepingAttempts has the process keep attempts, so that occurrences can be sent again.
func keepingAttempts(o *subscriber.Options, _ *eventtypetest.Options) {
	o.Delivery.Attempts, o.Delivery.AttemptBounds = o.Store.(engine.Attempts), engine.AttemptBounds{PerSubscription: 10, MaxAge: time.Hour, Total: 100}
}

// reasonText is the reason of a RequestEnd that says no more.
const reasonText = `{"code":-32025,"message":"Forbidden","data":{"reason":"no more"}}`

// requests are the requests of each kind, with what the receiver of a subscription that was sent 1 gets from them.
var requests = map[store.RequestKind]struct {
	request store.Request
	want    []string
}{
	store.RequestSend:   {store.Request{Events: []store.Resend{{EventID: "1"}}}, []string{"1"}},
	store.RequestGap:    {store.Request{}, []string{"gap"}},
	store.RequestEnd:    {store.Request{Reason: []byte(reasonText)}, []string{terminated(events.Forbidden("no more"))}},
	store.RequestResume: {store.Request{}, nil},
	store.RequestReplay: {store.Request{}, []string{"1"}},
}

// SRV-8, REP-13: what an operator has asked for is done once, wherever it was asked for, whatever process dies: the one
// that was asked, or the owner before it has heard of it.
func TestSRV8RequestsLast(t *testing.T) {
	for kind, c := range requests {
		for name, ask := range map[string]func(f *deployment, owner, other *process, ask func(p *process) error) (*process, error){
			"at the owner": func(_ *deployment, owner, _ *process, ask func(*process) error) (*process, error) {
				return owner, ask(owner)
			},
			"at another process": func(_ *deployment, owner, other *process, ask func(*process) error) (*process, error) {
				return owner, ask(other)
			},
			"before a change of owners": func(f *deployment, owner, other *process, ask func(*process) error) (*process, error) {
				f.locked(func() { f.unheard = true })
				err := ask(other)
				owner.crash()
				return f.process(keepingAttempts).own(), err
			},
			"and nobody is told": func(f *deployment, owner, other *process, ask func(*process) error) (*process, error) {
				f.locked(func() { f.unheard = true })
				return owner, ask(other)
			},
		} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *deployment) {
					owner, other := f.process(keepingAttempts).own(), f.process(keepingAttempts)
					res := owner.subscribe("ann", origin+"a")
					owner.emit("1")
					time.Sleep(while)
					f.r.wants("delivered", "a", "1")
					q := c.request
					if kind == store.RequestReplay {
						q.Cursor = *res.Cursor
					}
					began := time.Now()
					owner, err := ask(f, owner, other, func(p *process) error {
						return p.perform(actor.With(t.Context(), "olga"), res.ID, kind, q)
					})
					heard := !strings.HasPrefix(name, "before") && !strings.HasPrefix(name, "and")
					if took := time.Since(began); heard && (err != nil || took > time.Second) {
						t.Errorf("%v after %v", err, took)
					}
					if !heard && !errors.Is(err, errPending) {
						t.Errorf("nobody has heard of it: %v", err)
					}
					time.Sleep(10 * time.Minute) // an owner compares what is stored
					f.r.wants("done", "a", append([]string{"1"}, c.want...)...)
					r, ok := f.stored(res.ID)
					if kind == store.RequestEnd {
						if ok {
							t.Error("it is still stored")
						}
						return
					}
					if q := r.Requests[kind]; len(r.Requests) != 1 || q.Pending() || q.Done.Failure != "" || q.Done.At.IsZero() || q.Actor != "olga" || len(q.Events) > 0 {
						t.Errorf("%+v", r.Requests)
					}
					owner.Changed(res.ID, engine.Shard{Topic: "e"})
					time.Sleep(time.Minute)
					f.r.wants("looked at again", "a", append([]string{"1"}, c.want...)...)
				})
			})
		}
	}
}

// SRV-8: a request that is performed is not done again while the store does not take that it is.
func TestSRV8RequestsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process(keepingAttempts).own()
		id := p.subscribe("ann", origin+"a").ID
		p.faults("Owned.PutSubscription")
		if err := p.perform(t.Context(), id, store.RequestGap, store.Request{}); !errors.Is(err, errPending) {
			t.Errorf("it is not stored that it is done: %v", err)
		}
		p.Changed(id, engine.Shard{Topic: "e"})
		time.Sleep(time.Minute)
		p.faults()
		time.Sleep(10 * time.Minute)
		f.r.wants("once", "a", "gap")
		r, _ := f.stored(id)
		if q := r.Requests[store.RequestGap]; q.Number != 1 || q.Pending() {
			t.Errorf("%+v", r.Requests)
		}
	})
}

// SRV-8: a subscription whose record the store does not delete when an operator ends it does not come back: it gets its
// envelope, and nothing after it.
func TestSRV8EndedWhileTheStoreIsAway(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		id := p.subscribe("ann", origin+"a").ID
		p.faults("Owned.DeleteSubscription")
		if err := p.perform(t.Context(), id, store.RequestEnd, store.Request{Reason: []byte(reasonText)}); !errors.Is(err, errPending) {
			t.Errorf("its record is there: %v", err)
		}
		p.emit("1")
		time.Sleep(10 * time.Minute)
		p.faults()
		time.Sleep(10 * time.Minute)
		f.gone("when the store is back", id)
		for _, d := range f.r.to("a") {
			if d.what != terminated(events.Forbidden("no more")) {
				t.Errorf("it got %s", d.what)
			}
		}
		p.hooks("in pairs", "on ann", "off ann")
	})
}

// SRV-8: a replay goes on at the next owner, who knows of it and can end it, whatever the owner before had stored of it.
func TestSRV8ReplayAtTheNextOwner(t *testing.T) {
	for name, written := range map[string]int{"nothing is stored": 0, "it is stored as begun": 1, "it is stored as done": 2} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) { replayAtTheNextOwner(t, f, written) })
		})
	}
}

func replayAtTheNextOwner(t *testing.T, f *deployment, written int) {
	owner := f.process().own()
	res := owner.subscribe("ann", origin+"a")
	owner.emit("1", "2", "3")
	time.Sleep(while)
	f.r.wants("delivered", "a", "1", "2", "3")
	if err := owner.SetPaused(t.Context(), res.ID, true); err != nil {
		t.Fatal(err)
	}
	writes := 0
	owner.inject([]string{"Owned.PutSubscription"}, func() error {
		if writes++; writes > written {
			return errStore
		}
		return nil
	})
	err := owner.replay(actor.With(t.Context(), "olga"), res.ID, *res.Cursor, 0)
	if (err == nil) != (written > 1) {
		t.Fatal(err)
	}
	owner.emit("4")
	time.Sleep(while)
	owner.crash()
	next, other := f.process().own(), f.process()
	time.Sleep(while)
	r, _ := f.stored(res.ID)
	if got := subscriber.ReplayIn(&r); got == nil || *got != (operator.Replay{AskedBy: "olga", Left: 3}) {
		t.Errorf("the replay under way: %+v", got)
	}
	if r := next.Get(res.ID).Handle.Replaying(); r == nil || r.Last != 3 || r.By != "olga" {
		t.Errorf("at its owner: %+v", r)
	}
	if err := other.endReplay(t.Context(), res.ID); err != nil {
		t.Error(err)
	}
	if err := other.endReplay(t.Context(), res.ID); kindOf(err) != events.KindNotFound {
		t.Errorf("a second time: %v", err)
	}
	if r, _ = f.stored(res.ID); subscriber.ReplayIn(&r) != nil {
		t.Error("it is still under way")
	}
	if err := next.SetPaused(t.Context(), res.ID, false); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	f.r.wants("what was not delivered before", "a", "1", "2", "3", "4")
}

// SRV-8: a request replaces one of its kind that has not begun: the end of a replay that the owner has not heard of leaves
// nothing to do, and a replay after it is performed.
func TestSRV8RequestsReplaceEachOther(t *testing.T) {
	for name, c := range map[string]struct {
		asked []store.Request // a cursor is added to those that do not end a replay
		want  []string
	}{
		"a replay and its end":  {[]store.Request{{}, {}, {Ends: true}}, []string{"1", "2", "3"}},
		"two replays":           {[]store.Request{{}, {Last: 1}}, []string{"1", "2", "3", "1"}},
		"one more after an end": {[]store.Request{{}, {Ends: true}, {Last: 2}}, []string{"1", "2", "3", "1", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *deployment) {
				owner, other := f.process().own(), f.process()
				res := owner.subscribe("ann", origin+"a")
				owner.emit("1", "2", "3")
				time.Sleep(while)
				owner.crash()
				for i, q := range c.asked {
					if !q.Ends {
						q.Cursor = *res.Cursor
					}
					if number, err := other.Ask(t.Context(), res.ID, store.RequestReplay, q); err != nil || number != uint64(i+1) {
						t.Fatal(number, err)
					}
				}
				f.process().own()
				time.Sleep(time.Minute)
				r, _ := f.stored(res.ID)
				if q := r.Requests[store.RequestReplay]; q.Number != uint64(len(c.asked)) || q.Done.Number != q.Number || q.Done.Failure != "" {
					t.Errorf("%+v", q)
				}
				f.r.wants("at last", "a", c.want...)
			})
		})
	}
}

// SRV-8: requests that come while one of their kind is performed wait for it. Only the latest of them is performed.
func TestSRV8RequestsWaitForTheirKind(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process(keepingAttempts).own()
		id := p.subscribe("ann", origin+"a").ID
		f.r.on(func(d *received) int { time.Sleep(3 * time.Second); return 0 })
		for range 4 {
			if _, err := p.Ask(t.Context(), id, store.RequestGap, store.Request{}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(500 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		f.r.wants("the first and the latest", "a", "gap", "gap")
		r, _ := f.stored(id)
		if q := r.Requests[store.RequestGap]; q.Number != 4 || q.Done.Number != 4 {
			t.Errorf("%+v", q)
		}
	})
}

// SRV-8: the reason why a replay failed stays until a newer replay is performed.
func TestSRV8FailureStays(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, other := f.process().own(), f.process()
		res := owner.subscribe("ann", origin+"a")
		if err := owner.replay(t.Context(), res.ID, "rubbish", 0); !contains(err, "malformed") {
			t.Error(err)
		}
		failure := func(q operator.Request) string { return q.Failure }
		shown := func(what string, done uint64, fails bool) {
			t.Helper()
			r, _ := f.stored(res.ID)
			if all := subscriber.Requests(&r); len(all) != 1 || all[0].Done != done || (failure(all[0]) != "") != fails || all[0].Pending() != (done < all[0].Number) {
				t.Errorf("%s: %+v", what, all)
			}
		}
		shown("failed", 1, true)
		owner.crash()
		if _, err := other.Ask(t.Context(), res.ID, store.RequestReplay, store.Request{Cursor: *res.Cursor}); err != nil {
			t.Fatal(err)
		}
		shown("while the next one is pending", 1, true)
		f.process().own()
		time.Sleep(while)
		shown("after it", 2, false)
	})
}

// SRV-8, HOOK-7: a newer request leaves a replay that has begun in progress, and a gap of the type signaled.
func TestSRV8RequestsKeepWhatHasBegun(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, other := f.process().own(), f.process()
		res := owner.subscribe("ann", origin+"a")
		owner.emit("1", "2", "3")
		time.Sleep(while)
		at := f.request()
		owner.GapOfType(owner.typ, at)
		time.Sleep(while)
		if err := owner.SetPaused(t.Context(), res.ID, true); err != nil {
			t.Fatal(err)
		}
		if err := owner.replay(t.Context(), res.ID, *res.Cursor, 0); err != nil {
			t.Fatal(err)
		}
		owner.crash()
		for kind, q := range map[store.RequestKind]store.Request{store.RequestReplay: {Cursor: *res.Cursor, Last: 1}, store.RequestGap: {}} {
			if _, err := other.Ask(t.Context(), res.ID, kind, q); err != nil {
				t.Fatal(err)
			}
		}
		r, _ := f.stored(res.ID)
		if in, signaled := subscriber.ReplayIn(&r), r.Requests[store.RequestGap].Signaled; in == nil || in.Left != 3 || signaled != at {
			t.Errorf("the replay in progress is %+v, and gaps are signaled up to %+v", in, signaled)
		}
	})
}

// SRV-8: a call that is repeated with its key gets the number of its request until a newer one has replaced it.
func TestSRV8RequestsHaveKeys(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		id := p.subscribe("ann", origin+"a").ID
		for i, c := range []struct {
			key  string
			want uint64
		}{{"k1", 1}, {"k1", 1}, {"", 2}, {"", 3}, {"k2", 4}, {"k2", 4}, {"k1", 5}} {
			if number, err := p.Ask(actor.WithKey(t.Context(), c.key), id, store.RequestGap, store.Request{}); number != c.want || err != nil {
				t.Errorf("%d: %d, %v", i, number, err)
			}
			time.Sleep(time.Minute)
		}
		f.r.wants("in all", "a", "gap", "gap", "gap", "gap", "gap")
	})
}

// SRV-8: a request to send includes the events of the pending one, each once, and so many.
func TestSRV8SendsAreMerged(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, other := f.process(keepingAttempts).own(), f.process(keepingAttempts)
		id := owner.subscribe("ann", origin+"a").ID
		owner.emit("1", "2")
		time.Sleep(while)
		owner.crash()
		send := func(event string) error {
			_, err := other.Ask(t.Context(), id, store.RequestSend, store.Request{Events: []store.Resend{{EventID: event}}})
			return err
		}
		for _, event := range []string{"1", "2", "gone"} {
			if err := send(event); err != nil {
				t.Fatal(err)
			}
		}
		if err := send("2"); !errors.Is(err, operator.ErrUnderWay) {
			t.Errorf("one that is pending: %v", err)
		}
		f.process(keepingAttempts).own()
		time.Sleep(while)
		f.r.wants("sent", "a", "1", "2", "1", "2")
		r, _ := f.stored(id)
		if q := r.Requests[store.RequestSend]; q.Done.Number != 3 || len(q.Events) != 0 || !strings.Contains(q.Done.Failure, "event gone: ") || strings.Contains(q.Done.Failure, "event 1") {
			t.Errorf("%+v", q)
		}
		f.change(id, func(r *store.Subscription) {
			r.Requests = map[store.RequestKind]store.Request{store.RequestSend: {Number: 4, Done: store.Outcome{Number: 3}, Events: make([]store.Resend, store.MaxResends)}}
		})
		if err := send("1"); !contains(err, "pending events to send") {
			t.Errorf("one too many: %v", err)
		}
	})
}

// SRV-8: a replay that was ended is not shown any more, neither at its owner nor at the next one, although an event that
// was unsettled before it still is.
func TestSRV8EndedReplayIsNotShown(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner := f.process().own()
		res := owner.subscribe("ann", origin+"a")
		f.r.on(func(d *received) int {
			return map[string]int{"1": http.StatusServiceUnavailable}[d.what]
		})
		owner.emit("1", "2", "3")
		time.Sleep(while)
		shown := func(what string, p *process, want int64) {
			t.Helper()
			var left int64
			r, _ := f.stored(res.ID)
			if in := subscriber.ReplayIn(&r); in != nil {
				left = in.Left
			}
			if r := p.Get(res.ID).Handle.Replaying(); left != want || (r != nil) != (want > 0) {
				t.Errorf("%s: %d events are left, at its owner %+v, want %d", what, left, r, want)
			}
		}
		if err := owner.replay(t.Context(), res.ID, *res.Cursor, 0); err != nil {
			t.Fatal(err)
		}
		shown("in progress", owner, 3)
		if err := owner.endReplay(t.Context(), res.ID); err != nil {
			t.Fatal(err)
		}
		shown("ended", owner, 0)
		owner.crash()
		next := f.process().own()
		time.Sleep(while)
		shown("at the next owner", next, 0)
	})
}

// SRV-8: a replay that has nothing to deliver is not shown, wherever it was to end.
func TestSRV8ReplayOfNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		id := p.subscribe("ann", origin+"a").ID
		p.emit("1")
		time.Sleep(while)
		present := p.subscribe("bob", origin+"b").Cursor
		if err := p.replay(t.Context(), id, *present, 9); err != nil {
			t.Fatal(err)
		}
		r, _ := f.stored(id)
		if in, live := subscriber.ReplayIn(&r), p.Get(id).Handle.Replaying(); in != nil || live != nil {
			t.Errorf("shown as %+v, and %+v at its owner", in, live)
		}
		f.r.wants("in all", "a", "1")
	})
}

// SRV-8: the latest replay that has begun is in progress until it is ended or has arrived, whatever was asked for since.
func TestSRV8ReplayInARecord(t *testing.T) {
	for name, c := range map[string]struct {
		q    store.Request
		want bool
	}{
		"none":    {store.Request{}, false},
		"pending": {store.Request{Number: 1, Last: 5}, false},
		"begun":   {store.Request{Number: 1, Replay: &store.Replay{Actor: "olga", Last: 5}}, true},
		"arrived": {store.Request{Number: 1, Replay: &store.Replay{Actor: "olga", Last: 3}}, false},
		"another": {store.Request{Number: 2, Actor: "ivan", Replay: &store.Replay{Actor: "olga", Last: 5}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := subscriber.ReplayIn(&store.Subscription{Progress: store.Progress{Base: 3}, Requests: map[store.RequestKind]store.Request{store.RequestReplay: c.q}})
			if (got != nil) != c.want || got != nil && *got != (operator.Replay{AskedBy: "olga", Left: 2}) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// SRV-8: a request for no subscription, or an expired one, is refused, and one of an unknown kind fails.
func TestSRV8UnknownRequests(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process().own()
		id := p.subscribe("ann", origin+"a").ID
		if _, err := p.Ask(t.Context(), "sub_unknown", store.RequestResume, store.Request{}); kindOf(err) != events.KindNotFound {
			t.Errorf("an unknown subscription: %v", err)
		}
		if err := p.perform(t.Context(), id, "of a later build", store.Request{}); !contains(err, "does not know") {
			t.Errorf("an unknown request: %v", err)
		}
		p.crash()
		f.change(id, func(r *store.Subscription) { r.ExpiresAt = time.Now() })
		if _, err := f.process().Ask(t.Context(), id, store.RequestResume, store.Request{}); kindOf(err) != events.KindNotFound {
			t.Errorf("one that has expired: %v", err)
		}
	})
}

// HOOK-7, REP-13: a gap of the type that operators have raised is told of by the next owner if the one before had not
// told, and only once: the record says up to which one was signaled.
func TestREP13GapsOverAChangeOfOwners(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner := f.process().own()
		owner.subscribe("ann", origin+"a")
		time.Sleep(while)
		owner.crash()
		at := f.request()
		f.locked(func() { f.standing.Gaps = map[string]store.ControlPosition{"e": at, "other": at} })
		time.Sleep(time.Second)
		next := f.process().own()
		next.subscribe("bob", origin+"b")
		time.Sleep(while)
		f.r.wants("what was there", "a", "gap")
		f.r.wants("what began later", "b")
		next.crash()
		third := f.process().own()
		time.Sleep(while)
		f.r.wants("told once", "a", "gap")
		at = f.request()
		f.locked(func() { f.standing.Gaps["e"] = at })
		if n := third.GapOfType(third.typ, at); n != 2 {
			t.Errorf("%d are told", n)
		}
		time.Sleep(while)
		third.crash()
		f.process().own()
		time.Sleep(while)
		f.r.wants("the second", "a", "gap", "gap")
		f.r.wants("the second, once", "b", "gap")
	})
}
