package transport

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// CAP-7: whatever a principal holds open counts, of any kind; beyond the bound that one alone is refused.
func TestCAP7OpenRequests(t *testing.T) {
	for _, m := range modes[2:4] {
		for kind, open := range map[string]func(ctx context.Context, c *httpClient, cursor string) (*http.Response, error){
			"stream": func(ctx context.Context, c *httpClient, _ string) (*http.Response, error) {
				return c.do(ctx, http.MethodPost, m.request(`"s"`, wire.MethodStream, `{"name":"tick"}`), map[string]string{headerMethod: wire.MethodStream})
			},
			"held poll": func(ctx context.Context, c *httpClient, cursor string) (*http.Response, error) {
				return c.do(ctx, http.MethodPost, m.request(`"p"`, wire.MethodPoll, `{"name":"tick","timeoutMs":20000,"cursor":`+cursor+`}`), map[string]string{headerMethod: wire.MethodPoll})
			},
			"listen or GET": func(ctx context.Context, c *httpClient, _ string) (*http.Response, error) {
				if m.modern() {
					return c.do(ctx, http.MethodPost, m.request(`"l"`, methodListen, `{"notifications":{"eventsListChanged":true}}`), map[string]string{headerMethod: methodListen})
				}
				return c.do(ctx, http.MethodGet, "", nil)
			},
		} {
			inBubble(t, m.name+"/"+kind, func(t *testing.T) {
				g := newRig(t, server.Options{})
				ts := g.listen(m, bearer(NewHandler(g.es, HandlerOptions{MaxOpen: 2})))
				var alices []*httpClient // a session has one GET at a time, and an id one call
				for range 2 {
					alices = append(alices, g.dial(m, ts.URL, ts.Client()))
				}
				boot := alices[0].rpc(`"b"`, wire.MethodPoll, `{"name":"tick"}`)
				cursor := string(member(boot.result, "cursor"))
				ctx, cancel := context.WithCancel(context.Background())
				over := make(chan struct{}, 2)
				for _, c := range alices {
					go func() {
						defer func() { over <- struct{}{} }()
						for ctx.Err() == nil { // again where a question below took its place
							if resp, err := open(ctx, c, cursor); err == nil {
								_, _ = io.Copy(io.Discard, resp.Body)
								resp.Body.Close()
							}
						}
					}()
				}
				ask := func(token string) (int, string) {
					t.Helper()
					r, err := http.NewRequest(http.MethodPost, ts.URL, strings.NewReader(modes[3].request(`"x"`, wire.MethodPoll, `{"name":"tick"}`)))
					if err != nil {
						t.Fatal(err)
					}
					r.Header.Set("Authorization", "Bearer "+token)
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Accept", "application/json, text/event-stream")
					r.Header.Set(headerVersion, modes[3].version)
					r.Header.Set(headerMethod, wire.MethodPoll)
					resp, err := ts.Client().Do(r)
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					return resp.StatusCode, resp.Header.Get("Retry-After")
				}
				until := func(want int) {
					t.Helper()
					deadline := time.Now().Add(patience)
					for {
						code, retry := ask("alice")
						if code == want && (code == http.StatusOK) == (retry == "") {
							return
						}
						if time.Now().After(deadline) {
							t.Fatalf("alice gets %d, want %d", code, want)
						}
						time.Sleep(5 * time.Millisecond)
					}
				}
				until(http.StatusTooManyRequests)
				if code, _ := ask("bob"); code != http.StatusOK {
					t.Errorf("bob gets %d", code)
				}
				cancel()
				<-over
				<-over
				until(http.StatusOK)
			})
		}
	}
}

// CAP-7: so do legacy sessions, until they end.
func TestCAP7Sessions(t *testing.T) {
	g := newRig(t, server.Options{})
	ts := g.listen(modes[2], bearer(NewHandler(g.es, HandlerOptions{MaxSessions: 2})))
	begin := func(token string) (status int, session string) {
		r, err := http.NewRequest(http.MethodPost, ts.URL, strings.NewReader(initializeRequest(wire.RevisionLegacy)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := ts.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Header.Get(headerSession)
	}
	_, first := begin("alice")
	if code, id := begin("alice"); code != http.StatusOK || id == "" || first == "" {
		t.Fatalf("%d, sessions %q %q", code, first, id)
	}
	if code, id := begin("alice"); code != http.StatusTooManyRequests || id != "" {
		t.Errorf("a third session: %d %q", code, id)
	}
	if code, _ := begin("bob"); code != http.StatusOK {
		t.Errorf("bob gets %d", code)
	}
	r, err := http.NewRequest(http.MethodDelete, ts.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer alice")
	r.Header.Set(headerSession, first)
	resp, err := ts.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		code, _ := begin("alice")
		if code == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after one ended: %d", code)
		}
	}
}

// CAP-7: and sessions of HTTP+SSE.
func TestCAP7SSESessions(t *testing.T) {
	g := newRig(t, server.Options{})
	h := NewSSEHandler(g.srv, g.es, nil).(*sseHandler)
	h.begun.max = 1
	ts := g.listen(modes[2], bearer(h))
	open := func(ctx context.Context, token string) *http.Response {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, ts.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := ts.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, row := range []struct {
		token string
		want  int
	}{{"alice", 200}, {"alice", 429}, {"bob", 200}} {
		resp := open(ctx, row.token)
		if resp.StatusCode != row.want {
			t.Errorf("%s gets %d, want %d", row.token, resp.StatusCode, row.want)
		}
		defer resp.Body.Close()
	}
}

// Callers without a principal share a larger bound, and a negative one is none.
func TestCAP7Nobody(t *testing.T) {
	for _, row := range []struct{ given, named, nobody int }{{0, defaultMaxOpen, defaultMaxOpen * nobodysShare}, {2, 2, 2 * nobodysShare}, {-1, 100_000, 100_000}} {
		for principal, n := range map[string]int{"ann": row.named, "": row.nobody} {
			o := newOpenCount(row.given, defaultMaxOpen)
			for range n {
				if !o.enter(newRecorder(), principal, "requests") {
					t.Fatalf("%+v: %q is refused", row, principal)
				}
			}
			if got := o.enter(newRecorder(), principal, "requests"); got != (row.given < 0) {
				t.Errorf("%+v: one more of %q: %v", row, principal, got)
			}
		}
	}
}
