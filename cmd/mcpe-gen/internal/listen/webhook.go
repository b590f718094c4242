package listen

import (
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// checkReceiver refuses a receiver that does not go with the mode.
func (o Options) checkReceiver() error {
	err := o.Receiver.Check()
	switch {
	case err != nil:
		return usagef("%v", err)
	case o.Receiver.Listen == "" && o.Mode == wire.ModeWebhook:
		return usagef("--mode webhook: needs --listen, the address to receive on")
	case o.Receiver.Listen != "" && o.Mode != "auto" && o.Mode != wire.ModeWebhook:
		return usagef("--listen is for --mode webhook, or auto, but --mode is %s", o.Mode)
	}
	return nil
}

// receive listens; nil when there is nothing to receive.
func (o Options) receive() (*client.WebhookOptions, error) {
	door, err := o.Receiver.Open()
	if door == nil || err != nil {
		return nil, err
	}
	return &client.WebhookOptions{PublicURL: door.URL, Listener: door.Listener, TLS: door.TLS}, nil
}
