package behaviour

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	private "github.com/mcpe-gen/mcpe-gen/golden/private/want"
	"github.com/mcpe-gen/mcpe-gen/golden/private/want/privateclient"
	"github.com/mcpe-gen/mcpe-gen/golden/private/want/privateserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
)

// OCC-7: generated code registers a type with private members only with PerPrincipal. Callers receive the members that it
// returns, and the published schema has the members, but not the keyword.
func TestPrivateMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := eventstest.NewServer(t)
		_, err := privateserver.RegisterPersonHired(es, privateserver.PersonHiredHooks{})
		if err == nil || !strings.Contains(err.Error(), `"person.hired": its payload has the private members notes, salary, but the hook PerPrincipal is nil`) {
			t.Errorf("registered without PerPrincipal: %v", err)
		}
		hired, err := privateserver.RegisterPersonHired(es, privateserver.PersonHiredHooks{
			PerPrincipal: func(_ context.Context, _ string, p *private.PersonHiredPayload, _ *private.PersonHiredArguments) (*private.PersonHiredPayload, error) {
				p.Notes = nil
				return p, nil
			}})
		if err != nil {
			t.Fatal(err)
		}
		c := eventstest.NewClient(t, es)
		sub := eventstest.Subscribe(t, c, privateclient.SubscribePersonHired, private.PersonHiredArguments{Team: new("red")})
		eventstest.Emit(t, hired, decode[private.PersonHiredPayload](t, `{"team":"red","person":{"name":"ann","salary":9},"notes":{"bob":"good"}}`))
		if got := string(sub.Next(time.Second).Raw); got != `{"team":"red","person":{"name":"ann","salary":9}}` {
			t.Errorf("received %s", got)
		}
		list, err := c.Client.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(list); err != nil || !strings.Contains(string(text), "salary") || strings.Contains(string(text), "x-private") {
			t.Errorf("events/list: %s, %v", text, err)
		}
	})
}
