package client

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Half of a cut emoji, as JSON.stringify of JavaScript writes it, is read as U+FFFD in every mode, in data and messages. An
// identifier with it is refused: it is a key (OCC-5).
func TestLoneSurrogates(t *testing.T) {
	const cut = `{"eventId":"1","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{"channel":"cut \ud83d","\udc00":"\ud83d\ude00"},"cursor":"c1"}`
	badID := strings.Replace(cut, `"1"`, `"\ud83d"`, 1)
	after := strings.Replace(cut, `"1"`, `"2"`, 1)
	check := func(t *testing.T, r *reader) {
		t.Helper()
		event, err, _ := r.next()
		var data map[string]string
		if err != nil || json.Unmarshal(event.Data, &data) != nil || data["channel"] != "cut \ufffd" || data["\ufffd"] != "😀" {
			t.Errorf("%s, %v", event.Data, err)
		}
	}
	t.Run("poll", func(t *testing.T) {
		eachCarrier(t, func(t *testing.T, c carrier) {
			f := newFake(c.legacy)
			f.poll = func(wire.PollParams) (any, *jsonrpc.Error) {
				return map[string]any{"events": []json.RawMessage{json.RawMessage(cut), json.RawMessage(badID), json.RawMessage(after)}, "cursor": "c"}, nil
			}
			r := read(t, subscribe(t, connect(t, f, c, Options{Mode: wire.ModePoll})))
			check(t, r)
			r.want("error", "2")
		})
	})
	t.Run("push", func(t *testing.T) {
		eachCarrier(t, func(t *testing.T, c carrier) {
			f := newFake(c.legacy)
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
				st.active("c0")
				for _, o := range []string{cut, badID, after} {
					st.send(wire.NotificationEvent, o)
				}
				return hold(st)
			}
			r := read(t, subscribe(t, connect(t, f, c, Options{})))
			check(t, r)
			r.want("error", "2")
		})
	})
	for _, stored := range []bool{false, true} {
		t.Run(fmt.Sprint("webhook, stored ", stored), func(t *testing.T) {
			eachCarrier(t, func(t *testing.T, c carrier) {
				o, _, _, _ := kept(stored)
				h, cl := hooked(t, c, o)
				s := subscribe(t, cl, WithCursorKey("k"))
				sub := h.sub()
				for body, want := range map[string]int{cut: http.StatusNoContent, badID: http.StatusBadRequest} {
					if status := h.send(sub, "msg_"+fmt.Sprint(want), []byte(body)); status != want {
						t.Errorf("%s: %d, want %d", body, status, want)
					}
				}
				check(t, read(t, s))
			})
		})
	}
}
