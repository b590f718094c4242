package client

import (
	"context"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A leg receives by one delivery mode over one session. It calls s.established once the server has
// accepted, and returns why it ended, never nil.
type leg func(ctx context.Context, s *subscription, sess *session) error

// A deliveryMode is one way to receive.
type deliveryMode struct {
	name string
	run  leg
}

// deliveryModes are what this client can do, the preferred first (CLI-1).
var deliveryModes = []deliveryMode{
	{wire.ModeWebhook, runWebhook},
	{wire.ModePush, runPush},
	{wire.ModePoll, runPoll},
}

// selectMode takes the first mode of ours that the type offers. A forced mode is the only one of
// ours; modes in refused are left out. Offered modes that nobody knows are ignored.
func selectMode(event string, offered []string, forced string, refused map[string]bool) (deliveryMode, error) {
	var supported []string
	for _, m := range deliveryModes {
		if forced != "" && m.name != forced || refused[m.name] {
			continue
		}
		if slices.Contains(offered, m.name) {
			return m, nil
		}
		supported = append(supported, m.name)
	}
	return deliveryMode{}, &NoCompatibleDeliveryModeError{Event: event, Offered: slices.Clone(offered), Supported: supported}
}
