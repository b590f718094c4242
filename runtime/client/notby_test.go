package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// ACTOR-2: NotBy is one of the arguments, for an event type whose descriptor names its actor; for any other type
// nothing is subscribed to.
func TestACTOR2NotBy(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		others := []any{nil, "", "login", 5, map[string]any{}}
		f.list = func() []wire.Descriptor {
			tick := descriptor("tick", wire.ModePoll)
			tick.Meta = map[string]any{wire.MetaActor: "/sender/login"}
			all := []wire.Descriptor{tick, descriptor("none", wire.ModePoll)}
			for i, actor := range others {
				d := descriptor(fmt.Sprint("other", i), wire.ModePoll)
				d.Meta = map[string]any{wire.MetaActor: actor}
				all = append(all, d)
			}
			return all
		}
		f.poll = func(wire.PollParams) (any, *jsonrpc.Error) { return polled("c", false, 1e6), nil }
		asked := func() (all []string) {
			for _, r := range f.sent(wire.MethodPoll) {
				var p wire.PollParams
				if err := json.Unmarshal(r.Params, &p); err != nil {
					t.Fatal(err)
				}
				all = append(all, string(p.Arguments))
			}
			return all
		}
		cl := connect(t, f, c, Options{})
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), json.RawMessage(`{"q":1}`), NotBy("me"), NotBy("bot")); err != nil {
			t.Fatal(err)
		}
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil, NotBy("me")); err != nil {
			t.Fatal(err)
		}
		if all := asked(); len(all) != 2 || all[0] != `{"notBy":["me","bot"],"q":1}` || all[1] != `{"notBy":["me"]}` {
			t.Error(all)
		}
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), json.RawMessage(`{"notBy":["you"]}`), NotBy("me")); err == nil {
			t.Error("actors of the arguments and of the option were taken")
		}
		for i := range others {
			refusesNotBy(t, cl, fmt.Sprint("other", i))
		}
		refusesNotBy(t, cl, "none")
		if all := asked(); len(all) != 2 {
			t.Errorf("subscribed without an actor: %v", all[2:])
		}
	})
}

func refusesNotBy(t *testing.T, c *Client, event string) {
	t.Helper()
	var none *NoActorError
	if _, err := Subscribe(t.Context(), c, Dynamic(event), nil, NotBy("me")); !errors.As(err, &none) || none.Event != event || !Final(err) {
		t.Errorf("%s: %v", event, err)
	}
}
