package client

import (
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
)

// CLI-5: options that cannot work are refused by Connect, which then does not keep the listener.
func TestCLI5Options(t *testing.T) {
	receiver, err := webhook.NewReceiver(webhook.ReceiverOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for want, w := range map[string]WebhookOptions{
		"not an absolute https URL":          {PublicURL: "http://a.example", Receiver: receiver},
		"is not an absolute":                 {PublicURL: "/hooks", Receiver: receiver},
		"user information":                   {PublicURL: "https://u:p@a.example", Receiver: receiver},
		"a query or a fragment":              {PublicURL: "https://a.example/?x", Receiver: receiver},
		"a Receiver, a Listener":             {PublicURL: "https://a.example"},
		"needs the Cursors that it saves to": {PublicURL: "https://a.example", Receiver: receiver, Received: clientmemory.NewReceived(clientmemory.NewCursors())},
	} {
		l := memnet.New()
		if want != "a Receiver, a Listener" {
			w.Listener = l
		} else {
			l.Close()
		}
		_, err := Connect(t.Context(), HTTP("http://127.0.0.1:1", nil), Options{Webhook: &w})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		select {
		case <-l.Closed():
		default:
			t.Errorf("%s: the listener stays open", want)
		}
	}
	l := memnet.New()
	if _, err := Connect(t.Context(), HTTP("http://127.0.0.1:1", nil), Options{Webhook: &WebhookOptions{PublicURL: "https://a.example", Listener: l}}); err == nil {
		t.Error("connected to nobody")
	}
	select {
	case <-l.Closed():
	default:
		t.Error("the listener stays open after a failed handshake")
	}
}
