package clustertest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// revokeElsewhere tests that a subscription that began after the revocation continues.
func revokeElsewhere(f *fleet) {
	var hidden, refused atomic.Bool
	f.options.Visible = func(context.Context, string, string) bool { return !hidden.Load() }
	f.hooks.Authorize = func(context.Context, string, *filter) error {
		if refused.Load() {
			return events.Forbidden("no more")
		}
		return nil
	}
	f.start(2)
	n := 0
	begin := func() *member {
		f.Helper()
		s := f.members[0].subscribe("ann", params(hook(0), secretA, ""))
		n++
		id := fmt.Sprint("i", n)
		f.members[0].emit(incident{ID: id})
		f.soon("the first delivery", func() bool { return f.r.last().summary() == id })
		return f.other(s.ID)
	}
	ended := func(err error, want string) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
		f.soon(want, func() bool { return strings.HasPrefix(f.r.last().summary(), want) })
	}
	ended(begin().Revoke(f.Context(), "ann"), `terminated -32012 Forbidden {"reason":"access revoked"}`)
	f.waitForOrders() // until then, the order ends what begins at another process
	other := begin()
	f.repeatOrder()
	f.waitForOrders()
	f.members[0].emit(incident{ID: "after"})
	f.soon("the subscription that began after the revocation continues", func() bool { return f.r.last().summary() == "after" })
	refused.Store(true)
	ended(other.Reauthorize(f.Context(), "ann"), `terminated -32012 Forbidden {"reason":"no more"}`)
	refused.Store(false)
	other = begin()
	hidden.Store(true)
	ended(other.RefreshVisibility(f.Context()), "terminated -32011 NotFound")
	hidden.Store(false)
	_, err := begin().Admin().Terminate(f.Context(), operator.Target{Event: "e"}, events.Forbidden("closed"))
	ended(err, `terminated -32012 Forbidden {"reason":"closed"}`)
}

// requestedAtOnce tests a refresh and a revocation at each process that follow a subscribe at each other process, with no
// time in between. A clock that is ahead or behind does not change their order.
func requestedAtOnce(f *fleet) {
	f.start(3)
	eachPair := func(do func(pair, principal string, n int, first, second *member)) {
		f.Helper()
		for i, first := range f.members {
			for j, second := range f.members {
				n := len(f.members)*i + j
				do(fmt.Sprintf("%s, then %s", first.name, second.name), fmt.Sprint("p", n), 2*n, first, second)
			}
		}
	}
	eachPair(func(_, principal string, n int, first, second *member) {
		first.subscribe(principal, params(hook(n), secretA, ""))
		second.subscribe(principal, params(hook(n), secretB, ""))
	})
	f.waitForOrders()
	f.members[0].emit(incident{ID: "1"})
	eachPair(func(pair, _ string, n int, _, _ *member) {
		f.soon(pair+": the delivery", func() bool { return len(f.r.requestsTo(hook(n))) > 0 })
	})
	for _, d := range f.r.all() {
		if !d.signedBy(secretB) {
			f.Errorf("%s: the new secret does not sign", d.url)
		}
	}
	eachPair(func(_, principal string, n int, first, second *member) {
		first.subscribe(principal, params(hook(n+1), secretA, ""))
		if err := second.Revoke(f.Context(), principal); err != nil {
			f.Fatal(err)
		}
	})
	f.waitForOrders()
	f.members[0].emit(incident{ID: "late"})
	f.idle()
	const terminated = `terminated -32012 Forbidden {"reason":"access revoked"}`
	eachPair(func(pair, _ string, n int, _, _ *member) {
		f.equal(pair+": rotated", f.r.requestsTo(hook(n)), "1", terminated)
		f.equal(pair+": revoked", f.r.requestsTo(hook(n+1)), terminated)
	})
}

// repeatOrder appends the last order again, as if it had arrived late or twice.
func (f *fleet) repeatOrder() {
	f.Helper()
	ctx := f.Context()
	log, err := f.watch.OpenLog(ctx, engine.ControlLog, store.LogOptions{})
	if err != nil {
		f.Fatal(err)
	}
	_, head, err := log.Bounds(ctx)
	if err != nil || head == 0 {
		f.Fatalf("head %d, %v", head, err)
	}
	b, err := log.Read(ctx, head-1, 1)
	if err != nil {
		f.Fatal(err)
	}
	e := b.Entries[0]
	e.Position, e.EventID = 0, e.EventID+"again"
	if _, err := log.Append(ctx, e); err != nil {
		f.Fatal(err)
	}
}

// revokedWhileTakenUp tests the revocation of a subscription while its owner restores it. The subscription was created
// through another process, and the author's hook is slow. by returns the member that revokes it.
func revokedWhileTakenUp(f *fleet, by func(id string) *member) {
	asked, goOn := make(chan struct{}, 8), make(chan struct{})
	f.hooks.OnSubscribe = func(ctx context.Context, s server.Subscription, _ *filter) error {
		if !s.Restored {
			return nil
		}
		asked <- struct{}{}
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.start(2)
	const one = `,"arguments":{"severity":"P1"}`
	var s subscribeResult
	for i := 0; ; i++ {
		principal := fmt.Sprint("p", i)
		if s = f.members[0].subscribe(principal, params(hook(0), secretA, one)); f.owner(s.ID) != f.members[0] {
			break
		}
		if _, rerr := f.members[0].call(principal, wire.MethodUnsubscribe,
			fmt.Sprintf(`{"name":"e","arguments":{"severity":"P1"},"delivery":{"url":%q}}`, hook(0))); rerr != nil {
			f.Fatalf("unsubscribe: %d %s", rerr.Code, rerr.Message)
		}
	}
	<-asked
	r, _ := f.record(s.ID)
	if err := by(s.ID).Revoke(f.Context(), r.Principal); err != nil {
		f.Fatal(err)
	}
	f.alive()[0].emit(incident{ID: "late", Severity: "P1"})
	f.waitForOrders()
	close(goOn)
	f.soon("the envelope", func() bool { return len(f.r.requestsTo(hook(0))) > 0 })
	f.idle()
	f.equal("the revoked principal", f.r.requestsTo(hook(0)), `terminated -32012 Forbidden {"reason":"access revoked"}`)
	if _, there := f.record(s.ID); there {
		f.Error("the record still exists")
	}
}

// orderWaits tests an order that must wait because the preceding order calls a slow hook of the author. The hook takes
// longer than deliveries are allowed to continue.
func orderWaits(f *fleet) {
	waits, goOn := make(chan struct{}, 32), make(chan struct{})
	type quick struct{}
	var slow atomic.Bool
	f.hooks.Authorize = func(ctx context.Context, principal string, _ *filter) error {
		if principal != "bob" || !slow.Load() || ctx.Value(quick{}) != nil {
			return nil
		}
		waits <- struct{}{}
		select {
		case <-goOn:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	f.start(2)
	const one = `,"arguments":{"severity":"P1"}`
	s := f.members[0].subscribe("ann", params(hook(0), secretA, one))
	other := f.other(s.ID)
	for i := range 20 { // some of bob's subscriptions share the owner of ann's
		other.subscribe("bob", params(hook(i+1), secretA, fmt.Sprintf(`,"arguments":{"minLevel":%d}`, i)))
	}
	end := other.subscribe("eve", params(hook(30), secretA, one))
	f.soon("all are live", func() bool { return f.live() == 22 })
	st := f.owner(s.ID).stream("ann", `{"name":"e"`+one+`}`)
	slow.Store(true)
	if err := other.Reauthorize(context.WithValue(f.Context(), quick{}, true), "bob"); err != nil {
		f.Fatal(err)
	}
	<-waits // the owner calls the hook
	if err := other.Revoke(f.Context(), "ann"); err != nil {
		f.Fatal(err)
	}
	if err := other.Admin().End(f.Context(), end.ID, events.Forbidden("no more")); err != nil {
		f.Fatal(err)
	}
	f.waitForOrders()
	other.emit(incident{ID: "late", Severity: "P1"})
	f.waitForOrders()
	f.equal("the revoked principal's stream", st.ids())
	close(goOn)
	f.soon("the envelopes", func() bool { return len(f.r.requestsTo(hook(0))) > 0 && len(f.r.requestsTo(hook(30))) > 0 })
	f.idle()
	<-st.done
	f.equal("the revoked principal's stream", st.ids())
	f.equal("the revoked principal", f.r.requestsTo(hook(0)), `terminated -32012 Forbidden {"reason":"access revoked"}`)
	f.equal("the ended subscription", f.r.requestsTo(hook(30)), `terminated -32012 Forbidden {"reason":"no more"}`)
}

// unreadRevocation tests a process that does not read the control log, as after a pause of the process or in a partition,
// but receives occurrences. When it reads the log, it ends the revoked connections and serves the others.
func unreadRevocation(f *fleet) {
	if f.Silence == nil {
		f.Skip("the engine cannot hide appends")
	}
	f.start(2)
	frozen, other := f.members[0], f.members[1]
	ann, bob := frozen.stream("ann", `{"name":"e"}`), frozen.stream("bob", `{"name":"e"}`)
	cursor := frozen.poll(nil, "").Cursor
	f.Silence(frozen.store, engine.ControlLog)
	time.Sleep(2*time.Second + 100*time.Millisecond)
	polled := make(chan *jsonrpc.Error, 1)
	go func() {
		_, rerr := frozen.call("ann", wire.MethodPoll, fmt.Sprintf(`{"name":"e","cursor":%q,"timeoutMs":20000}`, *cursor))
		polled <- rerr
	}()
	time.Sleep(time.Second)
	if err := other.Revoke(f.Context(), "ann"); err != nil {
		f.Fatal(err)
	}
	other.emit(incident{ID: "1"})
	time.Sleep(3 * time.Second)
	f.equal("revoked, unread", ann.ids())
	f.equal("not revoked, unread", bob.ids())
	f.Silence(frozen.store, "no log")
	f.soon("the stream of another principal continues", func() bool { return len(bob.ids()) > 0 })
	<-ann.done
	f.equal("revoked", ann.ids())
	if rerr := <-polled; rerr == nil || !strings.Contains(string(rerr.Data), "access revoked") {
		f.Errorf("the revoked poll: %+v", rerr)
	}
}
