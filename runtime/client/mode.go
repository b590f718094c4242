package client

import (
	"context"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A leg receives events in one delivery mode over one session. It calls s.recordAccepted once the server has accepted
// the subscription. The returned error is the reason the leg ended and is never nil.
type leg func(ctx context.Context, s *subscription, sess *session) error

// A deliveryMode is a delivery mode and the leg that implements it.
type deliveryMode struct {
	name string
	run  leg
}

// deliveryModes lists the client's modes in order of preference (CLI-1).
var deliveryModes = []deliveryMode{
	{wire.ModeWebhook, runWebhook},
	{wire.ModePush, runPush},
	{wire.ModePoll, runPoll},
}

// selectMode returns the client's most preferred mode that is offered and not refused. If forced is set, it considers
// only that mode. It ignores unknown modes in offered.
func selectMode(event string, offered []string, forced string, refused map[string]bool) (deliveryMode, error) {
	var able, supported []string // the client's modes, and the ones allowed here
	for _, m := range deliveryModes {
		if refused[m.name] {
			continue
		}
		able = append(able, m.name)
		if forced != "" && m.name != forced {
			continue
		}
		if slices.Contains(offered, m.name) {
			return m, nil
		}
		supported = append(supported, m.name)
	}
	if len(supported) == 0 {
		supported = able
	}
	return deliveryMode{}, &NoCompatibleDeliveryModeError{Event: event, Offered: slices.Clone(offered), Supported: supported, forced: forced}
}
