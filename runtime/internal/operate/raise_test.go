package operate

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype/eventtypetest"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
)

// SRV-8, PUSH-5, PUSH-7, HOOK-7: an error and a gap are raised for a type or for the subscriptions of an id, and others
// are told to do the same. A gap moves the log on once.
func TestSRV8Raise(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		e, quiet := b.event("e", true), b.event("quiet", true)
		ann := b.stream(e, "ann")
		b.stream(e, "bob")
		b.stream(quiet, "eve")
		id := b.subscribe("ann")
		ctx := t.Context()
		ofType, ofStream := operator.Target{Event: "e"}, operator.Target{ID: ann.info.Subscription}

		if n, err := b.RaiseError(ctx, ofType, events.Upstream("maintenance")); n != 2 || err != nil {
			t.Error(n, err)
		}
		if n, err := b.RaiseError(ctx, ofStream, events.Upstream("yours")); n != 1 || err != nil {
			t.Error(n, err)
		}
		if n, err := b.RaiseError(ctx, operator.Target{ID: id}, events.Upstream("no")); n != 0 || err != nil {
			t.Errorf("a webhook knows no errors: %d %v", n, err)
		}
		b.want(t, "errors", `ann hears: UpstreamError {"reason":"maintenance"}`, `ann hears: UpstreamError {"reason":"yours"}`,
			`bob hears: UpstreamError {"reason":"maintenance"}`)
		b.told.want(t, "told", `tell error e UpstreamError{"reason":"maintenance"}`, `tell error `+ofStream.ID+` UpstreamError{"reason":"yours"}`,
			"tell error "+id+` UpstreamError{"reason":"no"}`)

		if n, err := b.RaiseGap(ctx, ofType); n != 3 || err != nil || e.Head() != 1 || quiet.Head() != 0 {
			t.Errorf("%d %v, marked up to %d and %d", n, err, e.Head(), quiet.Head())
		}
		settle(time.Second)
		if n, err := b.RaiseGap(ctx, operator.Target{ID: id}); n != 1 || err != nil || e.Head() != 2 {
			t.Errorf("%d %v, marked up to %d", n, err, e.Head())
		}
		settle(time.Second)
		r.want(t, "gaps", "gap", "gap")
		b.want(t, "gaps", "ann hears: nothing", "bob hears: nothing")
		b.told.want(t, "told", "tell gap e") // the record says the other
		missing(t, "a gap of an unknown type", errorOf(b.RaiseGap(ctx, operator.Target{Event: "nope"})))
		missing(t, "an error of an unknown type", errorOf(b.RaiseError(ctx, operator.Target{Event: "nope"}, nil)))
		b.told.want(t, "nobody is told of a type that is not there")

		// What is not here may be elsewhere: somebody is asked.
		elsewhere := operator.Target{ID: "sub_x"}
		must(t, errorOf(b.RaiseGap(ctx, elsewhere)))
		must(t, errorOf(b.RaiseError(ctx, elsewhere, events.Upstream("u"))))
		must(t, errorOf(b.Terminate(ctx, elsewhere, nil)))
		b.told.want(t, "asked", "ask gap sub_x", `ask error sub_x UpstreamError{"reason":"u"}`, `ask terminate sub_x Forbidden{"reason":"terminated"}`)
		b.told.fails = errTest
		for what, err := range map[string]error{"raising a gap": errorOf(b.RaiseGap(ctx, ofType)), "raising an error": errorOf(b.RaiseError(ctx, elsewhere, nil)),
			"terminating": errorOf(b.Terminate(ctx, ofType, nil))} {
			if !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), what+": ") {
				t.Errorf("%s, where telling fails: %v", what, err)
			}
		}
		if e.Refuses() != nil || len(b.streams) != 3 {
			t.Error("a termination that cannot last is done")
		}
	})
}

// CUR-7: a type without replay has no gap to tell of, whoever the target is, and nobody is told anything.
func TestCUR7NoGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		p := eventtypetest.New(t, "e", eventtypetest.Options{Emits: true})
		p.Kernel().NoReplay = true
		e := b.register(p, true)
		st := b.stream(e, "ann")
		for _, target := range []operator.Target{{Event: "e"}, {ID: st.info.Subscription}, {ID: b.subscribe("bob")}} {
			n, err := b.RaiseGap(t.Context(), target)
			if n != 0 || !errors.Is(err, events.ErrUnsupported) || !strings.HasPrefix(err.Error(), "raising a gap: event type e has no replay") {
				t.Errorf("%+v: %d %v", target, n, err)
			}
		}
		settle(time.Second)
		r.want(t, "the webhook")
		b.want(t, "the stream")
		b.told.want(t, "other processes")
		if e.Head() != 0 {
			t.Error("its log is marked")
		}
	})
}

// SRV-8, PUSH-6: a terminated type stays closed until it is registered again; a terminated subscription just ends.
func TestSRV8Terminate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		e, other := b.event("e", true), b.event("other", true)
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
		if n, err := b.Terminate(ctx, operator.Target{ID: bob.info.Subscription}, nil); n != 1 || err != nil {
			t.Error(n, err)
		}
		settle(time.Second)
		r.want(t, "one webhook", "terminated ")
		b.want(t, "one stream", `push bob ends: Forbidden {"reason":"terminated"}`)
		b.told.want(t, "told", "tell terminate "+bob.info.Subscription+` Forbidden{"reason":"terminated"}`)

		missing(t, "an unknown type", errorOf(b.Terminate(ctx, operator.Target{Event: "nope"}, nil)))
		if n, err := b.Terminate(ctx, operator.Target{Event: "e"}, events.Forbidden("closed")); n != 2 || err != nil {
			t.Error(n, err)
		}
		settle(time.Second)
		r.want(t, "the type's webhook", `terminated {"reason":"closed"}`)
		b.want(t, "the type's", `push ann ends: Forbidden {"reason":"closed"}`, `poll ann ends: Forbidden {"reason":"closed"}`)
		b.told.want(t, "it lasts", "close e true", `tell terminate e Forbidden{"reason":"closed"}`)
		if e.Refuses() == nil || other.Refuses() != nil || b.webhooks.Get(ann) != nil {
			t.Errorf("closed: %v, another one: %v", e.Refuses(), other.Refuses())
		}

		must(t, b.Reopen(ctx, e))
		must(t, b.Reopen(ctx, other)) // it is open
		b.told.want(t, "open again", "close e false", "tell reopened e")
		b.told.fails = errTest
		if err := b.Reopen(ctx, e); !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), "opening it again: ") {
			t.Error(err)
		}
	})
}

// AUTH-2: a revoked principal's subscriptions end with what the hooks say, or as revoked; others go on. Every process
// does so.
func TestAUTH2Revoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		e, f := b.event("e", true), b.event("f", true)
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
		b.want(t, "revoked", "push ann ends: "+revoked, "push ann ends: "+revoked, `poll ann ends: Forbidden {"reason":"access revoked"}`)
		r.want(t, "revoked", `terminated {"reason":"access revoked"}`)
		b.told.want(t, "told", "tell revoke ann")
		b.refused["bob"] = events.Forbidden("no more")
		must(t, b.Revoke(t.Context(), "bob", nil))
		settle(time.Second)
		b.want(t, "refused", `push bob ends: Forbidden {"reason":"no more"}`, `push bob ends: Forbidden {"reason":"no more"}`, `poll bob ends: Forbidden {"reason":"no more"}`)
		r.want(t, "refused", `terminated {"reason":"no more"}`)
		b.told.fails = errTest
		for what, err := range map[string]error{"revoking": b.Revoke(t.Context(), "nobody", nil), "checking again": b.Reauthorize(t.Context(), "nobody", nil),
			"refreshing what is visible": b.RefreshVisibility(t.Context())} {
			if !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), what+": ") {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

// AUTH-2, LIST-4: what the hooks refuse or hide by now ends; a hook that fails decides nothing.
func TestAUTH2Reauthorize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r})
		e := b.event("e", true)
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
		must(t, b.RefreshVisibility(t.Context()))
		settle(time.Second)
		b.want(t, "hidden", `push bob ends: NotFound {"kind":"event"}`, "list changed")
		r.want(t, "hidden", `terminated {"kind":"event"}`)
		b.told.want(t, "told", "tell recheck ann", "tell recheck bob", "tell visibility")
		if got := b.log(); strings.Count(got, "asking Visible again") != 2 || !strings.Contains(got, errTest.Error()) {
			t.Errorf("logged: %s", got)
		}
	})
}
