package operate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/memcluster"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/ring"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// silence makes orders to other processes fail.
func silence(st *memcluster.Store) {
	st.Inject(memcluster.Faults{Fail: func(op string) error {
		if strings.HasSuffix(op, " "+engine.ControlLog) {
			return errTest
		}
		return nil
	}})
}

// SRV-8, PUSH-5, PUSH-7, HOOK-7: an error and a gap are raised for a type or for the subscriptions of an id, and others
// are told to do the same. A gap moves the log on once.
func TestSRV8Raise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		st := memcluster.New().Open()
		b := newBed(t, setup{r: r, store: st})
		e, quiet := b.event("e"), b.event("quiet")
		settle(time.Second) // until the process owns its shards
		ann := b.stream(e, "ann")
		b.stream(e, "bob")
		b.stream(quiet, "eve")
		id := b.subscribe("ann")
		ctx := t.Context()
		ofType, ofStream := operator.Target{Event: "e"}, operator.Target{ID: ann.id}

		if n, err := b.RaiseError(ctx, ofType, events.Upstream("maintenance")); n != 2 || err != nil {
			t.Error(n, err)
		}
		if n, err := b.RaiseError(ctx, ofStream, events.Upstream("yours")); n != 1 || err != nil {
			t.Error(n, err)
		}
		if n, err := b.RaiseError(ctx, operator.Target{ID: id}, events.Upstream("no")); n != 0 || err != nil {
			t.Errorf("a webhook knows no errors: %d %v", n, err)
		}
		settle(time.Second)
		b.want(t, "errors", `ann hears: UpstreamError {"reason":"maintenance"}`, `ann hears: UpstreamError {"reason":"yours"}`,
			`bob hears: UpstreamError {"reason":"maintenance"}`)

		before := ann.cursor
		if n, err := b.RaiseGap(ctx, ofType); n != 3 || err != nil || e.Head() != 1 || quiet.Head() != 0 {
			t.Errorf("%d %v, marked up to %d and %d", n, err, e.Head(), quiet.Head())
		}
		settle(time.Second)
		if n, err := b.RaiseGap(ctx, operator.Target{ID: id}); n != 1 || err != nil || e.Head() != 2 {
			t.Errorf("%d %v, marked up to %d", n, err, e.Head())
		}
		settle(time.Second)
		if i, err := b.Get(ctx, id); err != nil || !i.Truncated {
			t.Errorf("%+v %v", i, err)
		}
		r.want(t, "gaps", "gap", "gap")
		b.want(t, "gaps", "ann hears: a gap", "bob hears: a gap")
		if ann.cursor == before {
			t.Error("the cursor of the gap is that before it")
		}
		missing(t, "a gap of an unknown type", errorOf(b.RaiseGap(ctx, operator.Target{Event: "nope"})))
		missing(t, "an error of an unknown type", errorOf(b.RaiseError(ctx, operator.Target{Event: "nope"}, nil)))

		// A target that is not here may be elsewhere.
		elsewhere := operator.Target{ID: "sub_x"}
		for _, err := range []error{errorOf(b.RaiseGap(ctx, elsewhere)), errorOf(b.RaiseError(ctx, elsewhere, events.Upstream("u"))), errorOf(b.Terminate(ctx, elsewhere, nil))} {
			must(t, err)
		}
		silence(st)
		for what, err := range map[string]error{"raising a gap": errorOf(b.RaiseGap(ctx, ofType)), "raising an error": errorOf(b.RaiseError(ctx, elsewhere, nil))} {
			if !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), what+": ") {
				t.Errorf("%s, where telling fails: %v", what, err)
			}
		}
		settle(time.Second)
		b.want(t, "what others cannot be told happens here", "ann hears: a gap", "bob hears: a gap")
		st.Inject(memcluster.Faults{Fail: func(op string) error {
			if op == "CatchUp "+engine.ControlLog {
				return errTest
			}
			return nil
		}})
		if err := errorOf(b.RaiseGap(ctx, ofType)); !errors.Is(err, errTest) {
			t.Errorf("a gap whose position cannot be read: %v", err)
		}
		settle(time.Second)
		b.want(t, "whose position cannot be read", "ann hears: a gap", "bob hears: a gap")
		st.Inject(memcluster.Faults{Fail: func(string) error { return errTest }})
		if _, err := b.Terminate(ctx, ofType, nil); !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), "terminating: ") {
			t.Errorf("a termination that cannot be stored: %v", err)
		}
		settle(time.Second)
		b.want(t, "a termination that cannot be stored")
		st.Inject(memcluster.Faults{})
	})
}

// CUR-7: a type without replay has no gap to tell of, whoever the target is, and nobody is told anything.
func TestCUR7NoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		e := b.register(events.Info{Name: "e", NoReplay: true})
		st := b.stream(e, "ann")
		id := b.subscribe("bob")
		if err := b.Replay(t.Context(), id, "x", 0); !errors.Is(err, events.ErrUnsupported) {
			t.Errorf("a replay: %v", err)
		}
		for _, target := range []operator.Target{{Event: "e"}, {ID: st.id}, {ID: id}} {
			n, err := b.RaiseGap(t.Context(), target)
			if n != 0 || !errors.Is(err, events.ErrUnsupported) || !strings.HasPrefix(err.Error(), "raising a gap: event type e has no replay") {
				t.Errorf("%+v: %d %v", target, n, err)
			}
		}
		settle(time.Second)
		r.want(t, "the webhook")
		b.want(t, "the stream")
		if e.Head() != 0 {
			t.Error("its log is marked")
		}
	})
}

// SRV-8, PUSH-6: a terminated type stays closed until it is registered again; a terminated subscription just ends.
func TestSRV8Terminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		other := b.event("other")
		b.stream(e, "ann")
		bob := b.stream(e, "bob")
		b.stream(other, "eve")
		b.poller(e, "ann")
		b.poller(other, "eve")
		ann, id := b.subscribe("ann"), b.subscribe("bob")
		ctx := t.Context()
		if n, err := b.Terminate(ctx, operator.Target{ID: id}, events.NewError(wire.NotFound, nil)); n != 1 || err != nil {
			t.Error(n, err)
		}
		if n, err := b.Terminate(ctx, operator.Target{ID: bob.id}, nil); n != 1 || err != nil {
			t.Error(n, err)
		}
		settle(time.Second)
		r.want(t, "one webhook", "terminated ")
		b.want(t, "one stream", `push bob ends: Forbidden {"reason":"terminated"}`)

		missing(t, "an unknown type", errorOf(b.Terminate(ctx, operator.Target{Event: "nope"}, nil)))
		if n, err := b.Terminate(ctx, operator.Target{Event: "e"}, events.Forbidden("closed")); n != 2 || err != nil {
			t.Error(n, err)
		}
		settle(time.Second)
		r.want(t, "the type's webhook", `terminated {"reason":"closed"}`)
		b.want(t, "the type's", `push ann ends: Forbidden {"reason":"closed"}`)
		if got := b.pollers(); !slices.Equal(got, []string{"eve"}) {
			t.Errorf("%q poll", got)
		}
		missing(t, "the type's webhook", errorOf(b.Get(ctx, ann)))
		// The type stays closed in all modes, after the check of the mode.
		const webhook = `{"name":"e","delivery":{"mode":"webhook","url":"` + plain + `","secret":"` + secret + `"}}`
		inside := port.Of(b.es)
		for what, c := range map[string]struct {
			err  error
			code int64
		}{
			"poll":              {b.poll(e, "ann"), -32012},
			"stream":            {errorOf(inside.Open(ctx, b.request(wire.MethodStream, "ann", `{"name":"e"}`))), -32012},
			"webhook":           {errorOf(inside.Call(ctx, b.request(wire.MethodSubscribe, "ann", webhook))), -32012},
			"subscribe by push": {errorOf(inside.Call(ctx, b.request(wire.MethodSubscribe, "ann", strings.Replace(webhook, `"webhook"`, `"push"`, 1)))), -32014},
		} {
			if refused, ok := errors.AsType[*jsonrpc.Error](c.err); !ok || refused.Code != c.code {
				t.Errorf("%s of the closed type: %v, want %d", what, c.err, c.code)
			}
		}
		must(t, b.poll(other, "ann"))

		must(t, b.poll(b.event("e"), "ann")) // a registration opens it again
	})
}

// AUTH-2: a revoked principal's subscriptions end with what the hooks say, or as revoked; others go on. Every process
// does so.
func TestAUTH2Revoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		st := memcluster.New().Open()
		b := newBed(t, setup{r: r, store: st})
		e, f := b.event("e"), b.event("f")
		settle(time.Second) // until the process owns its shards
		open := func() {
			for _, p := range []string{"ann", "bob"} {
				b.stream(e, p)
				b.stream(f, p)
				b.poller(e, p)
				b.subscribe(p)
			}
		}
		open()
		b.stream(e, "ann") // the same subscription twice
		n, err := b.RevokePrincipal(t.Context(), "ann", "e")
		if n != 3 || err != nil {
			t.Errorf("%d subscriptions, %v", n, err)
		}
		settle(time.Second)
		const revoked = `Forbidden {"reason":"access revoked"}`
		b.want(t, "revoked", "push ann ends: "+revoked, "push ann ends: "+revoked)
		if got := b.pollers(); !slices.Equal(got, []string{"bob"}) {
			t.Errorf("%q poll", got)
		}
		r.want(t, "revoked", `terminated {"reason":"access revoked"}`)
		b.refused["bob"] = events.Forbidden("no more")
		must(t, b.Revoke(t.Context(), "bob", nil))
		settle(time.Second)
		b.want(t, "refused", `push bob ends: Forbidden {"reason":"no more"}`, `push bob ends: Forbidden {"reason":"no more"}`)
		if got := b.pollers(); len(got) != 0 {
			t.Errorf("%q poll", got)
		}
		r.want(t, "refused", `terminated {"reason":"no more"}`)
		silence(st)
		for what, err := range map[string]error{"revoking": b.Revoke(t.Context(), "nobody", nil), "checking again": b.Reauthorize(t.Context(), "nobody", nil),
			"refreshing what is visible": b.RefreshVisibility(t.Context())} {
			if !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), what+": ") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// AUTH-2, REP-13: a revocation ends a subscription that is being created, although the other processes cannot be told,
// and one that another process has admitted and that is being restored, although this process has not read the orders
// of that process.
func TestAUTH2RevokedInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		c := memcluster.New()
		st, other := c.Open(), c.Open()
		b := newBed(t, setup{r: r, store: st})
		asked, goOn := make(chan struct{}), make(chan struct{})
		hooks := server.Hooks[arguments, incident]{OnSubscribe: func(context.Context, server.Subscription, *arguments) error {
			asked <- struct{}{}
			<-goOn
			return nil
		}}
		info := events.Info{Name: "e", Description: "An incident.", InputSchema: json.RawMessage(inputSchema), PayloadSchema: json.RawMessage(`{"type":"object"}`)}
		emitter, err := server.Register(b.es, events.Type[arguments, incident]{Info: info}, hooks)
		must(t, err)
		e := &eventType{b: b, name: "e", emitter: emitter}
		settle(time.Second)

		created := make(chan string)
		go func() { created <- b.at("ann", "/hooks/1") }()
		<-asked
		silence(st)
		if err := b.Revoke(t.Context(), "ann", nil); !errors.Is(err, errTest) {
			t.Errorf("where telling fails: %v", err)
		}
		st.Inject(memcluster.Faults{})
		goOn <- struct{}{}
		id := <-created
		e.Emit(incident{ID: "1"})
		settle(time.Minute)
		r.want(t, "being created", `terminated {"reason":"access revoked"}`)

		silence(st)
		log, err := other.OpenLog(t.Context(), engine.ControlLog, store.LogOptions{})
		must(t, err)
		var head store.Position
		for i := range 5 {
			head, err = log.Append(t.Context(), store.Entry{EventID: fmt.Sprint("order_", i), Timestamp: events.NewTime(time.Now()), Data: json.RawMessage(`{"kind":"of a later build"}`)})
			must(t, err)
		}
		key, err := webhook.ParseSecret(secret)
		must(t, err)
		record := store.Subscription{ID: id, Principal: "ann", URL: origin + "/hooks/1", Event: "e", Arguments: json.RawMessage(`{}`), Generation: 9,
			Secrets: ring.Stored(webhook.NewRing(key)), Admitted: store.ControlPosition{Generation: other.Generation(), Position: head},
			CreatedAt: time.Now(), RefreshedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}
		must(t, errorOf(other.PutSubscription(t.Context(), record)))
		(&operate.Obeyer{Admin: b.Admin}).Changed(id, engine.Shard{Topic: "e"})
		<-asked
		st.Inject(memcluster.Faults{Fail: func(op string) error {
			if op == "news "+engine.ControlLog {
				return errTest
			}
			return nil
		}})
		must(t, b.Revoke(t.Context(), "ann", nil))
		goOn <- struct{}{}
		e.Emit(incident{ID: "2"})
		settle(time.Minute)
		r.want(t, "being restored", `terminated {"reason":"access revoked"}`)
		st.Inject(memcluster.Faults{})
	})
}

// AUTH-2: a revocation ends a subscription that was created before the clock was set back, and none that begins after it.
func TestAUTH2RevokeAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		st := memory.New()
		before := newBed(t, setup{r: r, store: st})
		before.event("e")
		id := before.subscribe("ann")
		must(t, before.es.Shutdown(t.Context()))
		record, _, err := st.Subscription(t.Context(), id)
		must(t, err)
		record.CreatedAt = record.CreatedAt.Add(30 * time.Second)
		must(t, errorOf(st.PutSubscription(t.Context(), record)))

		b := newBed(t, setup{r: r, store: st})
		e := b.event("e")
		settle(time.Second)
		must(t, b.Revoke(t.Context(), "ann", nil))
		e.Emit(incident{ID: "1"})
		settle(time.Second)
		r.want(t, "revoked", `terminated {"reason":"access revoked"}`)
		b.subscribe("ann")
		e.Emit(incident{ID: "2"})
		settle(time.Minute)
		r.want(t, "after the revocation", "2")
	})
}

// AUTH-2, LIST-4: what the hooks refuse or hide by now ends; a hook that fails decides nothing.
func TestAUTH2Reauthorize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		for _, p := range []string{"ann", "bob", "eve"} {
			b.stream(e, p)
			b.subscribe(p)
		}
		b.refused["ann"], b.refused["bob"] = events.Forbidden("no more"), events.Forbidden("no more")
		must(t, b.Reauthorize(t.Context(), "ann", []string{"e", "f"}))
		must(t, b.Reauthorize(t.Context(), "bob", []string{"f"}))
		settle(time.Second)
		b.want(t, "refused", `push ann ends: Forbidden {"reason":"no more"}`)
		r.want(t, "refused", `terminated {"reason":"no more"}`)
		b.hidden["bob"], b.hidden["eve"] = nil, errTest
		b.noteListChanged()
		must(t, b.RefreshVisibility(t.Context()))
		settle(time.Second)
		b.want(t, "hidden", `push bob ends: NotFound {"kind":"event"}`, "list changed")
		r.want(t, "hidden", `terminated {"kind":"event"}`)
		if got := b.log(); strings.Count(got, "asking Visible again") != 2 || !strings.Contains(got, errTest.Error()) {
			t.Errorf("logged: %s", got)
		}
	})
}
