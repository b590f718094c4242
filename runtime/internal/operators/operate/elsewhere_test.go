package operate_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/cluster/orders"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// A pair is two servers that share a store and have an event type e, and the webhook subscription id of ann to it. Stop
// cuts the owner off from the store.
type pair struct {
	owner, other *bed // the owner delivers to the subscription
	names        map[*bed]string
	stop         func()
	r            *receiver
	e            *eventType
	id           string
}

func newPair(t *testing.T) pair {
	t.Helper()
	p := pair{r: receive(t), names: map[*bed]string{}}
	c := memcluster.New()
	stores := map[*bed]*memcluster.Store{}
	var beds []*bed
	for _, name := range []string{"a", "b"} {
		st := c.Open()
		b := newBed(t, setup{store: st, r: p.r, replica: replicas.Options{Name: name, Lease: 5 * time.Minute}})
		p.e = b.event("e")
		stores[b], p.names[b] = st, name
		beds = append(beds, b)
	}
	settle(time.Minute) // until each owns its share of the shards
	p.id = beds[0].subscribe("ann")
	settle(time.Second)
	p.owner, p.other = beds[0], beds[1]
	if i, err := p.owner.Admin.Get(t.Context(), p.id); err != nil || i.Owner != "a" {
		p.owner, p.other = p.other, p.owner
	}
	p.stop = func() {
		p.owner.gone = true
		must(t, stores[p.owner].Close())
	}
	return p
}

// REP-13: a request for a subscription whose owner is dead is stored at once, and the caller is told its number. The next
// owner performs it.
func TestREP13NobodyAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		other, r, id := p.other.Admin, p.r, p.id
		p.e.Emit(incident{ID: "1"})
		settle(time.Minute)
		r.want(t, "delivered", "1")
		p.stop()
		began := time.Now()
		for want := range uint64(3) {
			if number, err := other.Resume(t.Context(), id); number != want+1 || err != nil {
				t.Errorf("request %d, %v", number, err)
			}
		}
		if number, err := other.SendAgain(t.Context(), id, "1", time.Time{}); number != 1 || err != nil {
			t.Errorf("request %d, %v", number, err)
		}
		if _, err := other.SendAgain(t.Context(), id, "1", time.Time{}); !errors.Is(err, operator.ErrUnderWay) {
			t.Errorf("again: %v", err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("after %v", took)
		}
		if i, err := other.Get(t.Context(), id); err != nil || len(i.Requests) != 2 || !i.Requests[0].Pending() || !i.Requests[1].Pending() {
			t.Errorf("%+v %v", i.Requests, err)
		}
		r.want(t, "nothing is done")
		settle(10 * time.Minute)
		r.want(t, "sent again", "1")
		if i, err := other.Get(t.Context(), id); err != nil || len(i.Requests) != 2 || i.Requests[0].Done != 3 || i.Requests[1].Done != 1 {
			t.Errorf("%+v %v", i.Requests, err)
		}
	})
}

// A slowReplies is a store whose next reply with states arrives a second after they were read.
type slowReplies struct {
	*memcluster.Store
	slow atomic.Bool
}

func (s *slowReplies) States(ctx context.Context, prefix, after string, limit int) ([]engine.State, error) {
	found, err := s.Store.States(ctx, prefix, after, limit)
	if s.slow.CompareAndSwap(true, false) {
		time.Sleep(time.Second)
	}
	return found, err
}

// REP-13: an order that reads whether a type is closed does not undo what an operator does during the read.
func TestREP13ReadBeforeDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &slowReplies{Store: memcluster.New().Open()}
		b := newBed(t, setup{store: st})
		b.event("e")
		settle(time.Second)
		ob := &operate.Obeyer{Admin: b.Admin}
		terminate := func() error {
			_, err := b.Terminate(t.Context(), operator.Target{Event: "e"}, nil)
			return err
		}
		for name, c := range map[string]struct {
			before, during func() error
			closed         bool
		}{
			"closed during the read": {func() error { return b.Reopen(t.Context(), "e") }, terminate, true},
			"opened during the read": {terminate, func() error { return b.Reopen(t.Context(), "e") }, false},
		} {
			must(t, c.before())
			settle(time.Second)
			st.slow.Store(true)
			go func() {
				if err := ob.Recall(t.Context(), "e"); err != nil {
					t.Error(err)
				}
			}()
			settle(100 * time.Millisecond)
			must(t, c.during())
			settle(2 * time.Second)
			if i, err := b.EventType(t.Context(), "e"); err != nil || (i.Terminated != nil) != c.closed {
				t.Errorf("%s: the termination is %+v, %v", name, i.Terminated, err)
			}
		}
	})
}

// REP-13: a termination that is stored closes the type here, also if it cannot be read afterwards.
func TestREP13TerminatedUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memcluster.New().Open()
		b := newBed(t, setup{store: st})
		b.event("e")
		settle(time.Second)
		var stored atomic.Bool
		st.Inject(memcluster.Faults{Fail: func(op string) error {
			if op == "PutState" {
				stored.Store(true)
			}
			if op == "States" && stored.Load() {
				return errors.New("unreadable")
			}
			return nil
		}})
		_, err := b.Terminate(t.Context(), operator.Target{Event: "e"}, nil)
		must(t, err)
		if i, err := b.EventType(t.Context(), "e"); err != nil || i.Terminated == nil {
			t.Errorf("the termination is %+v, %v", i.Terminated, err)
		}
		st.Inject(memcluster.Faults{})
	})
}

// REP-13: each kind of order is executed on targets in this process, and on none that began after it. A target in
// another process is not an error.
func TestREP13Obey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		ob := &operate.Obeyer{Admin: b.Admin}
		e := b.event("e")
		ctx := t.Context()
		if names := ob.EventTypes(); !slices.Equal(names, []string{"e"}) {
			t.Errorf("event types %q", names)
		}
		do := func(o orders.Order) {
			t.Helper()
			if err := ob.Do(ctx, o); err != nil {
				t.Errorf("%+v: %v", o, err)
			}
			settle(time.Second)
		}
		later := store.ControlPosition{Generation: 1, Position: 100} // than all that this process admits
		now := func(o orders.Order) orders.Order { o.At = later; return o }
		id := b.subscribe("ann")
		st, bobs := b.stream(e, "ann"), b.stream(e, "bob")
		b.poller(e, "ann")
		time.Sleep(time.Second)

		do(orders.Order{Kind: "of a later build"})
		do(orders.To(operator.Target{Event: "e"}, orders.Error, events.Upstream("maintenance")))
		b.want(t, "an error", `ann hears: UpstreamError {"reason":"maintenance"}`, `bob hears: UpstreamError {"reason":"maintenance"}`)
		do(orders.To(operator.Target{Event: "e"}, orders.Error, nil))
		do(orders.To(operator.Target{ID: st.id}, orders.Gap, nil))
		if e.Head() != 1 {
			t.Errorf("marked up to %d", e.Head())
		}
		do(now(orders.To(operator.Target{Event: "e"}, orders.Gap, nil))) // the process that gave the order has marked the log
		if e.Head() != 1 {
			t.Errorf("marked up to %d", e.Head())
		}
		b.want(t, "gaps", "ann hears: a gap", "ann hears: a gap", "bob hears: a gap")
		r.want(t, "a gap of the type", "gap")
		for _, kind := range []orders.Kind{orders.Error, orders.Gap, orders.Terminate} {
			do(orders.To(operator.Target{ID: "sub_elsewhere"}, kind, events.Forbidden("no")))
		}
		b.want(t, "of another process's")

		// An order does not apply to what began after it.
		for _, o := range []orders.Order{{Kind: orders.Revoke, Principal: "ann"}, now(orders.To(operator.Target{Event: "e"}, orders.Gap, nil))} {
			ob.Prepare(o)
			e.Emit(incident{ID: string(o.Kind)})
			settle(time.Minute)
			r.want(t, "it is not stopped", string(o.Kind))
		}
		do(orders.Order{Kind: orders.Revoke, Principal: "ann", Names: []string{"other"}, At: later})
		must(t, errorOf(b.Get(ctx, id)))
		ob.Prepare(now(orders.Order{Kind: orders.Revoke, Principal: "ann"}))
		e.Emit(incident{ID: "late"})
		settle(time.Minute)
		r.want(t, "stopped until it is done")
		do(now(orders.Order{Kind: orders.Recheck, Principal: "ann"}))
		do(now(orders.Order{Kind: orders.Visibility}))
		b.want(t, "nobody is refused, nothing is hidden")
		do(now(orders.Order{Kind: orders.Revoke, Principal: "ann", Names: []string{"e"}}))
		b.want(t, "revoked", `push ann ends: Forbidden {"reason":"access revoked"}`)
		if got := b.pollers(); len(got) != 0 {
			t.Errorf("%q poll", got)
		}
		r.want(t, "the webhook", `terminated {"reason":"access revoked"}`)
		do(now(orders.To(operator.Target{ID: bobs.id}, orders.Terminate, events.Forbidden("over"))))
		b.want(t, "one stream", `push bob ends: Forbidden {"reason":"over"}`)
	})
}

// REP-13: the termination of a type is read from the store, and ended there. Errors of the store are returned.
func TestREP13ClosedTypeStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memcluster.New().Open()
		b := newBed(t, setup{store: st})
		b.event("e")
		ob := &operate.Obeyer{Admin: b.Admin}
		must(t, ob.Recall(t.Context(), "e"))
		must(t, errorOf(b.Terminate(t.Context(), operator.Target{Event: "e"}, nil)))
		st.Inject(memcluster.Faults{Fail: func(string) error { return errTest }})
		must(t, ob.Recall(t.Context(), "nope"))
		if err := ob.Recall(t.Context(), "e"); !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), "reading whether it was terminated: ") {
			t.Error(err)
		}
		st.Inject(memcluster.Faults{Fail: func(op string) error {
			if op == "DeleteState" {
				return errTest
			}
			return nil
		}})
		_, err := server.Register(b.es, b.types["e"], server.Hooks[arguments, incident]{})
		if !errors.Is(err, errTest) || !strings.Contains(err.Error(), "opening it again: ") {
			t.Error(err)
		}
		st.Inject(memcluster.Faults{})
	})
}

// REP-13: after orders that were missed for long, the hooks are called again for everything that is live, with and
// without webhooks.
func TestREP13RecheckAll(t *testing.T) {
	for name, without := range map[string]bool{"webhooks": false, "no webhooks": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := receive(t)
				b := newBed(t, setup{r: r, without: without})
				ob := &operate.Obeyer{Admin: b.Admin}
				e := b.event("e")
				for _, p := range []string{"ann", "bob", "eve"} {
					b.stream(e, p)
				}
				if !without {
					b.subscribe("ann")
				}
				settle(time.Second)
				b.refused["ann"] = events.Forbidden("no more")
				b.hidden["bob"] = nil
				b.noteListChanged()
				ob.RecheckAll(t.Context())
				must(t, ob.Compare(t.Context()))
				settle(time.Second)
				b.want(t, "called again", `push ann ends: Forbidden {"reason":"no more"}`, `push bob ends: NotFound {"kind":"event"}`, "list changed")
				if !without {
					r.want(t, "the webhook", `terminated {"reason":"no more"}`)
					return
				}
				for _, kind := range []orders.Kind{orders.Revoke, orders.Gap} {
					o := orders.Order{Kind: kind, Principal: "eve", Target: &operator.Target{ID: "sub_x"}}
					ob.Prepare(o)
					must(t, ob.Do(t.Context(), o))
				}
				settle(time.Second)
				b.want(t, "revoked", `push eve ends: Forbidden {"reason":"access revoked"}`)
			})
		})
	}
}
