package client

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// verified notes how callbacks were verified.
type verified struct {
	lasting
	ways chan string
}

func (v verified) PutVerification(ctx context.Context, r store.Verification) error {
	v.ways <- r.Method
	return v.lasting.PutVerification(ctx, r)
}

// VER-1: with WellKnown the embedded receiver's document stands for the challenge; the real server
// needs none, and events come.
func TestVER1WellKnown(t *testing.T) {
	w := newHookWire()
	for want, publish := range map[string]bool{"well-known": true, "challenge": false} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			o := w.server()
			ways := make(chan string, 99)
			o.Store = verified{o.Store.(lasting), ways}
			h := newHouse(t, c, o)
			hooks := w.options()
			hooks.WellKnown = publish
			s := h.subscribe(h.connect(Options{Webhook: hooks}), "")
			if got := <-ways; got != want {
				t.Errorf("verified by %s, want %s", got, want)
			}
			h.emit(1, 1)
			s.want("e1")
		})
	}
}

// VER-1: what cannot be published is refused when connecting.
func TestVER1WellKnownRefused(t *testing.T) {
	receiver, err := webhook.NewReceiver(webhook.ReceiverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	for want, o := range map[string]*WebhookOptions{
		"is for Listener": {PublicURL: "https://a.example", Receiver: receiver, WellKnown: true},
		"must be plain":   {PublicURL: "https://a.example/a%2fb", Listener: l, WellKnown: true},
	} {
		if _, err := Connect(t.Context(), HTTP("http://127.0.0.1:1/", nil), Options{Webhook: o}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
