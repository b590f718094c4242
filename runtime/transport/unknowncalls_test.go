package transport

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// ERR-3: a call of a method that the server does not have is answered with -32601 in every revision and on every carrier,
// whatever its method is called, and a call that the SDK refuses as invalid with -32600.
func TestERR3UnknownMethods(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{})
		for i, name := range []string{"events/nope", "nope", "conversation/userMessage", "x/é <b>", "notifications/nope"} {
			id := []string{`1`, `"a"`, `7`, `"5#"`, `9007199254740992`}[i]
			answer := c.rpc(id, name, "")
			if e := errorOf(t, answer); e.Code != -32601 || string(answer.id) != id {
				t.Errorf("%s with the id %s: %s %+v", name, id, answer.id, e)
			}
		}
		if h, ok := c.(*httpClient); ok {
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

// ERR-3: so is an unknown call of a batch; the other messages of the batch are served.
func TestERR3UnknownMethodsInBatches(t *testing.T) {
	for name, row := range map[string]struct {
		batch     []string
		unknown   []string
		served    []string
		status    int
		stateless bool
	}{
		"with others":         {[]string{`"id":1,"method":"nope"`, `"id":2,"method":"ping"`, `"id":3,"method":"events/nope"`, `"id":"5#","method":"nope"`}, []string{`1`, `3`, `"5#"`}, []string{`2`}, 200, false},
		"alone":               {[]string{`"id":1,"method":"nope"`, `"id":7,"method":"events/nope"`}, []string{`1`, `7`}, nil, 200, false},
		"notifications":       {[]string{`"method":"notifications/nope"`, `"id":2,"method":"ping"`}, nil, []string{`2`}, 200, false},
		"no call":             {[]string{`"method":"notifications/nope"`}, nil, nil, 400, false},
		"with a notification": {[]string{`"id":"n","method":"nope"`, `"method":"notifications/roots/list_changed"`}, []string{`"n"`}, nil, 200, false},
		"without sessions":    {[]string{`"id":1,"method":"nope"`, `"id":2,"method":"ping"`}, []string{`1`}, []string{`2`}, 200, true},
	} {
		inBubble(t, name, func(t *testing.T) {
			g := newRig(t, server.Options{})
			o := HandlerOptions{}
			if row.stateless {
				o.Streamable = resumable()
				o.Streamable.EventStore, o.Streamable.Stateless = nil, true
			}
			c := g.serve(oldHTTP, bearer(NewHandler(g.es, o)))
			var messages []string
			for _, m := range row.batch {
				messages = append(messages, `{"jsonrpc":"2.0",`+m+`}`)
			}
			resp := c.post(context.Background(), batchOf(messages...), nil)
			body, err := io.ReadAll(resp.Body)
			if resp.Body.Close(); err != nil || resp.StatusCode != row.status {
				t.Fatalf("%s %v %s", resp.Status, err, body)
			}
			var unknown, served []string
			var answers []json.RawMessage
			if mediaType(resp.Header.Get("Content-Type")) == contentTypeJSON {
				if err := json.Unmarshal(body, &answers); err != nil {
					t.Fatalf("%v: %s", err, body)
				}
			} else {
				for line := range strings.Lines(string(body)) {
					if data, ok := strings.CutPrefix(line, eventHead); ok {
						answers = append(answers, json.RawMessage(data))
					}
				}
			}
			for _, a := range answers {
				switch env, _ := parseEnvelope(a); {
				case env.result != nil:
					served = append(served, string(env.id))
				case errorOf(t, env).Code == -32601:
					unknown = append(unknown, string(env.id))
				default:
					t.Errorf("%s", a)
				}
			}
			slices.Sort(unknown)
			slices.Sort(row.unknown)
			if !slices.Equal(unknown, row.unknown) || !slices.Equal(served, row.served) {
				t.Errorf("unknown %s, served %s: %s", unknown, served, body)
			}
		})
	}
}

// ERR-3: a batch whose call is refused as invalid is answered with an error for nobody, and nothing of it is done.
func TestERR3InvalidCallInBatch(t *testing.T) {
	inBubble(t, "batch", func(t *testing.T) {
		g := newRig(t, server.Options{})
		c := g.serve(oldHTTP, bearer(NewHandler(g.es, HandlerOptions{})))
		resp := c.post(context.Background(), batchOf(`{"jsonrpc":"2.0","id":1,"method":"`+wire.MethodStream+`","params":{"name":"tick"}}`, `{"jsonrpc":"2.0","id":2,"method":"tools/call"}`), nil)
		body, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); err != nil || resp.StatusCode != http.StatusBadRequest || !strings.Contains(string(body), `"id":null,"error":{"code":-32600`) {
			t.Errorf("%s %s", resp.Status, body)
		}
	})
}
