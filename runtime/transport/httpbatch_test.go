package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// batchRig is a rig whose method x/hold waits for its cancel, and whose x/stubborn waits for free whatever is cancelled;
// a test that calls it closes free before it ends.
func batchRig(t *testing.T) (g *rig, begun chan string, free chan struct{}) {
	g = newRig(t, server.Options{})
	begun, free = make(chan string, 10), make(chan struct{})
	method(t, g.srv, "x/hold", func(ctx context.Context) error {
		begun <- "hold"
		<-ctx.Done()
		return ctx.Err()
	})
	method(t, g.srv, "x/stubborn", func(context.Context) error {
		begun <- "stubborn"
		<-free
		return nil
	})
	return g, begun, free
}

var oldHTTP = mode{"http1/2025-03-26", true, false, "2025-03-26"}

func batchOf(messages ...string) string { return "[" + strings.Join(messages, ",") + "]" }

// answeredIn returns the ids of the responses in a body of events.
func answeredIn(t *testing.T, body string) (ids []string) {
	t.Helper()
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, eventHead); ok {
			env, ok := parseEnvelope([]byte(strings.TrimSpace(data)))
			if !ok || env.method != "" {
				t.Errorf("an event with %s", data)
			}
			ids = append(ids, string(env.id))
		} else if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "event: message") {
			t.Errorf("a line %q", line)
		}
	}
	return ids
}

// posting posts a batch and gives the whole response later.
func posting(t *testing.T, c *httpClient, body string) chan string {
	over := make(chan string, 1)
	go func() {
		resp := c.post(context.Background(), body, nil)
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode >= http.StatusMultipleChoices || err != nil {
			t.Error(resp.Status, err)
		}
		over <- string(b)
	}()
	return over
}

// D14, V5: a cancelled call of a batch is not answered, over HTTP and on stdio; the others are, and when none is left there
// is nothing.
func TestCancelledCallOfABatch(t *testing.T) {
	for _, held := range []string{`7`, `"ab"`, `9007199254740992`} {
		for _, others := range []int{2, 0} {
			inBubble(t, fmt.Sprint("http ", held, others), func(t *testing.T) {
				g, begun, _ := batchRig(t)
				c := g.connect(oldHTTP, HandlerOptions{}).(*httpClient)
				messages, want := []string{oldHTTP.request(held, "x/hold", `{}`), oldHTTP.request("", "notifications/roots/list_changed", "")}, []string(nil)
				for i := range others {
					want = append(want, fmt.Sprintf(`10%d`, i))
					messages = append(messages, oldHTTP.request(want[i], "tools/list", ""))
				}
				over := posting(t, c, batchOf(messages...))
				recv(t, begun, "the call")
				synctest.Wait() // the others are answered
				c.notify(methodCancelled, cancelOf(held))
				got := answeredIn(t, recv(t, over, "the end of the response"))
				if slices.Sort(got); !slices.Equal(got, want) {
					t.Errorf("answered: %q, want %q", got, want)
				}
			})
			inBubble(t, fmt.Sprint("stdio ", held, others), func(t *testing.T) {
				g, begun, _ := batchRig(t)
				m := mode{"stdio/2025-03-26", false, false, "2025-03-26"}
				c := g.stdio(m)
				messages, want := []string{m.request(held, "x/hold", `{}`)}, ""
				for i := range others {
					messages = append(messages, m.request(fmt.Sprintf(`10%d`, i), "tools/list", ""))
					want += fmt.Sprintf(`10%d `, i)
				}
				f := c.feed("")
				c.send(batchOf(messages...))
				recv(t, begun, "the call")
				c.notify(methodCancelled, cancelOf(held))
				if others > 0 {
					parts, envs, bad := parseBatch([]byte(f.next()), true, 1<<20)
					got := ""
					for _, env := range envs {
						got += string(env.id) + " "
					}
					if bad != nil || got != want {
						t.Errorf("answered by %s: %v", parts, bad)
					}
					return
				}
				c.rpc(`1`, "tools/list", "{}")
				synctest.Wait()
				for len(f.c) > 0 {
					t.Errorf("answered by %s", <-f.c)
				}
			})
		}
	}
}

// D14: the response ends with the last call that somebody waits for, though the server may still be at another.
func TestBatchEndsWithItsLastCall(t *testing.T) {
	for _, first := range []string{"answered", "cancelled"} {
		inBubble(t, first, func(t *testing.T) {
			g, begun, free := batchRig(t)
			c := g.connect(oldHTTP, HandlerOptions{}).(*httpClient)
			over := posting(t, c, batchOf(oldHTTP.request(`1`, "x/stubborn", `{}`), oldHTTP.request(`2`, "x/stubborn", `{}`)))
			recv(t, begun, "a call")
			if recv(t, begun, "the other call"); first == "answered" {
				free <- struct{}{}
				// One of the two is answered; the cancel of the one that is not ends the response, that of the other does nothing.
				synctest.Wait()
			}
			c.notify(methodCancelled, cancelOf(`1`))
			c.notify(methodCancelled, cancelOf(`2`))
			got := recv(t, over, "the end of the response")
			close(free) // the session's end waits for its calls
			if ids := answeredIn(t, got); len(ids) > 1 || len(ids) == 1 != (first == "answered") {
				t.Errorf("answered: %q", ids)
			}
		})
	}
}

// D14: cancels that come before their call, in time or in the same batch, end it before it begins; the rest of the batch is done.
func TestCancelOvertakesInABatch(t *testing.T) {
	g, begun, _ := batchRig(t)
	c := g.connect(oldHTTP, HandlerOptions{}).(*httpClient)
	held, list := oldHTTP.request(`7`, "x/hold", `{}`), oldHTTP.request(`8`, "tools/list", "")
	cancel := oldHTTP.request("", methodCancelled, cancelOf(`7`))
	for name, row := range map[string]struct {
		before bool
		batch  []string
		want   []string
	}{
		"before, alone":    {true, []string{held}, nil},
		"before, another":  {true, []string{held, list}, []string{`8`}},
		"after it":         {false, []string{held, cancel}, nil},
		"after, another":   {false, []string{held, cancel, list}, []string{`8`}},
		"in front of it":   {false, []string{cancel, held}, nil},
		"in front, a list": {false, []string{list, cancel, held}, []string{`8`}},
	} {
		if row.before {
			c.notify(methodCancelled, cancelOf(`7`))
		}
		if got := answeredIn(t, recv(t, posting(t, c, batchOf(row.batch...)), name)); !slices.Equal(got, row.want) {
			t.Errorf("%s: answered: %q", name, got)
		}
		if got := drain(begun); len(got) > 0 {
			t.Errorf("%s: the call began", name)
		}
	}
}

// D14: a cancel in a batch ends its call at once, however long the calls of the batch take; in a batch that the SDK refuses
// for its session it ends nothing.
func TestCancelBesideAHeldCall(t *testing.T) {
	g, begun, _ := batchRig(t)
	c := g.connect(oldHTTP, HandlerOptions{}).(*httpClient)
	held := posting(t, c, oldHTTP.request(`7`, "x/hold", `{}`))
	recv(t, begun, "the call")
	batch := batchOf(oldHTTP.request(`8`, "x/hold", `{}`), oldHTTP.request("", methodCancelled, cancelOf(`7`)))
	resp := c.post(t.Context(), batch, map[string]string{"Authorization": "Bearer mallory"})
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Error(resp.Status)
	}
	select {
	case body := <-held:
		t.Fatalf("another's cancel counts: %s", body)
	case <-time.After(50 * time.Millisecond):
	}
	over := posting(t, c, batch)
	if body := recv(t, held, "the cancelled call"); body != "" {
		t.Errorf("answered by %s", body)
	}
	recv(t, begun, "the call of the batch")
	c.notify(methodCancelled, cancelOf(`8`))
	if body := recv(t, over, "the batch"); body != "" {
		t.Errorf("answered by %s", body)
	}
}

// An initialize is answered whatever is cancelled.
func TestBatchWithoutCancel(t *testing.T) {
	g, _, _ := batchRig(t)
	c := g.connect(oldHTTP, HandlerOptions{}).(*httpClient)
	g.srv.AddTool(&mcp.Tool{Name: "echo", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{}, nil
	})
	initialize := oldHTTP.request(`"i"`, methodInitialize, `{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`)
	got := answeredIn(t, recv(t, posting(t, c, batchOf(initialize, oldHTTP.request("", methodCancelled, cancelOf(`"i"`)),
		oldHTTP.request(`2`, methodCall, `{"name":"echo","arguments":{}}`))), "the batch"))
	if slices.Sort(got); !slices.Equal(got, []string{`"i"`, `2`}) {
		t.Errorf("answered: %q", got)
	}
}
