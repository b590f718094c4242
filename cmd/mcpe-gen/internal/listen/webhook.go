package listen

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// receiver returns the address for webhooks. For a server on this machine, it defaults to loopback.
func (o Options) receiver() peer.Receiver {
	if o.Mode == wire.ModeWebhook && o.Receiver == (peer.Receiver{}) && o.Target.OnLoopback() {
		return peer.Receiver{Listen: "127.0.0.1:0"}
	}
	return o.Receiver
}

// checkReceiver rejects a receiver that does not match the mode.
func (o Options) checkReceiver() error {
	r := o.receiver()
	err := r.Check()
	switch {
	case err != nil:
		return cli.Refusef("%v", err)
	case r.Listen == "" && o.Mode == wire.ModeWebhook:
		return cli.Refusef("--mode webhook: needs --listen, the address to receive on; it is optional only for a server on this machine")
	case r.Listen != "" && o.Mode != "auto" && o.Mode != wire.ModeWebhook:
		return cli.Refusef("--listen is for --mode webhook, or auto, but --mode is %s", o.Mode)
	}
	return nil
}

// openReceiver starts to listen for webhooks. It returns nil if the run does not receive webhooks.
func (o Options) openReceiver() (*client.WebhookOptions, error) {
	door, err := o.receiver().Open()
	if door == nil || err != nil {
		return nil, err
	}
	if door.Certificate != "" && !o.Quiet {
		fmt.Fprintf(o.Stderr, "receiving on %s with a certificate made for this machine: %s\n", door.URL, door.Certificate)
	}
	return &client.WebhookOptions{PublicURL: door.URL, Listener: door.Listener, TLS: door.TLS}, nil
}

// callbackRefused returns an error that explains why a server rejected the callback URL for webhooks. It returns nil if
// the subscription was rejected for another reason.
func (o Options) callbackRefused(err error) error {
	if !errors.Is(err, events.ErrInvalidParams) {
		return nil
	}
	for _, f := range fieldErrors(err) {
		if f.Path != "/delivery/url" {
			continue
		}
		hint := ""
		if strings.Contains(f.Message, "blocked") {
			hint = ". The server's author allows callbacks to the same machine with Callbacks.Loopback (the flag -dev of a server " +
				"that mcpe-gen init wrote), and to other internal addresses with Callbacks.AllowPrefixes; or give --public-url"
		}
		return cli.Refusef("%s refuses the callback: %s %s%s", o.Target, f.Path, plain.Text(f.Message), hint)
	}
	return nil
}

// A fieldError is a server's message about a single member of the params.
type fieldError struct{ Path, Message string }

func fieldErrors(err error) []fieldError {
	var data struct{ Errors []fieldError }
	if e, ok := errors.AsType[*events.Error](err); !ok || json.Unmarshal(e.Data, &data) != nil {
		return nil
	}
	return data.Errors
}
