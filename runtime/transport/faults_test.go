package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

func httpModes(t *testing.T, f func(t *testing.T, m mode)) {
	inEveryMode(t, func(t *testing.T, m mode) {
		if m.http {
			f(t, m)
		}
	})
}

// PUSH-7: a reader that stalls is cut by the write deadline and frees its stream; others go on.
func TestStalledReaderIsCut(t *testing.T) {
	httpModes(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{SkipPayloadValidation: true})
		c := g.connect(m, HandlerOptions{WriteTimeout: 200 * time.Millisecond}).(*httpClient)
		resp := c.post(context.Background(), m.request(`1`, wire.MethodStream, `{"name":"tick"}`), nil)
		defer resp.Body.Close() // never read
		stalled := recv(t, g.opened, "opened")
		lively := c.stream(`2`, `{"name":"tick","arguments":{"channel":"x"}}`)
		lively.want(wire.NotificationActive)
		note := strings.Repeat("x", 512<<10)
		for i := 0; len(g.ended) == 0 && i < 64; i++ { // more than the sockets' buffers hold
			if err := g.ticks.Emit(context.Background(), tickPayload{Note: note}); err != nil {
				t.Fatal(err)
			}
		}
		if got := recv(t, g.ended, "stalled stream freed"); got != stalled {
			t.Error("another stream was cut")
		}
		g.ticks.Emit(context.Background(), tickPayload{Channel: "x"})
		lively.want(wire.NotificationEvent)
	})
}

// A legacy stream ends with its session: final result, then close; and only those of the session.
func TestStreamEndsWithItsSession(t *testing.T) {
	httpModes(t, func(t *testing.T, m mode) {
		if m.modern() {
			return
		}
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{}).(*httpClient)
		other := g.dial(m, c.url, c.hc)
		a, b := c.stream(`1`, `{"name":"tick"}`), other.stream(`1`, `{"name":"tick","arguments":{"channel":"x"}}`)
		a.want(wire.NotificationActive)
		b.want(wire.NotificationActive)
		resp, err := c.do(context.Background(), http.MethodDelete, "", nil)
		if err != nil || resp.StatusCode != http.StatusNoContent {
			t.Fatal(err, resp)
		}
		resp.Body.Close()
		if final := a.want(""); string(final.result) != `{"_meta":{}}` {
			t.Errorf("final %s", final.result)
		}
		if rest := a.over(); len(rest) > 0 {
			t.Errorf("after the final result: %q", rest)
		}
		recv(t, g.ended, "freed")
		g.ticks.Emit(context.Background(), tickPayload{Channel: "x"})
		b.want(wire.NotificationEvent)
	})
}

// AUTH-4: when the token expires, the stream gets its final result without terminated.
func TestStreamEndsWithItsToken(t *testing.T) {
	for _, m := range modes[2:] {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, server.Options{Heartbeat: 20 * time.Second})
				c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{})))
				c.header.Set("Authorization", "Bearer alice:50s")
				started := time.Now()
				f := c.stream(`1`, `{"name":"tick"}`)
				f.patient = time.Hour
				f.want(wire.NotificationActive)
				f.want(wire.NotificationHeartbeat)
				f.want(wire.NotificationHeartbeat)
				f.want("")
				if d := time.Since(started); d != 50*time.Second {
					t.Errorf("ended after %v", d)
				}
				if rest := f.over(); len(rest) > 0 {
					t.Errorf("after the final result: %q", rest)
				}
			})
		})
	}
}

// PUSH-4, PUSH-11: the server's own timeouts, made for short requests, do not end a stream.
func TestServerTimeoutsSpareStreams(t *testing.T) {
	for _, m := range modes[2:] {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, server.Options{})
				c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{WriteTimeout: time.Second})), func(hs *http.Server) {
					hs.ReadTimeout, hs.WriteTimeout, hs.IdleTimeout = 2*time.Second, 2*time.Second, 2*time.Second
				})
				f := c.stream(`1`, `{"name":"tick"}`)
				f.patient = time.Hour
				f.want(wire.NotificationActive)
				for range 4 {
					f.want(wire.NotificationHeartbeat)
				}
				g.emit(1)
				f.want(wire.NotificationEvent)
				f.cancel()
				synctest.Wait()
			})
		})
	}
}

// An open stream keeps its legacy session from idling out; without one it does.
func TestStreamKeepsItsSession(t *testing.T) {
	for _, m := range []mode{modes[2], modes[4]} {
		t.Run(m.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, server.Options{})
				c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{SessionTimeout: 10 * time.Second})))
				f := c.stream(`1`, `{"name":"tick"}`)
				f.patient = time.Hour
				f.want(wire.NotificationActive)
				time.Sleep(time.Minute)
				g.emit(1)
				for f.want1().method != wire.NotificationEvent {
				}
				f.cancel()
				time.Sleep(11 * time.Second)
				resp := c.post(context.Background(), m.request(`2`, wire.MethodPoll, `{"name":"tick"}`), nil)
				resp.Body.Close()
				if resp.StatusCode != http.StatusNotFound {
					t.Errorf("an idle session answers %s", resp.Status)
				}
			})
		})
	}
}

// SRV-6: a graceful shutdown of the HTTP server ends all streams with their final result.
func TestHTTPShutdownEndsStreams(t *testing.T) {
	httpModes(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{})
		ts := g.listen(m, bearer(NewHandler(g.es, HandlerOptions{})))
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
		defer cancel()
		ts.RegisterOnShutdown(func() { g.es.Shutdown(ctx) })
		c := g.dial(m, ts.URL, ts.Client())
		var feeds []*feed
		for i := range 3 {
			f := c.stream(fmt.Sprint(i), `{"name":"tick"}`)
			f.want(wire.NotificationActive)
			feeds = append(feeds, f)
		}
		if m.modern() {
			f := open(c, m, `"l"`, methodListen, `{"notifications":{"eventsListChanged":true}}`)
			f.want(methodAcknowledged)
			feeds = append(feeds, f)
		} else {
			resp, err := c.do(ctx, http.MethodGet, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
		}
		if err := ts.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		for _, f := range feeds {
			f.want("")
			if rest := f.over(); len(rest) > 0 {
				t.Errorf("after the final result: %q", rest)
			}
		}
	})
}

// A client that goes away while the subscription is still being decided leaves nothing behind.
func TestAbortWhileOpening(t *testing.T) {
	httpModes(t, func(t *testing.T, m mode) {
		g := newRig(t, server.Options{MaxStreams: 1})
		g.hold = make(chan struct{})
		c := g.connect(m, HandlerOptions{}).(*httpClient)
		ctx, cancel := context.WithCancel(context.Background())
		failed := make(chan error, 1)
		go func() {
			_, err := c.do(ctx, http.MethodPost, m.request(`1`, wire.MethodStream, `{"name":"tick"}`), nil)
			failed <- err
		}()
		recv(t, g.opened, "opening")
		cancel()
		recv(t, failed, "aborted")
		g.awaitNone()
		close(g.hold)
		f := c.stream(`2`, `{"name":"tick"}`) // the one slot is free
		f.want(wire.NotificationActive)
		f.cancel()
	})
}

// plainWriter hides every optional method of a ResponseWriter.
type plainWriter struct{ w http.ResponseWriter }

func (p plainWriter) Header() http.Header         { return p.w.Header() }
func (p plainWriter) Write(b []byte) (int, error) { return p.w.Write(b) }
func (p plainWriter) WriteHeader(status int)      { p.w.WriteHeader(status) }

// LIST-3: through a writer that cannot flush, push is not offered, and asking for it is refused
// before anything is opened.
func TestWriterWithoutFlush(t *testing.T) {
	for _, m := range []mode{modes[2], modes[3]} {
		inBothWays(t, server.Options{}, func(t *testing.T, g *rig) {
			front := NewHandler(g.es, HandlerOptions{})
			c := g.serve(m, bearer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.Header.Get("X-Plain"), "y") {
					w = plainWriter{w}
				}
				front.ServeHTTP(w, r)
			})))
			c.header.Set("X-Plain", "yes")
			resp := c.post(context.Background(), m.request(`1`, wire.MethodStream, `{"name":"tick"}`), nil)
			if got := resp.Header.Get("Content-Type"); got != contentTypeJSON {
				t.Errorf("%s: refused as %s", m.name, got)
			}
			e := errorOf(t, readMessage(t, resp))
			if e.Code != -32014 || string(e.Data) != `{"feature":"deliveryMode","value":"push"}` {
				t.Errorf("%s: %+v", m.name, e)
			}
			var list wire.ListResult
			if err := json.Unmarshal(c.rpc(`2`, wire.MethodList, "").result, &list); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(list.Events[0].Delivery, " "); got != "poll" {
				t.Errorf("%s: delivery %q", m.name, got)
			}
			if len(g.opened) > 0 {
				t.Errorf("%s: a subscription was opened", m.name)
			}
		})
	}
}

// ERR-3, PUSH-11: a refused stream is application/json with the SDK's status, in both eras.
func TestRefusedStreamOverHTTP(t *testing.T) {
	for _, m := range modes[2:] {
		g := newRig(t, server.Options{})
		c := g.connect(m, HandlerOptions{}).(*httpClient)
		for _, row := range []struct {
			params string
			code   int64
			status int // of the stateless revision
		}{
			{`{"name":"nope"}`, -32011, 200},
			{`{"name":"tick","arguments":{"bad":1}}`, -32602, 400},
		} {
			resp := c.post(context.Background(), m.request(`"r"`, wire.MethodStream, row.params), nil)
			want := http.StatusOK
			if m.modern() {
				want = row.status
			}
			if resp.StatusCode != want || resp.Header.Get("Content-Type") != contentTypeJSON {
				t.Errorf("%s %s: %s %s", m.name, row.params, resp.Status, resp.Header.Get("Content-Type"))
			}
			if env := readMessage(t, resp); errorOf(t, env).Code != row.code || string(env.id) != `"r"` {
				t.Errorf("%s %s: %s %s", m.name, row.params, env.id, env.error)
			}
		}
	}
}
