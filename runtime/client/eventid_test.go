package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// anyText are eventIds as other implementations make them; the last one is the longest that there is.
var anyText = []string{"a b", "Zürich", " ", "\x00", "\u202e\n", "envelope msg_1", "event envelope msg_1", strings.Repeat("é", wire.MaxEventID/2)}

// occurrenceOf is eventJSON for any text.
func occurrenceOf(id, cursor string) string {
	text, _ := json.Marshal(id)
	return fmt.Sprintf(`{"eventId":%s,"name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{},"cursor":%q}`, text, cursor)
}

// V9: an eventId of 1 to 256 bytes comes as it is in every mode; of a longer one a poll and a stream tell by a
// PayloadError, and a callback by a 400 that is counted.
func TestEventIDs(t *testing.T) {
	long := strings.Repeat("é", wire.MaxEventID/2) + "x"
	check := func(t *testing.T, r *reader, longer bool) {
		t.Helper()
		r.want(anyText...)
		if !longer {
			return
		}
		r.want("error")
		if bad := (*PayloadError)(nil); !errors.As(r.err, &bad) || !strings.Contains(r.err.Error(), "/eventId has 257 bytes, more than 256") {
			t.Error(r.err)
		}
		r.want("after")
	}
	all := append(append([]string{}, anyText...), long, "after")
	t.Run("poll", func(t *testing.T) {
		eachCarrier(t, func(t *testing.T, c carrier) {
			f := newFake(c.legacy)
			f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
				var list []json.RawMessage
				for _, id := range all {
					list = append(list, json.RawMessage(occurrenceOf(id, "c")))
				}
				return map[string]any{"events": list, "cursor": "c"}, nil
			}
			check(t, read(t, subscribe(t, connect(t, f, c, Options{Mode: wire.ModePoll}))), true)
		})
	})
	t.Run("push", func(t *testing.T) {
		eachCarrier(t, func(t *testing.T, c carrier) {
			f := newFake(c.legacy)
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
				st.active("c0")
				for i, id := range all {
					st.send(wire.NotificationEvent, occurrenceOf(id, fmt.Sprint("c", i)))
				}
				return hold(st)
			}
			check(t, read(t, subscribe(t, connect(t, f, c, Options{}))), true)
		})
	})
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprint("webhook, stored ", stored), func(t *testing.T) {
			eachCarrier(t, func(t *testing.T, c carrier) {
				o, _, _, _ := kept(stored)
				h, cl := hooked(t, c, o)
				s := subscribe(t, cl, WithCursorKey("k"))
				sub := h.sub()
				for i, id := range anyText {
					if status := h.send(sub, fmt.Sprint("msg_", i), []byte(occurrenceOf(id, "c"))); status != http.StatusNoContent {
						t.Errorf("%q: %d", id, status)
					}
				}
				if status := h.send(sub, "msg_long", []byte(occurrenceOf(long, "c"))); status != http.StatusBadRequest {
					t.Error(status)
				}
				if r := s.Subscription().Status().Refused; r.ByStatus[400] != 1 || !r.Standing || !strings.HasSuffix(r.Last.Error(), "/eventId has 257 bytes, more than 256") {
					t.Errorf("%+v", r)
				}
				check(t, read(t, s), false)
			})
		})
	}
}

// V9: an occurrence never takes the place of an envelope in the store, nor the other way round, whatever it is
// called, and what an earlier process stored is recognized.
func TestEventIDLikeAnEnvelope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, _, received, _ := kept(true)
		h, cl := hooked(t, carriers[3], o)
		subscribe(t, cl, WithCursorKey("k"))
		gap, _ := webhook.Gap(new("c1"))
		if fresh, err := received.PutReceived(t.Context(), "k", clientstore.Received{EventID: "envelope msg_0", Body: gap}); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
		h.crash(cl)
		cl = h.client(carriers[3], o)
		s := subscribe(t, cl, WithCursorKey("k"))
		sub := h.sub()
		for _, m := range []struct{ id, body string }{
			{"msg_0", string(gap)}, // of the earlier process
			{"msg_a", occurrenceOf("envelope msg_1", "c2")}, {"msg_1", string(gap)},
			{"msg_2", string(gap)}, {"msg_b", occurrenceOf("envelope msg_2", "c3")},
			{"msg_c", occurrenceOf("event envelope msg_1", "c4")},
			{"msg_d", occurrenceOf("envelope msg_1", "c2")}, // again
		} {
			if status := h.send(sub, m.id, []byte(m.body)); status != http.StatusNoContent {
				t.Errorf("%s: %d", m.id, status)
			}
		}
		read(t, s).want("gap:c1", "envelope msg_1", "gap:c1", "gap:c1", "envelope msg_2", "event envelope msg_1")
		if st := s.Subscription().Status(); st.Duplicates != 1 { // msg_0; the receiver itself knows the last one
			t.Errorf("%+v", st)
		}
	})
}

// P6: what the callback refuses is counted by its status and is the LastError until something is taken; neither
// holds anything of the message, the secret or the path.
func TestRefusedDeliveries(t *testing.T) {
	for _, stored := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o, _, _, _ := kept(stored)
			h, cl := hooked(t, carriers[3], o)
			s := subscribe(t, cl, WithCursorKey("k"))
			sub := h.sub()
			if st := s.Subscription().Status(); st.Refused.ByStatus != nil || st.Refused.Last != nil || st.LastError != nil {
				t.Errorf("%+v", st)
			}
			for range 3 {
				if status := h.unsigned(sub.url); status != http.StatusUnauthorized {
					t.Fatal(status)
				}
			}
			st := s.Subscription().Status()
			if st.Refused.ByStatus[401] != 3 || len(st.Refused.ByStatus) != 1 || !st.Refused.Standing || st.LastError != st.Refused.Last ||
				st.LastError.Error() != "a delivery was refused with 401: webhook: no signature matches" {
				t.Errorf("%+v", st)
			}
			h.send(sub, "msg_verification_1", []byte(`{"type":"verification"}`)) // a challenge that fails
			h.event(sub, 1, "c1")
			read(t, s).want("e1")
			if st := s.Subscription().Status(); st.Refused.ByStatus[401] != 3 || st.Refused.ByStatus[400] != 1 || st.Refused.Standing || st.LastError != nil {
				t.Errorf("%+v", st)
			}
		})
	}
}
