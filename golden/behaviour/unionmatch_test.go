package behaviour

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	unionforms "github.com/mcpe-gen/mcpe-gen/golden/unionforms/want"
	"github.com/mcpe-gen/mcpe-gen/golden/unionforms/want/unionformsclient"
	"github.com/mcpe-gen/mcpe-gen/golden/unionforms/want/unionformsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
)

// An x-match compares members of unions, and members of their variants, and finds nothing in variants that have none: by
// any variant of an argument that is a union itself. What arrives is written as it was emitted.
func TestMatchOverUnions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		es := eventstest.NewServer(t)
		made, err := unionformsserver.RegisterChargeMade(es, unionformsserver.ChargeMadeHooks{})
		if err != nil {
			t.Fatal(err)
		}
		c := eventstest.NewClient(t, es)
		subscribe := func(args unionforms.ChargeMadeArguments) *eventstest.Subscription[unionforms.ChargeMadeArguments, unionforms.ChargeMadePayload] {
			return eventstest.Subscribe(t, c, unionformsclient.SubscribeChargeMade, args)
		}
		type status = unionforms.ChargeMadeArgumentsStatus
		type item = unionforms.ChargeMadeArgumentsStatusesItem
		subs := map[string]*eventstest.Subscription[unionforms.ChargeMadeArguments, unionforms.ChargeMadePayload]{
			"number":   subscribe(unionforms.ChargeMadeArguments{Status: &status{Value: unionforms.ChargeMadeArgumentsStatusNumber(7)}}),
			"text":     subscribe(unionforms.ChargeMadeArguments{Status: &status{Value: unionforms.ChargeMadeArgumentsStatusString("7")}}),
			"either":   subscribe(unionforms.ChargeMadeArguments{Statuses: []item{{Value: unionforms.ChargeMadeArgumentsStatusesItemNumber(7)}, {Value: unionforms.ChargeMadeArgumentsStatusesItemString("7")}}}),
			"email":    subscribe(unionforms.ChargeMadeArguments{Email: new("a@example.com")}),
			"customer": subscribe(unionforms.ChargeMadeArguments{Customer: new("cus_")}),
		}
		for _, emitted := range []struct {
			payload string
			matches []string
		}{
			{`{"customer":"cus_1","customerNullable":null,"status":7}`, []string{"number", "either"}},
			{`{"customer":{"id":"cus_1"},"customerNullable":null,"status":"7","target":{"phone":"1"}}`, []string{"text", "either", "customer"}},
			{`{"customer":{"id":"other"},"customerNullable":"x","status":8,"target":{"email":"a@example.com"}}`, []string{"email"}},
			{`{"customer":"cus_1","customerNullable":{"id":"n"},"status":"8","at":5,"lists":[1,2]}`, nil},
		} {
			p := decode[unionforms.ChargeMadePayload](t, emitted.payload)
			eventstest.Emit(t, made, p)
			for _, name := range emitted.matches {
				ev := subs[name].Next(time.Second)
				got, err := json.Marshal(ev.Data)
				if err != nil {
					t.Fatal(err)
				}
				if canonical(t, got) != canonical(t, []byte(emitted.payload)) {
					t.Errorf("%s got %s, want %s", name, got, emitted.payload)
				}
			}
			for _, sub := range subs {
				sub.None(time.Second)
			}
		}
	})
}
