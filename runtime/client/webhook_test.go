package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
)

// CLI-5: path and secret are made before events/subscribe, so that a challenge within that call is
// signature-checked and answered; events before its answer get 503; what follows is delivered once.
func TestCLI5Subscribe(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		h, cl := hooked(t, c, Options{})
		h.early = func(sub *hookSub) {
			if status := h.event(sub, 1, "c1"); status != 503 {
				t.Errorf("before the answer: %d", status)
			}
			if status := h.unsigned(sub.url); status != 401 {
				t.Errorf("a stranger's challenge: %d", status)
			}
		}
		h.emit(1)
		s := subscribe(t, cl, WithCursor("c0"))
		if s.Subscription().Mode() != wire.ModeWebhook {
			t.Fatalf("mode %s", s.Subscription().Mode())
		}
		p := h.calls()[0]
		path, under := strings.CutPrefix(p.Delivery.URL, "https://receiver.example/base/mcp/webhooks/")
		if !under || len(path) < 26 || p.Delivery.Mode != "webhook" || p.cursor() != "c0" || *p.TTLMs != 30*60*1000 || p.MaxAgeMs != nil {
			t.Errorf("params %+v", p)
		}
		h.deliver()
		sub := h.sub()
		if status := h.event(sub, 1, "c1"); status != 204 {
			t.Errorf("a repeated delivery: %d", status)
		}
		h.emit(2)
		h.deliver()
		r := read(t, s)
		r.want("e1", "e2", "e3")
		if s.Subscription().Cursor() != "c3" {
			t.Errorf("cursor %s", s.Subscription().Cursor())
		}
		other := *sub
		other.url += "x"
		if status := h.event(&other, 9, "c9"); status != 404 {
			t.Errorf("another path: %d", status)
		}
		other = *sub
		other.id = "sub_other"
		if status := h.event(&other, 9, "c9"); status != 503 {
			t.Errorf("another subscription: %d", status)
		}
		synctest.Wait()
		if st := s.Subscription().Status(); st.Received != 3 || st.RefreshBefore.IsZero() || st.Delivery != nil {
			t.Errorf("status %+v", st)
		}
	})
}

// CLI-1: webhook before push and poll, where it is configured; it can be forced, and gives way when
// the server refuses the mode.
func TestCLI1Webhook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cl := hooked(t, carriers[1], Options{})
		h.f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
		for mode, want := range map[string]string{"": "webhook", "auto": "webhook", "webhook": "webhook", "push": "push"} {
			if s := subscribe(t, cl, WithMode(mode)); s.Subscription().Mode() != want {
				t.Errorf("%q: %s", mode, s.Subscription().Mode())
			}
		}
		h.refuse = func(wire.SubscribeParams) *jsonrpc.Error {
			return h.f.err(wire.Unsupported, `{"feature":"deliveryMode","value":"webhook"}`)
		}
		if s := subscribe(t, cl); s.Subscription().Mode() != "push" {
			t.Errorf("refused: %s", s.Subscription().Mode())
		}
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil, WithMode("webhook")); !errors.Is(err, events.ErrUnsupported) {
			t.Error(err)
		}
		f := newFake(false)
		f.list = func() []wire.Descriptor { return []wire.Descriptor{descriptor("tick", "webhook")} }
		plain := connect(t, f, carriers[1], Options{})
		var none *NoCompatibleDeliveryModeError
		if _, err := Subscribe(t.Context(), plain, Dynamic("tick"), nil); !errors.As(err, &none) || len(none.Supported) != 2 {
			t.Errorf("without configuration: %v", err)
		}
	})
}

// CLI-5, D2: a refusal is the server's error in either family of codes, and nothing is left open.
func TestCLI5Refused(t *testing.T) {
	for _, codes := range []wire.Dialect{wire.Sketch, wire.SEP} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			h, cl := hooked(t, c, Options{})
			h.f.codes = codes
			h.refuse = func(p wire.SubscribeParams) *jsonrpc.Error {
				return h.f.err(wire.Forbidden, "")
			}
			if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil); !errors.Is(err, events.ErrForbidden) {
				t.Error(err)
			}
			if status := h.unsigned(h.calls()[0].Delivery.URL); status != 404 {
				t.Errorf("the path stays open: %d", status)
			}
			if n := len(h.unsubscribed); n != 0 {
				t.Errorf("%d goodbyes for what was refused", n)
			}
		})
	}
}

// CLI-5, SUB-9, D6: Close, the end of the context and the kill switch unsubscribe; that the server
// knows of nothing is as good; deliveries that come too late find nobody.
func TestCLI5Close(t *testing.T) {
	ways := map[string]func(cancel func(), s *rawSub, cl *Client){
		"Close":       func(_ func(), s *rawSub, _ *Client) { s.Close() },
		"context":     func(cancel func(), _ *rawSub, _ *Client) { cancel() },
		"kill switch": func(_ func(), _ *rawSub, cl *Client) { cl.Close() },
		"End":         func(_ func(), s *rawSub, cl *Client) { cl.End(s.Subscription().Status().ID) },
	}
	for name, end := range ways {
		for _, lost := range []bool{false, true} {
			eachCarrier(t, func(t *testing.T, c carrier) {
				callbacks := &clientmemory.Callbacks{}
				h, cl := hooked(t, c, Options{Cursors: clientmemory.NewCursors(), Webhook: &WebhookOptions{Callbacks: callbacks}})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				s, err := Subscribe(ctx, cl, Dynamic("tick"), nil, WithCursorKey("k"))
				if err != nil {
					t.Fatal(err)
				}
				sub := h.sub()
				if lost {
					h.lose()
				}
				end(cancel, s, cl)
				synctest.Wait()
				if len(h.unsubscribed) != 1 || h.unsubscribed[0] != sub.url || h.live() != 0 {
					t.Errorf("%s: unsubscribed %v, %d live", name, h.unsubscribed, h.live())
				}
				if status := h.event(sub, 1, "c1"); status != 404 {
					t.Errorf("%s: a late delivery: %d", name, status)
				}
				if _, ok, _ := callbacks.Callback(t.Context(), "k"); ok {
					t.Errorf("%s: the record stays", name)
				}
			})
		}
	}
}

// CLI-5: with Keep the subscription stays for a next process, which takes it up.
func TestCLI5Keep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := Options{Cursors: clientmemory.NewCursors(), Webhook: &WebhookOptions{Callbacks: &clientmemory.Callbacks{}, Keep: true}}
		h, cl := hooked(t, carriers[1], o)
		h.noReplay = true
		subscribe(t, cl)
		first := h.sub()
		cl.Close()
		if h.live() != 1 {
			t.Fatal("unsubscribed")
		}
		cl = h.client(carriers[1], o)
		s := subscribe(t, cl)
		if again := h.sub(); again != first || h.calls()[1].Delivery != h.calls()[0].Delivery {
			t.Error("another subscription")
		}
		h.emit(1)
		h.deliver()
		read(t, s).want("e1")
	})
}

// A server that does not answer holds Close up for a few seconds only, with a store or without.
func TestCLI5CloseStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cl := hooked(t, carriers[1], Options{})
		subscribe(t, cl)
		h.stuck = make(chan struct{})
		start := time.Now()
		cl.Close()
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("took %v", d)
		}
		close(h.stuck)
	})
}

// CLI-5, HOOK-7: a gap is an item of its own; CLI-7: a termination comes after everything that was
// answered for, and ends the subscription or has it made again, by what the reason says.
func TestCLI5Envelopes(t *testing.T) {
	for _, codes := range []wire.Dialect{wire.Sketch, wire.SEP} {
		for _, stored := range []bool{false, true} {
			eachCarrier(t, func(t *testing.T, c carrier) {
				o := Options{}
				if stored {
					o.Cursors = clientmemory.NewCursors()
					o.Webhook = &WebhookOptions{Received: clientmemory.NewReceived(o.Cursors)}
				}
				h, cl := hooked(t, c, o)
				h.f.codes = codes
				s := subscribe(t, cl)
				sub := h.sub()
				h.event(sub, 1, "c1")
				if status := h.gap(sub, "msg_gap_1", "c5"); status != 204 {
					t.Errorf("gap: %d", status)
				}
				h.send(sub, "msg_later_1", []byte(`{"type":"later","x":1}`))
				h.event(sub, 6, "c6")
				h.lose()
				if status := h.terminated(sub, wire.Unsupported, `{"feature":"payloadSchema","reason":"schema_changed"}`); status != 204 {
					t.Errorf("terminated: %d", status)
				}
				r := read(t, s)
				r.want("e1", "gap:c5", "e6")
				time.Sleep(5 * time.Second)
				if p := h.calls(); len(p) != 2 || p[1].cursor() != "c6" {
					t.Fatalf("subscribed again as %+v", p)
				}
				sub = h.sub()
				h.event(sub, 7, "c7")
				h.lose()
				h.terminated(sub, wire.Forbidden, `{"reason":"access revoked"}`)
				r.want("e7", "error", "end")
				var told *TerminatedError
				if !errors.As(r.err, &told) || !errors.Is(r.err, events.ErrForbidden) {
					t.Error(r.err)
				}
				if len(h.unsubscribed) != 0 || len(cl.Subscriptions()) != 0 {
					t.Errorf("unsubscribed %v", h.unsubscribed)
				}
			})
		}
	}
}

// CLI-5: without a store a delivery is accepted only when the queue took it; an application that
// does not read makes the server wait, and nothing is lost or doubled by that.
func TestCLI5QueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cl := hooked(t, carriers[1], Options{Buffer: 3})
		s := subscribe(t, cl)
		h.emit(10)
		h.deliver()
		if got := h.sub().settled; got < 2 || got > 3 {
			t.Fatalf("%d were accepted", got)
		}
		r := read(t, s)
		for n := range 10 {
			r.want(fmt.Sprint("e", n+1))
			h.deliver()
		}
	})
}

// CLI-10: the policy stands between receipt and the application; what it withholds was answered for
// and is gone.
func TestCLI10Webhook(t *testing.T) {
	for _, stored := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			cursors := clientmemory.NewCursors()
			o := Options{Cursors: cursors, Policy: func(_ context.Context, o events.Occurrence) error {
				if o.ID != "e3" {
					return errors.New("not wanted")
				}
				return nil
			}}
			received := clientmemory.NewReceived(cursors)
			if stored {
				o.Webhook = &WebhookOptions{Received: received}
			}
			h, cl := hooked(t, carriers[1], o)
			s := subscribe(t, cl, WithCursorKey("k"))
			h.emit(4)
			h.deliver()
			if h.sub().settled != 4 {
				t.Error("not accepted")
			}
			synctest.Wait() // what the policy withholds is passed when the application asks for the next item
			r := read(t, s)
			r.want("e3")
			if err := s.Subscription().Ack(); err != nil || saved(t, cursors, "k") != "c4" {
				t.Errorf("saved %s, %v", saved(t, cursors, "k"), err)
			}
			if left, _ := received.Received(t.Context(), "k", 0, 10); len(left) != 0 || s.Subscription().Status().Withheld != 3 {
				t.Errorf("%d bodies left, status %+v", len(left), s.Subscription().Status())
			}
		})
	}
}
