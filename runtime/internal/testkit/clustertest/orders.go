package clustertest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// orderTests contains the tests of quotas, hooks, and orders given by operators and authors to one process.
var orderTests = []test{
	{name: "REP-12, SUB-8: processes together never exceed a quota", run: quota},
	{name: "REP-11: concurrent subscribes for one key at several processes create one subscription", run: sameKeyAtOnce},
	{name: "REP-13: an operator's actions reach the owner of the subscription", run: actionsReachTheOwner},
	{name: "REP-13: revocation, reauthorization and hiding end subscriptions wherever they live", run: revokeElsewhere},
	{name: "REP-13, SUB-5: a request to one process right after a subscribe at another applies", run: requestedAtOnce},
	{name: "REP-13: orders given while the owner was dying are executed by the next owner", run: ordersSurviveTheOwner},
	{name: "REP-13: a subscription that its owner revokes during a restore ends when it goes live", run: func(f *fleet) {
		revokedWhileTakenUp(f, f.owner)
	}},
	{name: "REP-13: a subscription that another process revokes during a restore ends when it goes live", run: func(f *fleet) {
		revokedWhileTakenUp(f, f.other)
	}},
	{name: "AUTH-2, REP-11: a process that has not read a revocation stops streams and polls after two seconds", run: unreadRevocation},
	{name: "REP-11: a subscription that an order ends gets no more events while the order waits", run: orderWaits},
	{name: "REP-13: a gap reaches the subscriptions that were admitted before it, once, and no others", run: gapMeetsASubscribe},
	{name: "REP-13: a request with one key at two processes is executed once", run: onceOverReplicas},
	{name: "REP-17, SUB-11: hooks run at the subscribing process and at each takeover", run: hooksRun},
}

// A journal records calls to hooks.
type journal struct {
	mu  sync.Mutex
	all []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = append(j.all, line)
}

func (j *journal) lines() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string{}, j.all...)
}

// recordHooks makes the subscription hooks record their calls in a journal.
func (f *fleet) recordHooks() *journal {
	j := &journal{}
	f.hooks.OnSubscribe = func(_ context.Context, s server.Subscription, _ *filter) error {
		j.add(fmt.Sprint("on ", s.Restored))
		return nil
	}
	f.hooks.OnUnsubscribe = func(context.Context, server.Subscription, *filter) { j.add("off") }
	return j
}

// quota tests that a subscribe request beyond the quota fails with ResourceExhausted, even if many requests run
// concurrently. Each call to OnSubscribe is followed by a call to OnUnsubscribe.
func quota(f *fleet) {
	f.webhooks.Quota = webhooks.Quota{PerPrincipal: 4, Total: 6}
	j := f.recordHooks()
	f.start(3)
	var wg sync.WaitGroup
	var admitted, refused atomic.Int64
	for i := range 24 {
		m := f.members[i%3]
		principal := []string{"ann", "bob"}[i/3%2]
		wg.Go(func() {
			_, rerr := m.call(principal, wire.MethodSubscribe, params(hook(0), secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i)))
			switch {
			case rerr == nil:
				admitted.Add(1)
			case strings.Contains(string(rerr.Data), `"subscriptions"`):
				refused.Add(1)
			default:
				f.Errorf("%d %s %s", rerr.Code, rerr.Message, rerr.Data)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 6 || refused.Load() != 18 {
		f.Fatalf("%d admitted, %d refused", admitted.Load(), refused.Load())
	}
	if own, all, err := f.watch.CountSubscriptions(f.Context(), "ann"); err != nil || own > 4 || all != 6 {
		f.Fatalf("%d of %d, %v", own, all, err)
	}
	n := 0
	for _, l := range j.lines() {
		switch l {
		case "on false":
			n++
		case "off":
			n--
		}
	}
	if n != 6 {
		f.Errorf("%d more calls of OnSubscribe than of OnUnsubscribe", n)
	}
}

func sameKeyAtOnce(f *fleet) {
	f.start(3)
	const rounds = 5
	for round := range rounds {
		time.Sleep(500 * time.Millisecond) // a head is a cache (REP-3): by now each process knows the emitted events
		var wg sync.WaitGroup
		ids := make([]string, 6)
		for i := range ids {
			wg.Go(func() { ids[i] = f.members[i%3].subscribe("ann", params(hook(round), secretA, "")).ID })
		}
		wg.Wait()
		for _, id := range ids {
			if id != ids[0] {
				f.Fatal(ids)
			}
		}
		f.members[round%3].emit(incident{ID: fmt.Sprint("i", round)})
		f.soon("the delivery", func() bool { return len(f.r.requestsTo(hook(round))) > 0 })
		f.members[0].unsubscribe("ann", hook(round))
	}
	f.idle()
	for round := range rounds {
		f.equal("delivered", f.r.requestsTo(hook(round)), fmt.Sprint("i", round))
	}
}

func actionsReachTheOwner(f *fleet) {
	f.start(2)
	s := f.members[0].subscribe("ann", params(hook(0), secretA, ""))
	owner, other := f.owner(s.ID), f.other(s.ID)
	admin := other.Admin()
	ctx := f.Context()
	do := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	got := func(want string) func() bool {
		return func() bool { return strings.Join(f.r.requestsTo(hook(0)), " ") == want }
	}
	other.emit(incident{ID: "1"})
	f.soon("the first", got("1"))
	first := *f.r.last().body.Cursor

	do(admin.Pause(ctx, s.ID))
	f.waitForOrders()
	other.emit(incident{ID: "2"})
	f.idle()
	if again := other.subscribe("ann", params(hook(0), secretA, "")); again.DeliveryStatus == nil || again.DeliveryStatus.Active {
		f.Errorf("the status of a paused subscription: %+v", again.DeliveryStatus)
	}
	f.equal("while paused", f.r.requestsTo(hook(0)), "1")
	if i, err := admin.Get(ctx, s.ID); err != nil || i.State != operator.StatePaused {
		f.Errorf("%+v %v", i, err)
	}
	do(admin.Unpause(ctx, s.ID))
	f.soon("after the pause", got("1 2"))

	f.soon("the attempts are stored", func() bool {
		made, err := admin.Attempts(ctx, s.ID)
		return err == nil && len(made) == 2
	})
	made, err := admin.SendAgain(ctx, s.ID, "1", time.Time{})
	if err != nil || made.EventID != "1" || made.Number != 2 || made.Status != 200 {
		f.Fatalf("%+v, %v", made, err)
	}
	f.equal("resent", f.r.requestsTo(hook(0)), "1", "2", "1")
	if _, err := admin.SendAgain(ctx, s.ID, "none", time.Time{}); !errors.Is(err, events.ErrNotFound) {
		f.Errorf("an unknown occurrence: %v", err)
	}

	do(admin.Replay(ctx, s.ID, first, 0))
	f.soon("replayed", got("1 2 1 2"))
	if err := admin.Replay(ctx, s.ID, "nonsense", 0); !errors.Is(err, events.ErrInvalidParams) {
		f.Errorf("a malformed cursor: %v", err)
	}
	_, err = admin.RaiseGap(ctx, operator.Target{ID: s.ID})
	do(err)
	f.soon("the gap", got("1 2 1 2 gap"))
	f.soon("the next response reports it", func() bool { r, ok := f.record(s.ID); return ok && r.Truncated })
	if again := other.subscribe("ann", params(hook(0), secretA, "")); !again.Truncated {
		f.Error("the response does not report the gap")
	}
	if again := owner.subscribe("ann", params(hook(0), secretA, "")); again.Truncated {
		f.Error("the gap is reported twice")
	}
	do(admin.Resume(ctx, s.ID))
	do(admin.End(ctx, s.ID, nil))
	f.soon("terminated", func() bool { return strings.HasPrefix(f.r.last().summary(), "terminated") })
	for _, err := range []error{admin.Pause(ctx, s.ID), admin.Resume(ctx, s.ID), admin.End(ctx, s.ID, nil), admin.Replay(ctx, s.ID, first, 0)} {
		if !errors.Is(err, events.ErrNotFound) {
			f.Errorf("after the end: %v", err)
		}
	}
}

// ordersSurviveTheOwner tests that the next owner sends the envelopes. A subscription that began after an order
// continues even if its owner crashes.
func ordersSurviveTheOwner(f *fleet) {
	f.lease = 2 * time.Second
	f.start(2)
	const p1 = `,"arguments":{"severity":"P1"}`
	var ids []string
	for i := range 3 {
		ids = append(ids, f.members[0].subscribe(fmt.Sprint("p", i), params(hook(i), secretA, p1)).ID)
	}
	owner, other := f.owner(ids[0]), f.other(ids[0])
	f.disconnect(owner)
	if err := other.Revoke(f.Context(), "p0"); err != nil {
		f.Fatal(err)
	}
	if err := other.Admin().End(f.Context(), ids[1], events.Forbidden("one")); err != nil {
		f.Fatal(err)
	}
	time.Sleep(2 * time.Second) // the disconnected owner has received nothing for so long that it begins no attempt
	other.emit(incident{ID: "1", Severity: "P1"})
	f.waitSettled()
	f.soon("both envelopes and the third's delivery", func() bool {
		return len(f.r.requestsTo(hook(0))) > 0 && len(f.r.requestsTo(hook(1))) > 0 && len(f.r.requestsTo(hook(2))) > 0
	})
	f.idle()
	f.equal("the revoked principal", f.r.requestsTo(hook(0)), `terminated -32012 Forbidden {"reason":"access revoked"}`)
	f.equal("the ended subscription", f.r.requestsTo(hook(1)), `terminated -32012 Forbidden {"reason":"one"}`)
	f.equal("the third subscription", f.r.requestsTo(hook(2)), "1")
	again := other.subscribe("p0", params(hook(0), secretA, p1))
	f.join()
	f.waitSettled()
	f.disconnect(f.owner(again.ID))
	f.Unmark(engine.ControlLog) // the next owner reads all orders
	f.waitSettled()
	f.alive()[0].emit(incident{ID: "2", Severity: "P1"})
	f.soon("the subscription that began after the order", func() bool { return f.r.requestsTo(hook(0))[len(f.r.requestsTo(hook(0)))-1] == "2" })
}

func onceOverReplicas(f *fleet) {
	f.start(2)
	id := f.members[0].subscribe("ann", params(hook(0), secretA, "")).ID
	ctx := operator.WithKey(f.Context(), "k")
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			admin := f.members[i%2].Server.Admin()
			if number, err := admin.Resume(ctx, id); err != nil || number != 1 {
				f.Errorf("request %d, %v", number, err)
			}
			if eventID, err := admin.Test(ctx, id, []byte(`{"id":"1","severity":"P1"}`)); err != nil || eventID != "test_k" {
				f.Errorf("event %s, %v", eventID, err)
			}
		})
	}
	wg.Wait()
	f.soon("the test event", func() bool { return len(f.r.requestsTo(hook(0))) > 0 })
	f.idle()
	f.equal("the test event", f.r.requestsTo(hook(0)), "test_k")
}

// hooksRun tests that hooks are called with Restored set at a takeover. OnUnsubscribe is not called at a handover and
// is called once for an unsubscribe.
func hooksRun(f *fleet) {
	j := f.recordHooks()
	f.start(1)
	s := f.members[0].subscribe("ann", params(hook(0), secretA, ""))
	f.equal("subscribe at the owner", j.lines(), "on false")
	f.join()
	f.waitSettled()
	f.leave(f.members[0])
	f.waitSettled()
	f.join()
	f.waitSettled()
	f.leave(f.members[1])
	f.waitSettled()
	owner := f.owner(s.ID)
	owner.emit(incident{ID: "1"})
	f.soon("the subscription is restored", func() bool { return len(f.r.requestsTo(hook(0))) == 1 })
	for i, l := range j.lines() {
		if want := fmt.Sprint("on ", i > 0); l != want {
			f.Fatalf("hooks %v", j.lines())
		}
	}
	n := len(j.lines())
	owner.unsubscribe("ann", hook(0))
	f.equal("the end", j.lines()[n:], "off")
	asked := f.join()
	f.waitSettled()
	f.waitForOrders()  // until the owners of shards have read them
	for i := range 8 { // some of these live in another process
		n := len(j.lines())
		s := asked.subscribe("ann", params(hook(i+1), secretA, ""))
		want := []string{"on false"}
		if f.owner(s.ID) != asked {
			want = append(want, "on true")
		}
		f.soon("OnSubscribe", func() bool { return len(j.lines()) >= n+len(want) })
		id := fmt.Sprint("i", i)
		asked.emit(incident{ID: id})
		f.soon("the subscription is live", func() bool { return sameSet(f.r.requestsTo(hook(i+1)), []string{id}) })
		f.equal("the hooks of a subscribe", j.lines()[n:], want...)
		n = len(j.lines())
		asked.unsubscribe("ann", hook(i+1))
		f.soon("OnUnsubscribe", func() bool { return len(j.lines()) > n })
		f.equal("ended", j.lines()[n:], "off")
	}
}
