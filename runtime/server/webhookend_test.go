package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// TestEVOLByEnvelope changes a type while subscriptions live: exactly one terminated envelope, or
// none for an additive change, and the hooks in pairs (EVOL-1 to EVOL-3, HOOK-7, trap 10).
func TestEVOLByEnvelope(t *testing.T) {
	const widened = `{"type":"object","properties":{"id":{"type":"string"},"severity":{"type":"string"},"service":{"type":"string"},` +
		`"level":{"type":"number"},"tags":{"type":"array","items":{"type":"string"}},"secret":{"type":"string","maxLength":20},"note":{"type":"string"}},"required":["id"]}`
	for _, c := range []struct {
		name   string
		change func(w *world, h Hooks[filterArgs, incident]) error
		want   string // of the envelope; "" for none
	}{
		{"EVOL-1 removed", func(w *world, _ Hooks[filterArgs, incident]) error { return w.Remove("e") }, `terminated -32011 NotFound {"kind":"event"}`},
		{"EVOL-2 payloadSchema", func(w *world, h Hooks[filterArgs, incident]) error {
			typ := incidentType("e")
			typ.PayloadSchema = json.RawMessage(strings.Replace(incidentSchema, `"tags":{"type":"array","items":{"type":"string"}},`, "", 1))
			typ.Match = filterRules[:4]
			_, err := Register(w.Server, typ, h)
			return err
		}, `terminated -32014 Unsupported {"feature":"payloadSchema","reason":"schema_changed"}`},
		{"EVOL-2 inputSchema", func(w *world, h Hooks[filterArgs, incident]) error {
			typ := incidentType("e")
			typ.InputSchema = json.RawMessage(strings.Replace(filterSchema, `"enum":["P1","P2","P3"]`, `"enum":["P1","P2"]`, 1))
			_, err := Register(w.Server, typ, h)
			return err
		}, `terminated -32014 Unsupported {"feature":"inputSchema","reason":"schema_changed"}`},
		{"EVOL-3 additive", func(w *world, h Hooks[filterArgs, incident]) error {
			typ := incidentType("e")
			typ.PayloadSchema = json.RawMessage(widened)
			_, err := Register(w.Server, typ, h)
			return err
		}, ""},
		{"webhook taken away", func(w *world, h Hooks[filterArgs, incident]) error {
			_, err := Register(w.Server, incidentType("e"), h, WithoutWebhook())
			return err
		}, `terminated -32014 Unsupported {"feature":"deliveryMode","value":"webhook"}`},
	} {
		bubble(t, nil, func(t *testing.T, w *world) {
			hooks := &journal{}
			h := Hooks[filterArgs, incident]{
				OnSubscribe:   func(context.Context, Subscription, *filterArgs) error { hooks.add("on"); return nil },
				OnUnsubscribe: func(context.Context, Subscription, *filterArgs) { hooks.add("off") },
			}
			e := register(t, w.Server, "e", h)
			w.subscribe("alice", params(plain, secretA, ""))
			w.subscribe("alice", params(plain, secretA, `,"arguments":{"severity":"P1"}`))
			if err := c.change(w, h); err != nil {
				t.Fatal(c.name, err)
			}
			w.settle(time.Second)
			err := e.Emit(t.Context(), incident{ID: "i1", Severity: "P1"}, events.WithID("i1"))
			w.settle(time.Hour)
			want := []string{c.want, c.want}
			if c.want == "" {
				want = []string{"i1", "i1"}
				if err != nil {
					t.Error(err)
				}
			} else if n := len(hooks.lines()); n != 4 {
				t.Errorf("%s: hooks %q", c.name, hooks.lines())
			}
			if got := w.r.shorts(); !equalStrings(got, want) {
				t.Errorf("%s: delivered %q, want %q", c.name, got, want)
			}
			for _, d := range w.r.all() {
				if c.want != "" && (!d.signedBy(secretA) || !strings.HasPrefix(d.header.Get("webhook-id"), "msg_terminated_")) {
					t.Errorf("HOOK-7: %v", d.header)
				}
			}
		})
	}
}

// TestEVOL1RemovedAndBack removes a type and registers it again: new subscriptions work, and their
// places survive another restart.
func TestEVOL1RemovedAndBack(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))
		if err := w.Remove("e"); err != nil {
			t.Fatal(err)
		}
		_, rerr := call(w.Server, "alice", wire.MethodSubscribe, params(plain, secretA, ""))
		wantError(t, rerr, -32011, `{"kind":"event"}`)
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))
		w.settle(time.Second)
		w.r.on(refuseAll)
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		w.restart(nil)
		w.r.on(nil)
		before := len(w.r.all())
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.settle(time.Minute)
		wantStrings(t, "delivered", w.r.shorts()[before:], "i1")
	})
}

// TestAUTH2Webhooks asks again for live subscriptions periodically and on demand, and ends those
// that are refused with what the hook says; a hook that fails decides nothing (AUTH-2, LIST-4).
func TestAUTH2Webhooks(t *testing.T) {
	type gate struct {
		hidden bool
		err    error
	}
	for _, c := range []struct {
		name string
		now  gate
		do   func(w *world)
		want []string
	}{
		{"periodically", gate{err: events.Forbidden("expired")}, func(w *world) { w.settle(5 * time.Minute) }, []string{`terminated -32012 Forbidden {"reason":"expired"}`}},
		{"Recheck", gate{err: events.Forbidden("")}, func(w *world) { w.Reauthorize(context.Background(), "alice", "e") }, []string{`terminated -32012 Forbidden `}},
		{"a failing hook", gate{err: fmt.Errorf("database away: %w", events.NewError(wire.Internal, nil))}, func(w *world) { w.settle(20 * time.Minute) }, nil},
		{"LIST-4 hidden", gate{hidden: true}, func(w *world) { w.RefreshVisibility(context.Background()) }, []string{`terminated -32011 NotFound {"kind":"event"}`}},
		{"hidden, found by the next look", gate{hidden: true}, func(w *world) { w.settle(5 * time.Minute) }, []string{`terminated -32011 NotFound {"kind":"event"}`}},
		{"Revoke", gate{}, func(w *world) { w.Revoke(context.Background(), "alice") }, []string{`terminated -32012 Forbidden {"reason":"access revoked"}`}},
		{"Revoke of somebody else", gate{}, func(w *world) {
			w.Revoke(context.Background(), "bob")
			w.Revoke(context.Background(), "alice", "other")
		}, nil},
	} {
		var now atomic.Pointer[gate]
		now.Store(&gate{})
		bubble(t, func(o *Options) {
			o.Visible = func(context.Context, string, string) bool { return !now.Load().hidden }
			o.Authorize = func(context.Context, string, string, json.RawMessage) error { return now.Load().err }
		}, func(t *testing.T, w *world) {
			register(t, w.Server, "e", Hooks[filterArgs, incident]{})
			w.subscribe("alice", params(plain, secretA, ""))
			now.Store(&c.now)
			c.do(w)
			w.settle(time.Second)
			if got := w.r.shorts(); !equalStrings(got, c.want) {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
			if c.want != nil {
				w.nothingLeft(nil)
			}
			// Whatever is refused now, unsubscribing is not (SUB-9).
			raw, rerr := call(w.Server, "alice", wire.MethodUnsubscribe, `{"name":"e","delivery":{"url":"`+plain+`"}}`)
			if c.want == nil && rerr != nil {
				t.Errorf("%s: unsubscribe %s %v", c.name, raw, rerr)
			}
		})
	}
}

// TestLIST3Webhook lists webhook to callers with a principal when it is configured, and nowhere
// else (LIST-3).
func TestLIST3Webhook(t *testing.T) {
	modes := func(s *Server, principal string) string {
		raw, rerr := call(s, principal, wire.MethodList, `{}`)
		if rerr != nil {
			t.Fatal(rerr)
		}
		var r wire.ListResult
		json.Unmarshal(raw, &r)
		var out []string
		for _, d := range r.Events {
			out = append(out, d.Name+":"+strings.Join(d.Delivery, ","))
		}
		return strings.Join(out, " ")
	}
	fill := func(s *Server) {
		register(t, s, "all", Hooks[filterArgs, incident]{})
		register(t, s, "without", Hooks[filterArgs, incident]{}, WithoutWebhook())
		register(t, s, "only", Hooks[filterArgs, incident]{}, WithoutPoll(), WithoutPush())
		typ := incidentType("named")
		typ.Delivery = []string{"push", "webhook"}
		if _, err := Register(s, typ, Hooks[filterArgs, incident]{}); err != nil {
			t.Fatal(err)
		}
	}
	s := newServer(t, Options{Webhooks: webhooks.New(webhooks.Options{})})
	fill(s)
	if got := modes(s, "alice"); got != "all:poll,push,webhook without:poll,push only:webhook named:push,webhook" {
		t.Error(got)
	}
	if got := modes(s, ""); got != "all:poll,push without:poll,push named:push" {
		t.Error("without a principal:", got)
	}
	s = newServer(t, Options{})
	fill(s)
	if got := modes(s, "alice"); got != "all:poll,push without:poll,push named:push" {
		t.Error("without webhooks:", got)
	}
}

// TestHOOK1EmitLimit refuses a payload that no webhook body could hold, when the type offers
// webhook, and sends the largest possible one (HOOK-1).
func TestHOOK1EmitLimit(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.subscribe("alice", params(plain, secretA, ""))
		big := func(n int) incident { return incident{ID: strings.Repeat("x", n-len(`{"id":""}`))} }
		if err := e.Emit(t.Context(), big(wire.MaxPayload+1), events.WithID("too big")); err == nil {
			t.Error("an id with a blank is accepted")
		}
		if err := e.Emit(t.Context(), big(wire.MaxPayload+1)); !errors.Is(err, events.ErrTooLarge) {
			t.Errorf("got %v", err)
		}
		if err := e.Emit(t.Context(), big(wire.MaxPayload-100), events.WithMeta(map[string]any{"a": strings.Repeat("x", 200)})); !errors.Is(err, events.ErrTooLarge) {
			t.Errorf("with _meta: got %v", err)
		}
		if err := e.Emit(t.Context(), big(wire.MaxPayload), events.WithID(strings.Repeat("e", 256))); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Second)
		if d := w.r.last(); len(d.raw) > wire.MaxBody || len(d.raw) < wire.MaxPayload || !d.signedBy(secretA) {
			t.Errorf("%d bytes", len(d.raw))
		}
		none := register(t, w.Server, "none", Hooks[filterArgs, incident]{}, WithoutWebhook())
		if err := none.Emit(t.Context(), big(wire.MaxPayload+1)); err != nil {
			t.Errorf("without webhook: %v", err)
		}
	})
}

// TestSRV2TargetedWebhook emits to a subscription by its id (SRV-2).
func TestSRV2TargetedWebhook(t *testing.T) {
	bubble(t, durably, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		a := w.subscribe("alice", params(plain, secretA, ""))
		w.subscribe("bob", params(plain, secretA, ""))
		w.r.on(refuseAll)
		if err := e.Emit(t.Context(), incident{ID: "i1"}, events.To(a.ID), events.WithID("i1")); err != nil {
			t.Fatal(err)
		}
		w.settle(time.Second)
		w.restart(nil) // targets are stored in the log
		w.r.on(nil)
		before := len(w.r.all())
		register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		w.settle(time.Minute)
		wantStrings(t, "delivered", w.r.shorts()[before:], "i1")
		if got := w.r.last().header.Get("X-MCP-Subscription-Id"); got != a.ID {
			t.Error(got)
		}
	})
}

// TestTrap6UnsubscribeResubscribe answers late for a subscription that was ended and begun anew: the answer counts
// nothing for the new one (trap 6, HOOK-6). subscriber.newGeneration carries it, and the comparison of generations in
// the stores and in subscriber.trimmingStore.SaveProgress.
func TestTrap6UnsubscribeResubscribe(t *testing.T) {
	bubble(t, nil, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		s := w.subscribe("alice", params(plain, secretA, ""))
		first := true
		w.r.on(func(rw http.ResponseWriter, d *delivered) bool {
			if first {
				first = false
				time.Sleep(3 * time.Second) // answers 200 when its subscription has ended
			}
			return false
		})
		emit(t, e, incident{ID: "i1"})
		w.settle(time.Second)
		w.unsubscribe("alice", plain)
		again := w.subscribe("alice", params(plain, secretA, fmt.Sprintf(`,"cursor":%q`, *s.Cursor)))
		if again.ID != s.ID || *again.Cursor != *s.Cursor {
			t.Errorf("%+v", again)
		}
		w.settle(time.Minute)
		wantStrings(t, "delivered", w.r.shorts(), "i1", "i1")
		if i, err := w.Admin().Get(t.Context(), s.ID); err != nil || i.State != operator.StateActive {
			t.Errorf("%+v %v", i, err)
		}
	})
}

// TestLogsTellNoSecrets looks for secrets, payloads and what endpoints said in all that is logged.
func TestLogsTellNoSecrets(t *testing.T) {
	var logs bytes.Buffer
	bubble(t, func(o *Options) {
		o.Logger = slog.New(slog.NewJSONHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}, func(t *testing.T, w *world) {
		e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
		s := w.subscribe("alice", params(plain+"?token=URLSECRET", secretA, ""))
		w.subscribe("alice", params(plain+"?token=URLSECRET", secretB, ""))
		w.r.on(func(rw http.ResponseWriter, d *delivered) bool { http.Error(rw, "ENDPOINTSAID", 500); return true })
		emit(t, e, incident{ID: "i1", Secret: "PAYLOAD"})
		w.settle(time.Hour)
		w.Shutdown(t.Context())
		text := logs.String()
		for _, secret := range []string{"whsec_", "AAAAAAAA", "URLSECRET", "ENDPOINTSAID", "PAYLOAD"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is logged: %s", secret, text)
			}
		}
		if !strings.Contains(text, s.ID) {
			t.Errorf("the subscription is not named: %s", text)
		}
	})
}

// TestPresetChatGPT: what it sets and refuses, and that it changes nothing else.
func TestPresetChatGPT(t *testing.T) {
	w := webhooks.PresetChatGPT(webhooks.Options{MaxTTL: time.Hour})
	if !w.IdempotentUnsubscribe || !w.RequireDurableStore || w.MaxTTL != time.Hour {
		t.Errorf("%+v", w)
	}
	o := Options{Webhooks: webhooks.New(w)}
	if _, err := newServerErr(o); err == nil || !strings.Contains(err.Error(), "durable") {
		t.Errorf("ChatGPT without a durable store: %v", err)
	}
	o.Store = durableMemory{memory.New()}
	s := newServer(t, o)
	register(t, s, "e", Hooks[filterArgs, incident]{})
	raw, rerr := call(s, "alice", wire.MethodUnsubscribe, `{"name":"e","delivery":{"url":"x"}}`)
	if rerr != nil || string(raw) != `{"resultType":"complete"}` {
		t.Errorf("D6: %s %v", raw, rerr)
	}
	raw, err := s.inside().Call(t.Context(), port.Request{Method: wire.MethodUnsubscribe, Params: []byte(`{"name":"e","delivery":{"url":"x"}}`), Principal: "alice"})
	if err != nil || string(raw) != `{}` {
		t.Errorf("D6, D3: %s %v", raw, err)
	}
	sep := newServer(t, Options{Codes: CodesSEP, Webhooks: webhooks.New(webhooks.Options{})})
	_, rerr = call(sep, "alice", wire.MethodUnsubscribe, `{"name":"e","delivery":{"url":"x"}}`)
	wantError(t, rerr, -32023, `{"kind":"subscription"}`)
}

func newServerErr(o Options) (*Server, error) {
	return New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil), o.withParts())
}
