package operate_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/operators/operate"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// SRV-8: an operator subscribes for a principal, finds the subscription, sees it suspended, resumes it, goes back and
// ends it.
func TestSRV8Webhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := receive(t)
		b := newBed(t, setup{r: r, suspend: webhooks.Suspension{Rate: 0.5, Min: 2, Window: time.Hour, Span: -1}})
		e := b.event("e")
		ctx := t.Context()
		ann, bob := b.subscribe("ann"), b.subscribe("bob")
		if ann != wire.SubscriptionID(wire.ModeWebhook, "ann", plain, "e", []byte("{}")) {
			t.Errorf("the id is %s", ann)
		}
		all, err := b.List(ctx, "", 10)
		if err != nil || len(all) != 2 || all[0].ID >= all[1].ID {
			t.Fatalf("%+v %v", all, err)
		}
		if rest, err := b.List(ctx, all[0].ID, 10); err != nil || len(rest) != 1 || rest[0].ID != all[1].ID {
			t.Errorf("%+v %v", rest, err)
		}
		began, err := b.Get(ctx, ann)
		if err != nil || began.Cursor == nil || began.Behind == nil || *began.Behind != 0 || began.ExpiresAt.Sub(began.CreatedAt) != time.Hour {
			t.Fatalf("%+v %v", began, err)
		}
		key := operator.SubscriptionKey{Principal: "ann", URL: plain, Event: "e", Arguments: json.RawMessage(` {} `)}
		if i, err := b.Lookup(ctx, key); err != nil || i.ID != ann || i.State != operator.StateActive {
			t.Errorf("%+v %v", i, err)
		}
		key.Principal = "eve"
		missing(t, "another principal's", errorOf(b.Lookup(ctx, key)))
		key.Arguments = json.RawMessage(`{"severity":"P1"}`)
		id, err := b.Subscribe(ctx, operator.SubscribeRequest{SubscriptionKey: key, Secret: secret})
		must(t, err)
		key.Arguments = json.RawMessage(`{ "severity": "\u00501" }`)
		if i, err := b.Lookup(ctx, key); err != nil || i.ID != id || string(i.Arguments) != `{"severity":"P1"}` {
			t.Errorf("with other spellings of its arguments: %+v %v", i, err)
		}
		must(t, b.End(ctx, id, nil))
		settle(time.Second)
		r.all()
		key.Arguments = json.RawMessage(`{"a":1,"a":2}`)
		if _, err := b.Lookup(ctx, key); !errors.Is(err, events.ErrInvalidParams) {
			t.Errorf("malformed arguments: %v", err)
		}
		state := func(want operator.State) {
			t.Helper()
			if st, err := b.State(ctx, ann); st != want || err != nil {
				t.Errorf("%s %v, want %s", st, err, want)
			}
		}

		must(t, b.End(ctx, bob, events.NewError(wire.NotFound, nil)))
		settle(time.Second)
		r.want(t, "at the end", "terminated ")
		r.on(refuse)
		e.Emit(incident{ID: "1"})
		settle(time.Minute)
		state(operator.StateSuspended)
		f, err := b.Failing(ctx, 10)
		if err != nil || f.Total != 1 || len(f.Longest) != 1 || f.Longest[0].ID != ann || f.Longest[0].LastError == "" || f.Longest[0].FailedSince.IsZero() {
			t.Errorf("failing: %+v %v", f, err)
		}
		r.on(nil)
		r.all()
		must(t, b.Resume(ctx, ann))
		settle(time.Minute)
		state(operator.StateActive)
		r.want(t, "resumed", "1")
		must(t, b.Replay(ctx, ann, *began.Cursor, 0))
		settle(time.Minute)
		r.want(t, "replayed", "1")
		if err := b.Replay(ctx, ann, "nonsense", 0); !errors.Is(err, events.ErrInvalidParams) || !strings.Contains(err.Error(), ann) {
			t.Errorf("a malformed cursor: %v", err)
		}

		for range 2 {
			must(t, b.Pause(ctx, ann))
		}
		state(operator.StatePaused)
		e.Emit(incident{ID: "2"})
		settle(time.Minute)
		r.want(t, "paused")
		must(t, b.Unpause(ctx, ann))
		settle(time.Minute)
		r.want(t, "unpaused", "2")

		must(t, b.End(ctx, ann, nil))
		settle(time.Second)
		r.want(t, "ended", `terminated {"reason":"access revoked"}`)
		state(operator.StateAbsent)
		for what, err := range map[string]error{"End": b.End(ctx, ann, nil), "Resume": b.Resume(ctx, ann), "Replay": b.Replay(ctx, ann, "", 0),
			"Pause": b.Pause(ctx, ann), "Unpause": b.Unpause(ctx, ann), "Get": errorOf(b.Get(ctx, ann))} {
			missing(t, what, err)
		}
	})
}

// SRV-8, VER-1: what an operator subscribes is checked, needs no handshake, and ends in time.
func TestSRV8Subscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r, e := serve(t)
		b.event("poll-only", server.WithoutWebhook())
		b.event("gone")
		must(t, b.es.Remove("gone"))
		good := operator.SubscribeRequest{SubscriptionKey: operator.SubscriptionKey{Principal: "ann", URL: plain, Event: "e"}}
		with := func(change func(*operator.SubscribeRequest)) operator.SubscribeRequest {
			r := good
			change(&r)
			return r
		}
		for what, c := range map[string]struct {
			r    operator.SubscribeRequest
			want string
		}{
			"unknown type":  {with(func(r *operator.SubscribeRequest) { r.Event = "nope" }), "NotFound"},
			"removed type":  {with(func(r *operator.SubscribeRequest) { r.Event = "gone" }), "NotFound"},
			"no webhooks":   {with(func(r *operator.SubscribeRequest) { r.Event = "poll-only" }), "Unsupported"},
			"no principal":  {with(func(r *operator.SubscribeRequest) { r.Principal = "" }), "no principal"},
			"bad arguments": {with(func(r *operator.SubscribeRequest) { r.Arguments = json.RawMessage(`{"x":1}`) }), "Invalid"},
			"bad URL":       {with(func(r *operator.SubscribeRequest) { r.URL = "http://other.test/" }), "https"},
			"bad secret":    {with(func(r *operator.SubscribeRequest) { r.Secret = "short" }), "whsec_"},
		} {
			id, err := b.Subscribe(t.Context(), c.r)
			if err == nil || id != "" || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "registering a webhook subscription to "+c.r.Event+": ") {
				t.Errorf("%s: %q %v", what, id, err)
			}
		}
		good.TTL = 10 * time.Minute
		id, err := b.Subscribe(t.Context(), good)
		must(t, err)
		if i, err := b.Get(t.Context(), id); err != nil || i.ExpiresAt.Sub(i.CreatedAt) != good.TTL {
			t.Errorf("%+v %v", i, err)
		}
		e.Emit(incident{ID: "1"})
		settle(time.Second)
		r.want(t, "without a handshake", "1")
		good.TTL = -1
		if again, err := b.Subscribe(t.Context(), good); err != nil || again != id {
			t.Errorf("a refresh: %s %v", again, err)
		}
		if i, err := b.Get(t.Context(), id); err != nil || i.ExpiresAt.Sub(i.RefreshedAt) != time.Hour {
			t.Errorf("no expiry where none is granted: %+v %v", i, err)
		}
		settle(time.Hour)
		missing(t, "at its end", errorOf(b.Get(t.Context(), id)))
		if all, err := b.List(t.Context(), "", 10); err != nil || len(all) > 0 && all[0].State != operator.StateAbsent {
			t.Errorf("%+v %v", all, err)
		}
	})
}

// SRV-8: the operator of a server without webhooks meets errors, no panics.
func TestSRV8WithoutWebhooks(t *testing.T) {
	b := newBed(t, setup{without: true})
	b.event("e")
	ctx := t.Context()
	if l, err := b.List(ctx, "", 1); len(l) != 0 || err != nil {
		t.Error(l, err)
	}
	if f, err := b.Failing(ctx, 1); len(f.Longest) != 0 || f.Total != 0 || err != nil {
		t.Error(f, err)
	}
	if st, err := b.State(ctx, "sub_0"); st != operator.StateAbsent || err != nil {
		t.Error(st, err)
	}
	for what, err := range map[string]error{"Resume": b.Resume(ctx, "x"), "Pause": b.Pause(ctx, "x"), "Replay": b.Replay(ctx, "x", "", 0),
		"End": b.End(ctx, "x", nil), "Attempts": errorOf(b.Attempts(ctx, "x")), "SendAgain": errorOf(b.SendAgain(ctx, "x", "1", time.Time{}))} {
		missing(t, what, err)
	}
	for _, err := range []error{errorOf(b.Subscribe(ctx, operator.SubscribeRequest{})), errorOf(b.AllowOrigin("http://127.0.0.1:1"))} {
		if !errors.Is(err, operate.ErrNoWebhooks) {
			t.Error(err)
		}
	}
	must(t, b.Revoke(ctx, "ann", nil))
	must(t, b.Reauthorize(ctx, "ann", nil))
	must(t, b.RefreshVisibility(ctx))
	if n, err := b.RaiseGap(ctx, operator.Target{Event: "e"}); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// SRV-8: what the store says is told with what was asked of it.
func TestSRV8StoreFails(t *testing.T) {
	st := newFailingStore()
	b := newBed(t, setup{store: st})
	b.event("e")
	id := b.subscribe("ann")
	st.fail(errTest)
	for what, err := range map[string]error{"listing webhook subscriptions": errorOf(b.List(t.Context(), "", 1)),
		"reading webhook subscription " + id: errorOf(b.Get(t.Context(), id)), "reading webhook subscription x": errorOf(b.State(t.Context(), "x")),
		"replaying webhook subscription x": b.Replay(t.Context(), "x", "", 0)} {
		if !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), what+": ") {
			t.Errorf("%s: %v", what, err)
		}
	}
	st.fail(nil)
	must(t, errorOf(b.Get(t.Context(), id)))
}

// SUB-5: a record whose time is over is none any more, also while nobody has deleted it.
func TestSUB5LapsedRecord(t *testing.T) {
	st := memory.New()
	_, err := st.PutSubscription(t.Context(), store.Subscription{ID: "sub_1", Event: "e", Generation: 1, ExpiresAt: time.Now().Add(-time.Second)})
	must(t, err)
	b := newBed(t, setup{store: st})
	missing(t, "Get", errorOf(b.Get(t.Context(), "sub_1")))
	missing(t, "End", b.End(t.Context(), "sub_1", nil))
	if all, err := b.List(t.Context(), "", 10); err != nil || len(all) != 1 || all[0].State != operator.StateAbsent {
		t.Errorf("%+v %v", all, err)
	}
}
