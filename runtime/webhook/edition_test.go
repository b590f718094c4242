package webhook

import (
	"net/http"
	"testing"
)

// D10: the receiver survives either reading of webhook-id. An occurrence is known by its eventId under
// whatever webhook-id it is signed, an envelope by its webhook-id, and the two never meet. Delivery.key
// and Endpoint.handOver carry it.
func TestD10EitherReadingOfWebhookID(t *testing.T) {
	r, a := newReceiver(t, ReceiverOptions{})
	b, err := r.Open(EndpointOptions{})
	if err != nil {
		t.Fatal(err)
	}
	toA, toB := &sink{}, &sink{}
	a.Activate("sub_1", toA.take)
	b.Activate("sub_1", toB.take)
	gap := []byte(`{"type":"gap","cursor":"c1"}`)
	body := event("evt_1").Body
	for i, step := range []struct {
		to       *Endpoint
		id       string
		body     []byte
		inA, inB int
	}{
		{a, "msg_1", body, 1, 0},
		{a, "msg_2", body, 1, 0}, // another message about the same occurrence
		{a, "evt_1", body, 1, 0}, // the other reading
		{b, "msg_1", body, 1, 1}, // another subscription has it, too
		{b, "evt_1", body, 1, 1},
		{a, "msg_1", gap, 2, 1}, // an envelope is no occurrence, even under the same webhook-id
		{a, "msg_1", gap, 2, 1},
		{a, "msg_3", gap, 3, 1},
		{a, "evt_1", gap, 4, 1},
		{a, "msg_1", event("msg_1").Body, 5, 1}, // nor an occurrence whose eventId was a webhook-id
	} {
		w := post(t, r, step.to, Message{ID: step.id, Subscription: "sub_1", Body: step.body})
		if w.Code != http.StatusNoContent {
			t.Errorf("step %d: status %d", i, w.Code)
		}
		if toA.count() != step.inA || toB.count() != step.inB {
			t.Fatalf("step %d: %d and %d messages, want %d and %d", i, toA.count(), toB.count(), step.inA, step.inB)
		}
	}
}

// D12: a challenge is answered whatever subscription its header names, before the endpoint knows its
// id and after; it is neither routed nor remembered.
func TestD12ChallengeNamesAnID(t *testing.T) {
	r, e := newReceiver(t, ReceiverOptions{})
	m := challenge("nonce")
	m.Subscription = "sub_of_the_call_under_way"
	for _, active := range []bool{false, true, true} {
		s := &sink{}
		if active {
			e.Activate("sub_1", s.take)
		}
		w := post(t, r, e, m)
		if w.Code != http.StatusOK || w.Body.String() != `{"challenge":"nonce"}` || s.count() != 0 {
			t.Errorf("active %v: %d %s, %d handed over", active, w.Code, w.Body, s.count())
		}
	}
	if e.seen.size() != 0 {
		t.Error("a challenge is remembered")
	}
	if w := post(t, r, e, Message{ID: "msg_x", Subscription: "sub_2", Body: event("evt_1").Body}); w.Code != http.StatusServiceUnavailable {
		t.Errorf("an event of another subscription got %d", w.Code)
	}
}
