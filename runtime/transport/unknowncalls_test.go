package transport

import (
	"context"
	"net/http"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// ERR-3: a call of a method that the server does not have is answered with -32601 in every revision and on every carrier,
// whatever its method is called, and a call that the SDK refuses as invalid with -32600.
func TestERR3UnknownMethods(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		names := []string{"events/nope", "nope", "conversation/userMessage", "x/é <b>", "notifications/nope"}
		if m.overlay {
			names = names[:1] // the others are next's
		}
		for i, name := range names {
			id := []string{`1`, `"a"`, `7`, `"5#"`, `9007199254740992`}[i]
			answer := c.rpc(id, name, "")
			if e := errorOf(t, answer); e.Code != -32601 || string(answer.id) != id {
				t.Errorf("%s with the id %s: %s %+v", name, id, answer.id, e)
			}
		}
		if h, ok := c.(*httpClient); ok && !m.overlay {
			resp := h.post(context.Background(), m.request(`3`, "events/nope", ""), nil)
			defer resp.Body.Close()
			want := http.StatusOK
			if m.modern() {
				want = http.StatusNotFound
			}
			invalid := h.post(context.Background(), `{"jsonrpc":"2.0","id":"5#","method":"tools/call"}`, map[string]string{headerMethod: "tools/call", "Mcp-Name": "noop"})
			if answer := readMessage(t, invalid); errorOf(t, answer).Code != -32600 || string(answer.id) != `"5#"` || invalid.StatusCode != http.StatusBadRequest {
				t.Errorf("a call without params: %s %s", invalid.Status, answer.error)
			}
			if resp.StatusCode != want || mediaType(resp.Header.Get("Content-Type")) != contentTypeJSON || resp.Header.Get("X-Content-Type-Options") != "" {
				t.Errorf("%s %s", resp.Status, resp.Header)
			}
		}
	})
}
