package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// CONV-2, V2: a notification of a method that is a request for the SDK reaches the adapter that awaits it, once, with its
// sender and session; whatever the SDK refuses of its like reaches nobody.
func TestAwaitedNotification(t *testing.T) {
	said := func(c *httpClient) string { return c.mode.request("", "x/said", `{"n":1}`) }
	for _, m := range []mode{modes[2], modes[3], oldHTTP} {
		t.Run(m.name, func(t *testing.T) {
			g := newRig(t, server.Options{})
			method(t, g.srv, "x/said", func(context.Context) error { t.Error("a notification is called as a request"); return nil })
			told := make(chan port.Notification, 10)
			port.Of(g.es).OnNotification("x/said", func(_ context.Context, n port.Notification) { told <- n })
			c := g.connect(m, HandlerOptions{}).(*httpClient)
			session := ""
			if !m.modern() {
				session = "http " + c.header.Get(headerSession)
			}
			post := func(what, body string, want int, header map[string]string) string {
				t.Helper()
				resp := c.post(t.Context(), body, header)
				defer resp.Body.Close()
				b, _ := io.ReadAll(resp.Body)
				if resp.StatusCode != want {
					t.Errorf("%s: %s %s", what, resp.Status, b)
				}
				return string(b)
			}
			heard := func(what string, times int) {
				t.Helper()
				for range times {
					if n := recv(t, told, what); n.Method != "x/said" || n.Principal != "alice" || n.Session != session || string(member(n.Params, "n")) != "1" {
						t.Errorf("%s: %+v", what, n)
					}
				}
				select {
				case n := <-told:
					t.Errorf("%s: once more %+v", what, n)
				case <-time.After(20 * time.Millisecond):
				}
			}
			if body := post("alone", said(c), http.StatusAccepted, nil); body != "" {
				t.Errorf("answered by %s", body)
			}
			heard("alone", 1)
			post("without params", `{"jsonrpc":"2.0","method":"x/said"}`, http.StatusAccepted, map[string]string{headerMethod: "x/said"})
			if n := recv(t, told, "without params"); n.Params != nil {
				t.Errorf("%s", n.Params)
			}
			post("a foreign host", said(c), http.StatusForbidden, map[string]string{"Host": "evil.example"})
			post("a foreign page", said(c), http.StatusForbidden, map[string]string{"Origin": "https://evil.example"})
			post("a refused token", said(c), http.StatusUnauthorized, map[string]string{"Authorization": "Bearer nobody"})
			post("no Accept", said(c), http.StatusBadRequest, map[string]string{"Accept": "-"})
			switch {
			case m.modern():
				post("another method's header", said(c), http.StatusBadRequest, map[string]string{headerMethod: "x/other"})
				post("no method's header", said(c), http.StatusBadRequest, map[string]string{headerMethod: "-"})
				post("another revision's _meta", strings.ReplaceAll(said(c), "2026-07-28", "2027-01-01"), http.StatusBadRequest, nil)
				post("no revision's header", said(c), http.StatusBadRequest, map[string]string{headerVersion: "-"})
			default:
				post("an unknown session", said(c), http.StatusNotFound, map[string]string{headerSession: "nosuch"})
				post("another's session", said(c), http.StatusForbidden, map[string]string{"Authorization": "Bearer mallory"})
			}
			heard("refused", 0)
		})
	}
}

// POLL-9, D14, V5: whatever a client cancels stays without an answer, and ends: tools, also those that go on, and methods
// of adapters; on stdio in both eras, and in a legacy session over HTTP, where the response ends at once.
func TestCancelledCall(t *testing.T) {
	for _, m := range []mode{modes[0], modes[1], modes[2], modes[4]} {
		inBubble(t, m.name, func(t *testing.T) {
			g := newRig(t, server.Options{})
			begun, over := make(chan string, 10), make(chan error, 10)
			hold := func(ctx context.Context) error {
				begun <- "x"
				<-ctx.Done()
				over <- ctx.Err()
				return ctx.Err()
			}
			method(t, g.srv, "x/hold", hold)
			g.srv.AddTool(&mcp.Tool{Name: "hold", InputSchema: map[string]any{"type": "object"}}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return nil, hold(ctx)
			})
			free := make(chan struct{})
			g.srv.AddTool(&mcp.Tool{Name: "stubborn", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				begun <- "x"
				<-free
				over <- context.Canceled
				return &mcp.CallToolResult{}, nil
			})
			c := g.connect(m, HandlerOptions{})
			for i, call := range [][2]string{{methodCall, `{"name":"hold","arguments":{}}`}, {"x/hold", `{}`}, {methodCall, `{"name":"stubborn","arguments":{}}`}} {
				// Each call has ids of its own: the SDK carries out a cancel when it comes to it, which may be late.
				for _, id := range []string{fmt.Sprint(700 + i), fmt.Sprintf(`"ab%d"`, i)} {
					message := m.request(id, call[0], call[1])
					var answers []string
					switch c := c.(type) {
					case *lineClient:
						f := c.feed(id)
						c.send(message)
						recv(t, begun, "the call")
						f.cancel()
						f.cancel()                      // once more: the next call of that id is not muted
						c.rpc(`71`, "tools/list", "{}") // the cancels were read
						if i == 2 {
							free <- struct{}{}
						}
						recv(t, over, "the end of the call")
						synctest.Wait()
						for len(f.c) > 0 {
							answers = append(answers, <-f.c)
						}
						if env := c.rpc(id, "tools/list", "{}"); env.result == nil {
							t.Errorf("%s %s: the next call of that id: %s", call, id, env.error)
						}
					case *httpClient:
						f := make(chan string, 1)
						go func() {
							resp := c.post(context.Background(), message, nil)
							b, _ := io.ReadAll(resp.Body)
							resp.Body.Close()
							f <- string(b)
						}()
						recv(t, begun, "the call")
						c.notify(methodCancelled, cancelOf(id))
						if body := recv(t, f, "the end of the response"); body != "" {
							answers = append(answers, body)
						}
						if i == 2 {
							free <- struct{}{}
						}
						recv(t, over, "the end of the call")
						// The cancel may overtake its call.
						c.notify(methodCancelled, cancelOf(id))
						resp := c.post(context.Background(), message, nil)
						b, _ := io.ReadAll(resp.Body)
						resp.Body.Close()
						if resp.StatusCode != http.StatusOK || len(b) > 0 {
							t.Errorf("%s %s: cancelled before it came: %s %s", call, id, resp.Status, b)
						}
					}
					if len(answers) > 0 {
						t.Errorf("%s %s: answered though cancelled: %q", call, id, answers)
					}
					if got := drain(begun); len(got) > 0 {
						t.Errorf("%s %s: called %d times more", call, id, len(got))
					}
				}
			}
		})
	}
}

func drain[T any](c chan T) (all []T) {
	for len(c) > 0 {
		all = append(all, <-c)
	}
	return all
}
