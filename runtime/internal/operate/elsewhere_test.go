package operate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/solo"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// pair makes the beds of two processes on one store, with an event type e. The owner delivers to its webhook
// subscriptions; the other one knows them by their records. Both follow one control log, unless the owner is to be
// deaf: then it does not hear of changed records either.
func pair(t *testing.T, deaf bool) (owner, other *bed, r *receiver, e *eventType) {
	t.Helper()
	r = receive(t)
	st, c := memory.New(), memcluster.New()
	records, err := solo.Open(t.Context(), st)
	must(t, err)
	follow := func(o setup, obeys bool) *bed {
		var obeyer Obeyer
		told := orders.Options{Store: c.Open(), Now: time.Now, Refresh: func(context.Context) {}, Report: new(fault.Log)}
		obeyer.Log = orders.New(told)
		o.store, o.records, o.processes, o.r = st, records, &ordered{Log: obeyer.Log}, r
		b := newBed(t, o)
		told.Report.Logger = b.o.Log.Logger
		obeyer.Admin = b.Admin
		if obeys {
			must(t, obeyer.Log.Follow(t.Context(), &obeyer))
		}
		t.Cleanup(obeyer.Log.Shutdown)
		return b
	}
	owner = follow(setup{}, !deaf)
	other = follow(setup{changed: func(id string, of engine.Shard) {
		if !deaf {
			owner.webhooks.Changed(id, of)
		}
	}}, true)
	shared := eventtypetest.New(t, "e", eventtypetest.Options{Emits: true})
	e = owner.register(shared, true)
	other.register(shared, false)
	return owner, other, r, e
}

// REP-13: what an operator asks of a process about a subscription that lives in another one is done there.
func TestREP13Elsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner, other, r, e := pair(t, false)
		ctx := t.Context()
		id := other.subscribe("ann")
		settle(time.Second)
		first, err := other.Get(ctx, id)
		if err != nil || first.Cursor == nil || first.Behind != nil {
			t.Fatalf("by its record: %+v %v", first, err)
		}
		e.Emit(incident{ID: "1"})
		settle(time.Second)
		r.want(t, "delivered", "1")
		must(t, other.Pause(ctx, id))
		settle(time.Second)
		e.Emit(incident{ID: "2"})
		settle(time.Minute)
		r.want(t, "paused")
		must(t, other.Resume(ctx, id))
		must(t, other.Unpause(ctx, id))
		settle(time.Minute)
		r.want(t, "unpaused", "2")
		began := time.Now()
		if made, err := other.SendAgain(ctx, id, "1", time.Time{}); err != nil || made.Number != 2 || made.EventID != "1" || time.Since(began) > time.Second {
			t.Errorf("%+v %v after %v", made, err, time.Since(began))
		}
		r.want(t, "sent again", "1")
		missing(t, "an unknown occurrence", errorOf(other.SendAgain(ctx, id, "none", time.Time{})))
		must(t, other.Replay(ctx, id, *first.Cursor, 0))
		settle(time.Minute)
		if got := slices.Sorted(slices.Values(r.all())); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("replayed: %q", got)
		}
		if err := other.Replay(ctx, id, "nonsense", 0); !errors.Is(err, events.ErrInvalidParams) {
			t.Errorf("a malformed cursor: %v", err)
		}
		if n, err := other.RaiseGap(ctx, operator.Target{ID: id}); n != 1 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
		settle(time.Second)
		r.want(t, "the gap", "gap")
		must(t, other.End(ctx, id, nil))
		settle(time.Second)
		r.want(t, "ended", `terminated {"reason":"access revoked"}`)
		missing(t, "afterwards", other.End(ctx, id, nil))
		if got := owner.log() + other.log(); got != "" {
			t.Errorf("logged: %s", got)
		}
	})
}

// REP-13: an action that the owner does not hear of is accepted after a while, the caller is told its number, and the
// owner does it when it hears of it; the list of pending actions is bounded.
func TestREP13NobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner, other, r, e := pair(t, true)
		id := other.subscribe("ann")
		owner.webhooks.Changed(id, engine.Shard{Topic: "e"})
		e.Emit(incident{ID: "1"})
		settle(time.Minute)
		r.want(t, "delivered", "1")
		began := time.Now()
		accepted := func(err error, number uint64) {
			t.Helper()
			got, ok := errors.AsType[*operator.AcceptedError](err)
			if !ok || *got != (operator.AcceptedError{Subscription: id, Number: number}) {
				t.Errorf("action %d: %v", number, err)
			}
		}
		_, err := other.SendAgain(t.Context(), id, "1", time.Time{})
		accepted(err, 1)
		if took := time.Since(began); took != 10*time.Second { // the endpoint's 5 s and 5 s
			t.Errorf("after %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := other.Resume(ctx, id); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		for n := range uint64(store.MaxActions - 2) {
			accepted(other.Resume(t.Context(), id), n+3)
		}
		if err := other.Resume(t.Context(), id); err == nil || !strings.Contains(err.Error(), "pending actions") {
			t.Errorf("one too many: %v", err)
		}
		r.want(t, "nothing is done")
		owner.webhooks.Changed(id, engine.Shard{Topic: "e"})
		settle(time.Minute)
		r.want(t, "sent again", "1")
		i, err := other.Get(t.Context(), id)
		if err != nil || len(i.Actions) != store.MaxActions || slices.ContainsFunc(i.Actions, func(a operator.Action) bool { return a.Done.IsZero() }) {
			t.Errorf("%+v %v", i.Actions, err)
		}
		accepted(other.Resume(t.Context(), id), store.MaxActions+1) // it takes the place of a done one
	})
}

// REP-13: a process that may have lost the subscription tells the next owner of an action, which stays pending.
func TestREP13NotOursAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changed []string
		b := newBed(t, setup{r: receive(t), changed: func(id string, _ engine.Shard) { changed = append(changed, id) }})
		e := b.event("e", true)
		id := b.subscribe("ann")
		e.ownership.end()
		if err := b.Resume(t.Context(), id); !errors.As(err, new(*operator.AcceptedError)) {
			t.Error(err)
		}
		if !slices.Equal(changed, []string{id}) {
			t.Errorf("told of %q", changed)
		}
		if i, err := b.Get(t.Context(), id); err != nil || len(i.Actions) != 1 || !i.Actions[0].Done.IsZero() {
			t.Errorf("%+v %v", i.Actions, err)
		}
	})
}

// An obeying is a bed that obeys what stands in a control log.
type obeying struct {
	*bed
	*Obeyer
}

func obey(t *testing.T, o setup) obeying {
	t.Helper()
	b := newBed(t, o)
	ob := &Obeyer{Admin: b.Admin}
	l := orders.New(orders.Options{Store: memcluster.New().Open(), Now: time.Now, Refresh: func(context.Context) {}, Report: b.o.Log})
	ob.Log = l
	must(t, l.Follow(t.Context(), ob))
	t.Cleanup(l.Shutdown)
	return obeying{b, ob}
}

// REP-13: every kind of order is done to what lives here, and to nothing that began after it. What lives elsewhere is
// no error.
func TestREP13Obey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := obey(t, setup{r: r})
		e := b.event("e", true)
		ctx := t.Context()
		if names := b.Obeyer.EventTypes(); !slices.Equal(names, []string{"e"}) {
			t.Errorf("event types %q", names)
		}
		do := func(o orders.Order) {
			t.Helper()
			if err := b.Do(ctx, o); err != nil {
				t.Errorf("%+v: %v", o, err)
			}
			settle(time.Second)
		}
		now := func(o orders.Order) orders.Order { o.At = time.Now(); return o }
		early := time.Now()
		time.Sleep(time.Second)
		id := b.subscribe("ann")
		st, bobs := b.stream(e, "ann"), b.stream(e, "bob")
		b.poller(e, "ann")
		time.Sleep(time.Second)

		do(orders.Order{Kind: "of a later build"})
		do(orders.To(operator.Target{Event: "e"}, orders.Error, events.Upstream("maintenance")))
		b.want(t, "an error", `ann hears: UpstreamError {"reason":"maintenance"}`, `bob hears: UpstreamError {"reason":"maintenance"}`)
		do(orders.To(operator.Target{Event: "e"}, orders.Error, nil))
		do(orders.To(operator.Target{ID: st.info.Subscription}, orders.Gap, nil))
		if e.Head() != 1 {
			t.Errorf("marked up to %d", e.Head())
		}
		do(orders.To(operator.Target{Event: "e"}, orders.Gap, nil)) // whoever was asked has marked it
		if e.Head() != 1 {
			t.Errorf("marked up to %d", e.Head())
		}
		b.want(t, "gaps", "ann hears: nothing", "ann hears: nothing", "bob hears: nothing")
		r.want(t, "a gap of the type", "gap")
		for _, kind := range []orders.Kind{orders.Error, orders.Gap, orders.Terminate} {
			do(orders.To(operator.Target{ID: "sub_elsewhere"}, kind, events.Forbidden("no")))
		}
		b.want(t, "of another process's")

		// What began after an order is not meant.
		for _, o := range []orders.Order{{Kind: orders.Revoke, Principal: "ann", At: early}, now(orders.To(operator.Target{Event: "e"}, orders.Gap, nil))} {
			b.Prepare(o)
			e.Emit(incident{ID: string(o.Kind)})
			settle(time.Minute)
			r.want(t, "it is not stopped", string(o.Kind))
		}
		do(orders.Order{Kind: orders.Revoke, Principal: "ann", Names: []string{"other"}, At: time.Now()})
		if b.webhooks.Get(id) == nil {
			t.Fatal("it is ended by an order that is not about it")
		}
		b.Prepare(now(orders.Order{Kind: orders.Revoke, Principal: "ann"}))
		e.Emit(incident{ID: "late"})
		settle(time.Minute)
		r.want(t, "stopped until it is done")
		do(now(orders.Order{Kind: orders.Recheck, Principal: "ann"}))
		b.want(t, "nobody is refused")
		do(now(orders.Order{Kind: orders.Visibility}))
		b.want(t, "nothing is hidden", "list changed")
		do(now(orders.Order{Kind: orders.Revoke, Principal: "ann", Names: []string{"e"}}))
		b.want(t, "revoked", `push ann ends: Forbidden {"reason":"access revoked"}`, `poll ann ends: Forbidden {"reason":"access revoked"}`)
		r.want(t, "the webhook", `terminated {"reason":"access revoked"}`)
		do(now(orders.To(operator.Target{ID: bobs.info.Subscription}, orders.Terminate, events.Forbidden("over"))))
		b.want(t, "one stream", `push bob ends: Forbidden {"reason":"over"}`)
	})
}

// REP-13: the termination of a type is read where it lasts; one that is not registered needs nothing.
func TestREP13Recall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := obey(t, setup{r: receive(t)})
		e := b.event("e", true)
		b.stream(e, "ann")
		must(t, b.Obeyer.Recall(t.Context(), "nope"))
		b.told.closed["e"] = events.Forbidden("closed")
		must(t, b.Do(t.Context(), orders.To(operator.Target{Event: "e"}, orders.Terminate, events.Forbidden("closed"))))
		settle(time.Minute)
		if e.Refuses() == nil {
			t.Error("it is open")
		}
		b.want(t, "closed", `push ann ends: Forbidden {"reason":"closed"}`)
		delete(b.told.closed, "e")
		must(t, b.Do(t.Context(), orders.To(operator.Target{Event: "e"}, orders.Reopened, nil)))
		settle(time.Minute)
		if e.Refuses() != nil {
			t.Error("it is closed")
		}
		b.told.fails = errTest
		if err := b.Obeyer.Recall(t.Context(), "e"); !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), "reading whether it was terminated: ") {
			t.Error(err)
		}
	})
}

// REP-13: what was missed for long is made up for: the hooks are asked again for all that is live, and records are
// looked at again.
func TestREP13RecheckAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := obey(t, setup{r: r})
		e := b.event("e", true)
		id := b.subscribe("ann")
		for _, p := range []string{"ann", "bob", "eve"} {
			b.stream(e, p)
		}
		b.refused["ann"] = events.Forbidden("no more")
		b.hidden["bob"] = nil
		b.RecheckAll(t.Context())
		settle(time.Second)
		b.want(t, "asked again", `push ann ends: Forbidden {"reason":"no more"}`, `push bob ends: NotFound {"kind":"event"}`, "list changed")
		r.want(t, "the webhook", `terminated {"reason":"no more"}`)
		must(t, b.Compare(t.Context()))
		b.Changed(id, engine.Shard{Topic: "e"})
	})
}

// REP-13: a process without webhooks has no orders for them to do.
func TestREP13ObeyWithoutWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := obey(t, setup{without: true})
		e := b.event("e", false)
		b.stream(e, "ann")
		for _, kind := range []orders.Kind{orders.Revoke, orders.Gap} {
			o := orders.Order{Kind: kind, Principal: "ann", Target: &operator.Target{ID: "sub_x"}}
			b.Prepare(o)
			if err := b.Do(t.Context(), o); err != nil {
				t.Errorf("%s: %v", kind, err)
			}
		}
		b.want(t, "revoked", `push ann ends: Forbidden {"reason":"access revoked"}`)
		b.Changed("sub_x", engine.Shard{})
		must(t, b.Compare(t.Context()))
		b.RecheckAll(t.Context())
		b.want(t, "asked again", "list changed")
	})
}
