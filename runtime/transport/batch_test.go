package transport

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// revisionOfBatches is the only revision that has JSON-RPC batches.
const revisionOfBatches = "2025-03-26"

var (
	oldHTTP  = mode{name: "http1/2025-03-26", http: true, version: revisionOfBatches}
	oldStdio = mode{name: "stdio/2025-03-26", version: revisionOfBatches}
)

// CAP-6: a batch gets one error in every revision and on every carrier, and nothing of it is done.
func TestCAP6BatchIsRefused(t *testing.T) {
	stateless := HandlerOptions{Streamable: resumable()}
	stateless.Streamable.EventStore, stateless.Streamable.Stateless = nil, true
	// ask sends a batch and gives the answer.
	type ask = func(body string) (answer []byte)
	overLines := func(m mode) func(g *rig) ask {
		return func(g *rig) ask {
			c := g.stdio(m)
			nobody := c.feed("")
			return func(body string) []byte {
				c.send(body)
				return []byte(nobody.next())
			}
		}
	}
	overHTTP := func(m mode, o HandlerOptions) func(g *rig) ask {
		return func(g *rig) ask {
			c := g.connect(m, o).(*httpClient)
			header := map[string]string{}
			if m.modern() {
				header = map[string]string{headerVersion: m.version, headerMethod: wire.MethodPoll}
			}
			post := func(body string, status int, header map[string]string) []byte {
				resp := c.post(context.Background(), body, header)
				defer resp.Body.Close()
				answer, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != status {
					g.t.Errorf("%s %v %s", resp.Status, err, answer)
				}
				return answer
			}
			post("[]", http.StatusUnauthorized, map[string]string{"Authorization": "-"})
			return func(body string) []byte { return post(body, http.StatusBadRequest, header) }
		}
	}
	for name, connect := range map[string]func(g *rig) ask{
		oldStdio.name:                 overLines(oldStdio),
		modes[0].name:                 overLines(modes[0]),
		modes[1].name:                 overLines(modes[1]),
		oldHTTP.name:                  overHTTP(oldHTTP, HandlerOptions{}),
		oldHTTP.name + " sessionless": overHTTP(oldHTTP, stateless),
		modes[2].name:                 overHTTP(modes[2], HandlerOptions{}),
		modes[3].name:                 overHTTP(modes[3], HandlerOptions{}),
		modes[4].name:                 overHTTP(modes[4], HandlerOptions{}),
		modes[5].name:                 overHTTP(modes[5], HandlerOptions{}),
		"http+sse": func(g *rig) ask {
			c := g.sse(NewSSEHandler(g.srv, g.es, nil))
			return func(body string) []byte { return []byte(c.post(http.StatusBadRequest, body)) }
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			g := newRig(t, server.Options{})
			method(t, g.srv, "x/did", func(context.Context) error { t.Error("a call of a batch is served"); return nil })
			method(t, g.srv, "x/said", func(context.Context) error { return nil })
			port.Of(g.es).OnNotification("x/said", func(context.Context, port.Notification) { t.Error("a notification of a batch is served") })
			send := connect(g)
			synctest.Wait()
			sessions := countSessions(g)
			call, said := oldHTTP.request(`7`, "x/did", `{}`), oldHTTP.request("", "x/said", `{}`)
			for _, body := range []string{
				"[]",
				" [ ]",
				"[" + call + "]",
				"[" + said + "]",
				"[" + strings.Join([]string{call, said, oldHTTP.request(`8`, wire.MethodStream, `{"name":"tick"}`), oldHTTP.request(`9`, "nope", "")}, ",") + "]",
				"[" + initializeRequest(revisionOfBatches) + "]",
				"[" + strings.Repeat(said+",", 1000) + said + "]",
				"[1,[]]",
			} {
				answer := send(body)
				env, _ := parseEnvelope(answer)
				e := errorOf(t, env)
				if e.Code != -32600 || string(member(answer, "id")) != "null" || !strings.Contains(e.Message, "batches are not supported: send each message separately") || !json.Valid(answer) {
					t.Errorf("%.80s: answered by %s", body, answer)
				}
			}
			synctest.Wait()
			if n := countSessions(g); n != sessions || len(g.opened) > 0 {
				t.Errorf("%d sessions, before %d; %d streams", n, sessions, len(g.opened))
			}
		})
	}
}

func countSessions(g *rig) (n int) {
	for range g.srv.Sessions() {
		n++
	}
	return n
}
