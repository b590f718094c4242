package transport

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// PUSH-4: an event stream that stays open is never silent for longer than a heartbeat, so that no proxy takes it for an idle
// one, and it tells proxies not to buffer it.
func TestPUSH4EveryEventStreamBeats(t *testing.T) {
	listen := func(notifications string) func(*rig, mode, http.Handler) *http.Response {
		return func(g *rig, m mode, h http.Handler) *http.Response {
			c := g.serve(m, h)
			return c.post(context.Background(), m.request(`"l"`, methodListen, `{"notifications":`+notifications+`}`), nil)
		}
	}
	get := func(g *rig, m mode, h http.Handler) *http.Response {
		resp, err := g.serve(m, h).do(context.Background(), http.MethodGet, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for name, row := range map[string]struct {
		modes []mode
		sse   bool
		open  func(*rig, mode, http.Handler) *http.Response
	}{
		"standing GET":      {[]mode{modes[2], modes[4]}, false, get},
		"listen for events": {[]mode{modes[3], modes[5]}, false, listen(`{"eventsListChanged":true}`)},
		"listen for tools":  {[]mode{modes[3], modes[5]}, false, listen(`{"toolsListChanged":true}`)},
		"listen for both":   {[]mode{modes[3]}, false, listen(`{"toolsListChanged":true,"eventsListChanged":true}`)},
		"HTTP+SSE": {[]mode{modes[2]}, true, func(g *rig, m mode, h http.Handler) *http.Response {
			w := g.listen(m, h)
			r, err := http.NewRequest(http.MethodGet, w.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer alice")
			resp, err := w.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}},
	} {
		for _, m := range row.modes {
			inBubble(t, name+"/"+m.name, func(t *testing.T) {
				g := newRig(t, server.Options{})
				h := NewHandler(g.es, HandlerOptions{})
				if row.sse {
					h = NewSSEHandler(g.srv, g.es, nil)
				}
				resp := row.open(g, m, bearer(h))
				if got := resp.Header.Get("X-Accel-Buffering"); got != "no" || resp.StatusCode != http.StatusOK {
					t.Errorf("%s, X-Accel-Buffering: %q", resp.Status, got)
				}
				var comments []time.Duration
				begin, last := time.Now(), time.Now()
				go func() {
					time.Sleep(2 * time.Minute)
					resp.Body.Close()
				}()
				for r := bufio.NewReader(resp.Body); ; {
					line, err := r.ReadString('\n')
					if err != nil {
						break
					}
					if strings.HasPrefix(line, ":") && time.Since(begin) > 0 {
						comments = append(comments, time.Since(last))
					}
					last = time.Now()
				}
				if len(comments) < 4 {
					t.Fatalf("%d comments in two minutes", len(comments))
				}
				for _, after := range comments {
					if after > 30*time.Second {
						t.Errorf("a comment after %v", after)
					}
				}
			})
		}
	}
}

// PUSH-4: so do the answers that come as event streams, which no heartbeat could be added to.
func TestPUSH4AnswersAreNotBuffered(t *testing.T) {
	for _, m := range modes[2:] {
		inBubble(t, m.name, func(t *testing.T) {
			g := newRig(t, server.Options{})
			c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{})))
			for method, params := range map[string]string{methodCall: `{"name":"noop","arguments":{}}`, wire.MethodStream: `{"name":"tick"}`} {
				ctx, cancel := context.WithCancel(context.Background())
				header := map[string]string{}
				if method == methodCall {
					header["Mcp-Name"] = "noop"
				}
				resp := c.post(ctx, m.request(`"`+method+`"`, method, params), header)
				if mediaType(resp.Header.Get("Content-Type")) != sse.ContentType || resp.Header.Get("X-Accel-Buffering") != "no" {
					t.Errorf("%s: %s %q", method, resp.Status, resp.Header)
				}
				cancel()
				resp.Body.Close()
			}
		})
	}
}

// The newest GET of a session has its standing stream: the connection of an older one may be dead, and only its proxy knows.
// An older one is over then, and what the session is told arrives once.
func TestNewerGETWins(t *testing.T) {
	for _, m := range []mode{modes[2], modes[4]} {
		inBubble(t, m.name, func(t *testing.T) {
			g := newRig(t, server.Options{})
			c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{})))
			get := func(token string) *http.Response {
				t.Helper()
				resp, err := c.do(context.Background(), http.MethodGet, "", map[string]string{"Authorization": "Bearer " + token})
				if err != nil {
					t.Fatal(err)
				}
				return resp
			}
			var all []*http.Response
			for range 3 {
				all = append(all, get("alice"))
			}
			stranger := get("bob")
			if stranger.Body.Close(); stranger.StatusCode != http.StatusForbidden {
				t.Errorf("bob gets %s", stranger.Status)
			}
			for i, resp := range all[:2] {
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("GET %d: %s", i, resp.Status)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil { // to its end
					t.Errorf("GET %d: %v", i, err)
				}
			}
			f := feedOf(t, all[2], func() { all[2].Body.Close() })
			g.addType("tock")
			f.want(wire.NotificationListChanged)
			f.cancel()
			synctest.Wait()
		})
	}
}

// A resumed stream of a call goes to the newest request, too.
func TestNewerResumingGETWins(t *testing.T) {
	inBubble(t, "resume", func(t *testing.T) {
		g := newRig(t, server.Options{})
		release := make(chan struct{})
		mcp.AddTool(g.srv, &mcp.Tool{Name: "slow"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			<-release
			return &mcp.CallToolResult{}, nil, nil
		})
		m := modes[2]
		c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{Streamable: resumable()})))
		ctx, cancel := context.WithCancel(context.Background())
		resp := c.post(ctx, m.request(`7`, methodCall, `{"name":"slow","arguments":{}}`), nil)
		var last string
		for r := bufio.NewReader(resp.Body); last == ""; {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				last = strings.TrimSpace(id)
			}
		}
		cancel()
		synctest.Wait()
		get := func() *http.Response {
			resp, err := c.do(context.Background(), http.MethodGet, "", map[string]string{headerLastEventID: last})
			if err != nil {
				t.Fatal(err)
			}
			return resp
		}
		var answers [2]chan string
		for i := range answers { // the header of an answer comes with its first event
			answers[i] = make(chan string, 1)
			go func() {
				resp := get()
				defer resp.Body.Close()
				body, err := io.ReadAll(resp.Body)
				if err != nil {
					t.Error(err)
				}
				answers[i] <- string(body)
			}()
			synctest.Wait()
		}
		close(release)
		if older := <-answers[0]; strings.Contains(older, `"id":7`) {
			t.Errorf("the older request has the answer: %s", older)
		}
		if newest := <-answers[1]; !strings.Contains(newest, `"id":7`) {
			t.Errorf("the newest request gets %s", newest)
		}
	})
}
