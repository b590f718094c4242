package bridge

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// notByMe returns options that exclude events caused by the agent, based on the agent's configured names at the server.
// An agent that reacts to its own actions would never stop. A subscription that specifies actors takes precedence.
func (f *feed) notByMe(d *client.Descriptor) []client.SubscribeOption {
	s, _ := f.e.c.Server(f.sub.Server)
	if len(s.Me) == 0 {
		return nil
	}
	if wire.ActorOf(d.Meta) == "" {
		f.e.printMessage("%s: the event type names no actor, so events that the agent causes itself are not left out", f.name())
		return nil
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(f.sub.Arguments, &args); err != nil || args[wire.NotBy] != nil {
		return nil
	}
	return []client.SubscribeOption{client.NotBy(s.Me...)}
}
