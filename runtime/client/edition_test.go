package client

import (
	"fmt"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// message posts event eN under a webhook-id of its own.
func (h *hooks) message(sub *hookSub, webhookID string, n int) int {
	id := fmt.Sprint("e", n)
	return h.send(sub, webhookID, []byte(eventJSON(id, fmt.Sprint("c", n))))
}

// D10: whether a server sends the eventId as webhook-id or an id of the message, an occurrence reaches
// the application once, over a restart too, and a gap once per envelope. receivedID, callback.keep and
// subscription.takeItem carry it.
func TestD10WebhookIDOfTheMessage(t *testing.T) {
	for _, stored := range []bool{false, true} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			o, _, _, _ := kept(stored)
			h, cl := hooked(t, c, o)
			s := subscribe(t, cl, WithCursorKey("k"))
			h.emit(3)
			sub := h.sub()
			for i, id := range []string{"msg_a", "msg_b", "e1"} {
				if status := h.message(sub, id, 1); status != 204 {
					t.Fatalf("%d: status %d", i, status)
				}
			}
			gap, _ := webhook.Gap(new("c1"))
			for _, id := range []string{"e1", "e1", "msg_gap_1", "msg_gap_1"} {
				if status := h.send(sub, id, gap); status != 204 {
					t.Fatalf("gap: status %d", status)
				}
			}
			h.message(sub, "msg_c", 2)
			r := read(t, s)
			r.want("e1", "gap:c1", "gap:c1", "e2")
			h.message(sub, "msg_d", 3)
			r.want("e3")
			r.stop()
			if err := s.Subscription().Ack(); err != nil {
				t.Fatal(err)
			}
			h.crash(cl)
			// The acknowledgements were lost: all of it comes again, under other ids.
			cl = h.client(c, o)
			s = subscribe(t, cl, WithCursorKey("k"))
			sub = h.sub()
			for n := 1; n <= 3; n++ {
				if status := h.message(sub, fmt.Sprint("msg_again_", n), n); status != 204 {
					t.Fatalf("again: status %d", status)
				}
			}
			h.emit(1)
			h.message(sub, "msg_e", 4)
			read(t, s).want("e4")
		})
	}
}

// D10: what waits in the store is there once under whatever webhook-ids it came, over a restart too.
// receivedID carries it.
func TestD10StoredOnce(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		o, _, received, _ := kept(true)
		for i, id := range []string{"msg_a", "msg_b", "e1"} {
			h, cl := hooked(t, c, o)
			subscribe(t, cl, WithCursorKey("k"))
			h.emit(1)
			if status := h.message(h.sub(), id, 1); status != 204 {
				t.Fatalf("%d: status %d", i, status)
			}
			h.crash(cl)
		}
		if stored, err := received.Received(t.Context(), "k", 0, 10); err != nil || len(stored) != 1 {
			t.Errorf("%d bodies, %v", len(stored), err)
		}
	})
}
