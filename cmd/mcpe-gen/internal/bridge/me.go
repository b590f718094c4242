package bridge

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
)

// notByMe excludes events that the agent caused, using the agent's configured names at the server: an agent that reacts
// to its own actions would never stop. A subscription that names actors takes precedence.
func (f *feed) notByMe(d *client.Descriptor) []client.SubscribeOption {
	s, _ := f.e.c.Server(f.sub.Server)
	if len(s.Me) == 0 {
		return nil
	}
	if wire.ActorOf(d.Meta) == "" {
		f.e.say("%s: the event type names no actor, so events that the agent causes itself are not left out", f.name())
		return nil
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(f.sub.Arguments, &args); err != nil || args[wire.NotBy] != nil {
		return nil
	}
	return []client.SubscribeOption{client.NotBy(s.Me...)}
}
