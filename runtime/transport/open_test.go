package transport

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
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
						if retry != "" {
							t.Fatalf("%d with Retry-After: %s, and nobody knows when a request ends", code, retry)
						}
						if code == want {
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

// CAP-7: and sessions of HTTP+SSE.
func TestCAP7SSESessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
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
		// The SDK panics if a session is closed while it connects, which is after the response begins.
		synctest.Wait()
	})
}

// CAP-7: callers without a principal have the bound for each address, and share a larger one. A negative bound is none.
func TestCAP7Nobody(t *testing.T) {
	for _, row := range []struct{ given, each, all int }{{2, 2, 32}, {-1, 100, 1000}} {
		o := newOpenCount(row.given)
		from := func(i int) accountKey {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.RemoteAddr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), uint16(1000+i)).String()
			return accountKeyOf("", r)
		}
		opened := 0
		for i := range row.all / row.each {
			for range row.each {
				if !o.reserve(newRecorder(), from(i), "requests") {
					t.Fatalf("%+v: refused after %d", row, opened)
				}
				opened++
			}
			if got := o.reserve(newRecorder(), from(i), "requests"); got != (row.given < 0) {
				t.Errorf("%+v: one more of an address: %v", row, got)
			}
		}
		if got := o.reserve(newRecorder(), from(250), "requests"); got != (row.given < 0) {
			t.Errorf("%+v: one more of another address: %v", row, got)
		}
		o.release(from(0))
		if !o.reserve(newRecorder(), from(250), "requests") {
			t.Errorf("%+v: refused after one has left", row)
		}
	}
}
