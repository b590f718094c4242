package subscriber_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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

// reasonText is the reason of an ActionEnd that says no more.
const reasonText = `{"code":-32025,"message":"Forbidden","data":{"reason":"no more"}}`

// actions are the actions of each kind, with what the receiver of a subscription that was sent 1 gets from them.
var actions = map[string]struct {
	action store.Action
	want   []string
}{
	"send again": {store.Action{Kind: store.ActionSendAgain, EventID: "1"}, []string{"1"}},
	"gap":        {store.Action{Kind: store.ActionGap}, []string{"gap"}},
	"end":        {store.Action{Kind: store.ActionEnd, Reason: []byte(reasonText)}, []string{terminated(events.Forbidden("no more"))}},
	"resume":     {store.Action{Kind: store.ActionResume}, nil},
	"replay":     {store.Action{Kind: store.ActionReplay}, []string{"1"}},
}

// SRV-8, REP-13: what an operator has asked for is done once, wherever it was asked for, whatever process dies: the one
// that was asked, or the owner before it has heard of it.
func TestSRV8ActionsLast(t *testing.T) {
	for kind, c := range actions {
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
			t.Run(kind+" "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *deployment) {
					owner, other := f.process(keepingAttempts).own(), f.process(keepingAttempts)
					res := owner.subscribe("ann", origin+"a")
					owner.emit("1")
					time.Sleep(while)
					f.r.wants("delivered", "a", "1")
					a := c.action
					if a.Kind == store.ActionReplay {
						a.Cursor = *res.Cursor
					}
					began := time.Now()
					owner, err := ask(f, owner, other, func(p *process) error {
						return p.Ask(actor.With(t.Context(), "olga"), res.ID, a)
					})
					heard := !strings.HasPrefix(name, "before") && !strings.HasPrefix(name, "and")
					if took := time.Since(began); heard && (err != nil || took > time.Second) {
						t.Errorf("%v after %v", err, took)
					}
					if !heard && !errors.As(err, new(*operator.AcceptedError)) {
						t.Errorf("nobody has heard of it: %v", err)
					}
					time.Sleep(10 * time.Minute) // an owner compares what is stored
					f.r.wants("done", "a", append([]string{"1"}, c.want...)...)
					r, ok := f.stored(res.ID)
					if a.Kind == store.ActionEnd {
						if ok {
							t.Error("it is still stored")
						}
						return
					}
					if len(r.Actions) != 1 || r.Actions[0].Done.IsZero() || r.Actions[0].Failure != nil || r.Actions[0].Actor != "olga" {
						t.Errorf("%+v", r.Actions)
					}
					owner.Changed(res.ID, engine.Shard{Topic: "e"})
					time.Sleep(time.Minute)
					f.r.wants("looked at again", "a", append([]string{"1"}, c.want...)...)
				})
			})
		}
	}
}

// SRV-8: an action that is done is not done again while the store does not take that it is.
func TestSRV8ActionsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		p := f.process(keepingAttempts).own()
		id := p.subscribe("ann", origin+"a").ID
		p.faults("Owned.PutSubscription")
		if err := p.Ask(t.Context(), id, store.Action{Kind: store.ActionGap}); !errors.As(err, new(*operator.AcceptedError)) {
			t.Errorf("it is not stored that it is done: %v", err)
		}
		p.Changed(id, engine.Shard{Topic: "e"})
		time.Sleep(time.Minute)
		p.faults()
		time.Sleep(10 * time.Minute)
		f.r.wants("once", "a", "gap")
		r, _ := f.stored(id)
		if len(r.Actions) != 1 || r.Actions[0].Done.IsZero() {
			t.Errorf("%+v", r.Actions)
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
		if err := p.Ask(t.Context(), id, store.Action{Kind: store.ActionEnd, Reason: []byte(reasonText)}); !errors.As(err, new(*operator.AcceptedError)) {
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
	if s := next.Get(res.ID).Handle.Status(); s.Replaying != 3 || s.AskedBy != "olga" {
		t.Errorf("at its owner: %+v", s)
	}
	if err := other.Ask(t.Context(), res.ID, store.Action{Kind: store.ActionEndReplay}); err != nil {
		t.Error(err)
	}
	if err := other.Ask(t.Context(), res.ID, store.Action{Kind: store.ActionEndReplay}); kindOf(err) != events.KindNotFound {
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

// SRV-8: a replay and its end that the owner learns of together are performed in that order.
func TestSRV8ReplaysInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, other := f.process().own(), f.process()
		res := owner.subscribe("ann", origin+"a")
		owner.emit("1", "2", "3")
		time.Sleep(while)
		if err := owner.SetPaused(t.Context(), res.ID, true); err != nil {
			t.Fatal(err)
		}
		owner.crash()
		for _, a := range []store.Action{
			{Kind: store.ActionReplay, Cursor: *res.Cursor}, {Kind: store.ActionReplay, Cursor: *res.Cursor}, {Kind: store.ActionEndReplay},
		} {
			if err := other.Ask(t.Context(), res.ID, a); !errors.As(err, new(*operator.AcceptedError)) {
				t.Fatal(err)
			}
		}
		next := f.process().own()
		time.Sleep(while)
		r, _ := f.stored(res.ID)
		for _, a := range r.Actions {
			if a.Done.IsZero() || a.Failure != nil {
				t.Errorf("%s: done %v, failure %s", a.Kind, a.Done, a.Failure)
			}
		}
		if err := next.SetPaused(t.Context(), res.ID, false); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		f.r.wants("after the end", "a", "1", "2", "3")
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
			if s := p.Get(res.ID).Handle.Status(); left != want || int64(s.Replaying) != want {
				t.Errorf("%s: %d events are left, and %d at its owner, want %d", what, left, s.Replaying, want)
			}
		}
		if err := owner.replay(t.Context(), res.ID, *res.Cursor, 0); err != nil {
			t.Fatal(err)
		}
		shown("in progress", owner, 3)
		if err := owner.Ask(t.Context(), res.ID, store.Action{Kind: store.ActionEndReplay}); err != nil {
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

// SRV-8: the latest replay that has begun is in progress until it is ended or has arrived. What is pending or has failed
// does not count.
func TestSRV8ReplayInARecord(t *testing.T) {
	const pending, done, failed = 0, 1, 2
	act := func(kind store.ActionKind, state int, last store.Position) store.Action {
		a := store.Action{Kind: kind, Last: last, Actor: fmt.Sprint(last)}
		if state != pending {
			a.Done = time.Now()
		}
		if state == failed {
			a.Failure = []byte(`{"text":"no"}`)
		}
		return a
	}
	replay := func(state int, last store.Position) store.Action { return act(store.ActionReplay, state, last) }
	end := func(state int) store.Action { return act(store.ActionEndReplay, state, 0) }
	gap := act(store.ActionGap, done, 0)
	for _, tt := range []struct {
		name string
		all  []store.Action
		want string // who asked for the replay in progress
	}{
		{"none", []store.Action{gap}, ""},
		{"pending", []store.Action{replay(pending, 5)}, ""},
		{"begun", []store.Action{{Kind: store.ActionReplay, Begun: true, Last: 5, Actor: "5"}, gap}, "5"},
		{"done", []store.Action{replay(done, 5), gap}, "5"},
		{"failed", []store.Action{replay(failed, 5)}, ""},
		{"arrived", []store.Action{replay(done, 3)}, ""},
		{"ended", []store.Action{replay(done, 5), gap, end(done)}, ""},
		{"about to be ended", []store.Action{replay(done, 5), end(pending)}, "5"},
		{"an end that has failed", []store.Action{replay(done, 5), end(failed)}, "5"},
		{"ended and begun again", []store.Action{replay(done, 5), end(done), replay(done, 6)}, "6"},
		{"another one that has failed", []store.Action{replay(done, 5), replay(failed, 6)}, "5"},
		{"another one that is pending", []store.Action{replay(done, 5), replay(pending, 6)}, "5"},
		{"another one that has arrived", []store.Action{replay(done, 5), replay(done, 3)}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := subscriber.ReplayIn(&store.Subscription{Progress: store.Progress{Base: 3}, Actions: tt.all})
			if (got == nil) != (tt.want == "") || got != nil && got.AskedBy != tt.want {
				t.Errorf("%+v, want that of %q", got, tt.want)
			}
		})
	}
}

// SRV-8: a record holds so many actions; one more is refused while all are pending, and takes the place of a done one.
func TestSRV8ActionsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T, f *deployment) {
		owner, other := f.process().own(), f.process()
		id := owner.subscribe("ann", origin+"a").ID
		owner.crash()
		resume := store.Action{Kind: store.ActionResume}
		for range store.MaxActions {
			if err := other.Ask(t.Context(), id, resume); !errors.As(err, new(*operator.AcceptedError)) {
				t.Fatal(err)
			}
		}
		if err := other.Ask(t.Context(), id, resume); !contains(err, "pending actions") {
			t.Errorf("one too many: %v", err)
		}
		f.change(id, func(r *store.Subscription) { r.Actions[1].Done = time.Now() })
		_ = other.Ask(t.Context(), id, resume)
		r, _ := f.stored(id)
		numbers := make([]uint64, len(r.Actions))
		for i := range r.Actions {
			numbers[i] = r.Actions[i].Number
		}
		if len(numbers) != store.MaxActions || !slices.IsSorted(numbers) || slices.Contains(numbers, 2) || numbers[len(numbers)-1] != store.MaxActions+1 {
			t.Errorf("numbers %d", numbers)
		}
		f.process().own()
		time.Sleep(time.Minute)
		if r, _ = f.stored(id); slices.ContainsFunc(r.Actions, func(a store.Action) bool { return a.Done.IsZero() }) {
			t.Error("actions are pending")
		}
		if err := other.Ask(t.Context(), "sub_unknown", resume); kindOf(err) != events.KindNotFound {
			t.Errorf("an unknown subscription: %v", err)
		}
		if err := other.Ask(t.Context(), id, store.Action{Kind: "of a later build"}); !contains(err, "does not know") {
			t.Errorf("an unknown action: %v", err)
		}
	})
}

// HOOK-7, REP-13: a gap of the type that operators have raised is told of by the next owner if the one before had not
// told, and only once: the shard's mark says up to when all were told.
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
