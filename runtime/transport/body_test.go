package transport

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/slowpeer"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// CAP-5: a body that does not come is waited for so long and no longer, also where the request is refused before
// anything of it is wanted (S2).
func TestSlowBodies(t *testing.T) {
	long := "Mcp-Session-Id: " + strings.Repeat("x", maxHeader+1) + "\r\n"
	for name, c := range map[string]struct {
		handler func(*rig) http.Handler
		head    string
	}{
		"a call":              {mcpHandler, "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"},
		"a long header":       {mcpHandler, "POST /mcp HTTP/1.1\r\nHost: a\r\n" + long},
		"another method":      {mcpHandler, "PUT /mcp HTTP/1.1\r\nHost: a\r\n"},
		"a GET with a body":   {mcpHandler, "GET /mcp HTTP/1.1\r\nHost: a\r\nMcp-Protocol-Version: 2026-07-28\r\n"},
		"another type":        {mcpHandler, "POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\n"},
		"health":              {func(g *rig) http.Handler { return HealthHandler(g.es) }, "POST / HTTP/1.1\r\nHost: a\r\n"},
		"SSE":                 {func(g *rig) http.Handler { return NewSSEHandler(g.srv, g.es, nil) }, "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n"},
		"SSE, another method": {func(g *rig) http.Handler { return NewSSEHandler(g.srv, g.es, nil) }, "PUT / HTTP/1.1\r\nHost: 127.0.0.1\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, server.Options{})
				defer g.stop()
				answer, held, err := slowpeer.Hold(&http.Server{Handler: c.handler(g)}, c.head)
				if err != nil || held > defaultReadTimeout+time.Second || !strings.HasPrefix(answer, "HTTP/1.1 4") {
					t.Errorf("%v, %v, %.60q", held, err, answer)
				}
			})
		})
	}
}

func mcpHandler(g *rig) http.Handler { return NewHandler(g.es, HandlerOptions{}) }

// POLL-9, LIST-5: a ReadTimeout of the server's is for bodies: what a request then holds open outlives it.
func TestReadTimeoutSparesWhatIsHeld(t *testing.T) {
	for _, m := range modes[2:] {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, server.Options{})
				c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{})), func(hs *http.Server) { hs.ReadTimeout = 2 * time.Second })
				if !m.modern() {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
					if err != nil {
						t.Fatal(err)
					}
					r.Header = c.header.Clone()
					r.Header.Set("Accept", "text/event-stream")
					resp, err := c.hc.Do(r)
					if err != nil || resp.StatusCode != http.StatusOK {
						t.Fatal(resp, err)
					}
					defer resp.Body.Close()
					time.Sleep(10 * time.Second)
					g.addType("tock")
					for lines := bufio.NewScanner(resp.Body); ; {
						if !lines.Scan() {
							t.Fatalf("the stream ended: %v", lines.Err())
						}
						if strings.Contains(lines.Text(), wire.NotificationListChanged) {
							break
						}
					}
				}
				boot := c.rpc(`2`, wire.MethodPoll, `{"name":"tick"}`)
				began := time.Now()
				held := c.rpc(`3`, wire.MethodPoll, `{"name":"tick","timeoutMs":10000,"cursor":`+string(member(boot.result, "cursor"))+`}`)
				if d := time.Since(began); held.result == nil || d != 10*time.Second {
					t.Errorf("held for %v: %s %s", d, held.result, held.error)
				}
			})
		})
	}
}

// untouched is a body that nobody may ask for.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was asked for")
	return 0, io.EOF
}

func (untouched) Close() error { return nil }

// CAP-5: a body that is longer than the limit by its own word, compressed or not in UTF-8 is refused before anything of it
// is read, so that a client that waits for 100 Continue sends nothing.
func TestBodiesRefusedUnread(t *testing.T) {
	g := newRig(t, server.Options{})
	defer g.stop()
	for name, row := range map[string]struct {
		length int64
		header map[string]string
		status int
	}{
		"too long":            {100 << 30, nil, http.StatusRequestEntityTooLarge},
		"gzip":                {10, map[string]string{"Content-Encoding": "gzip"}, http.StatusUnsupportedMediaType},
		"twice":               {10, map[string]string{"Content-Encoding": "identity, br"}, http.StatusUnsupportedMediaType},
		"another charset":     {10, map[string]string{"Content-Type": "application/json; charset=utf-16"}, http.StatusUnsupportedMediaType},
		"the right charset":   {0, map[string]string{"Content-Type": "application/json; charset=UTF-8", "Content-Encoding": "identity"}, http.StatusBadRequest},
		"two origins":         {10, map[string]string{"Origin": "http://127.0.0.1\nhttps://evil.example"}, http.StatusForbidden},
		"two allowed origins": {10, map[string]string{"Origin": "https://app.example.com\nhttps://app.example.com"}, http.StatusForbidden},
	} {
		for _, version := range []string{wire.RevisionLegacy, wire.RevisionStateless} {
			var body io.ReadCloser = untouched{t}
			if row.length == 0 {
				body = http.NoBody
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/mcp", body)
			r.ContentLength = row.length
			r.Header = http.Header{"Content-Type": {contentTypeJSON}, "Accept": {"*/*"}, http.CanonicalHeaderKey(headerVersion): {version}}
			for k, v := range row.header {
				r.Header[k] = strings.Split(v, "\n")
			}
			w := httptest.NewRecorder()
			NewHandler(g.es, HandlerOptions{Origins: []string{"https://app.example.com"}}).ServeHTTP(w, r)
			if w.Code != row.status {
				t.Errorf("%s: %d %s", name, w.Code, w.Body)
			}
		}
	}
}
