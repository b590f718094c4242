package server

import (
	"strings"
	"testing"
)

// LIST-3: a type whose description leaves it without any delivery is refused, and the error names
// what solves it; one that the author switched off by options is not.
func TestDeliveryOfNothing(t *testing.T) {
	s := newServer(t, Options{})
	for _, tc := range []struct {
		delivery []string
		noReplay bool
		options  []TypeOption
		want     string
	}{
		{[]string{"webhook"}, false, nil, `registering event "e": its delivery is [webhook], but webhooks are off: set Options.Webhook`},
		{[]string{"poll", "webhook"}, true, nil, "set Options.Webhook"},
		{[]string{"poll"}, true, nil, "WithPollWithoutReplay"},
		{[]string{"poll", "webhook"}, true, []TypeOption{WithoutWebhook()}, "WithPollWithoutReplay"},
		{[]string{"push", "mail"}, false, nil, "use poll, push and webhook"},
		{[]string{"poll"}, true, []TypeOption{WithPollWithoutReplay()}, ""},
		{[]string{"poll"}, false, []TypeOption{WithoutPoll()}, ""},
		{[]string{"webhook"}, false, []TypeOption{WithoutWebhook()}, ""},
		{nil, false, []TypeOption{WithoutPoll(), WithoutPush()}, ""},
	} {
		typ := incidentType("e")
		typ.Delivery, typ.NoReplay = tc.delivery, tc.noReplay
		_, err := Register(s, typ, Hooks[filterArgs, incident]{}, tc.options...)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%+v: %v", tc, err)
		}
		if err == nil {
			if err := s.Remove("e"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
