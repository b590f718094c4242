package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// CLI-4: ending a subscription really aborts its request, over real sockets and both versions of
// HTTP, and the session goes on.
func TestCLI4Abort(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		for _, legacy := range []bool{true, false} {
			f := newFake(legacy)
			aborted := make(chan struct{}, 8)
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
				st.active("c0")
				st.event("e1", "c1")
				<-st.ctx.Done()
				aborted <- struct{}{}
				return nil, nil
			}
			srv := httptest.NewUnstartedServer(f)
			srv.EnableHTTP2 = h2
			srv.Config.ErrorLog = log.New(io.Discard, "", 0)
			srv.StartTLS()
			cl, err := Connect(t.Context(), HTTP(srv.URL, srv.Client()), Options{})
			if err != nil {
				t.Fatal(err)
			}
			wait := func(what string) {
				t.Helper()
				select {
				case <-aborted:
				case <-time.After(time.Minute):
					t.Errorf("%s did not abort the stream (HTTP/2 %t)", what, h2)
				}
			}
			s := subscribe(t, cl)
			read(t, s).want("e1")
			s.Close()
			wait("Close")
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := Subscribe(ctx, cl, Dynamic("tick"), nil); err != nil {
				t.Fatal(err)
			}
			cancel()
			wait("cancel")
			if _, err := cl.List(t.Context()); err != nil {
				t.Error(err)
			}
			subscribe(t, cl)
			cl.Close()
			wait("the kill switch")
			close(f.done)
			srv.Close()
		}
	}
}

// Giving up while the server has not answered ends Subscribe at once.
func TestSubscribeCancelled(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		f := newFake(c.legacy)
		f.stream = hold
		cl := connect(t, f, c, Options{})
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, errors.New("enough"))
		defer cancel()
		start := time.Now()
		if _, err := Subscribe(ctx, cl, Dynamic("tick"), nil); err == nil || err.Error() != "enough" {
			t.Error(err)
		}
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("took %v", d)
		}
		// Without a limit of its own, a stream that never becomes active is given up as dead.
		if _, err := Subscribe(t.Context(), cl, Dynamic("tick"), nil); !errors.Is(err, errSilent) {
			t.Error(err)
		}
		synctest.Wait()
		if f.streams() != 0 {
			t.Error("left open")
		}
	})
}

// The timeout of the application's HTTP client does not cut streams, and the limits of the calls of
// this package are its own.
func TestHTTPClientTimeout(t *testing.T) {
	for _, c := range carriers[2:] {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(c.legacy)
			f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
				st.active("c0")
				time.Sleep(55 * time.Second)
				st.event("e1", "c1")
				return hold(st)
			}
			tr := f.transport(t, c).(*mcp.StreamableClientTransport)
			tr.HTTPClient.Timeout = 2 * time.Second
			cl, err := Connect(t.Context(), tr, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			read(t, subscribe(t, cl)).want("e1")
			if len(f.cursors()) != 1 {
				t.Errorf("%d streams", len(f.cursors()))
			}
			f.refuse = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Request) bool {
				if m.Method == "tools/list" {
					time.Sleep(time.Minute)
				}
				return false
			}
			start := time.Now()
			if _, err := cl.Session().ListTools(t.Context(), nil); err == nil || time.Since(start) != 2*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	}
}

type oauthHandler struct{ authorized int }

func (o *oauthHandler) TokenSource(context.Context) (oauth2.TokenSource, error) {
	if o.authorized == 0 {
		return nil, nil
	}
	return oauth2.StaticTokenSource(&oauth2.Token{AccessToken: "good"}), nil
}

func (o *oauthHandler) Authorize(_ context.Context, _ *http.Request, resp *http.Response) error {
	if !strings.Contains(resp.Header.Get("WWW-Authenticate"), "realm") {
		return errors.New("challenge lost")
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	o.authorized++
	return nil
}

// A 401 challenge to an events call reaches the SDK's OAuth handler untouched, and the stream opens
// after it.
func TestOAuthChallenge(t *testing.T) {
	for _, c := range carriers[2:] {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(c.legacy)
			f.stream = numbered(1)
			f.refuse = func(w http.ResponseWriter, r *http.Request, m *jsonrpc.Request) bool {
				if m.Method != wire.MethodStream || r.Header.Get("Authorization") == "Bearer good" {
					return false
				}
				w.Header().Set("WWW-Authenticate", `Bearer realm="x"`)
				http.Error(w, "who are you", http.StatusUnauthorized)
				return true
			}
			o := &oauthHandler{}
			tr := f.transport(t, c).(*mcp.StreamableClientTransport)
			tr.OAuthHandler = o
			cl, err := Connect(t.Context(), tr, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			read(t, subscribe(t, cl)).want("e1")
			if o.authorized != 1 {
				t.Errorf("authorized %d times", o.authorized)
			}
		})
	}
}

// A server that sends a stream's frames on the session's GET stream is understood by their
// subscription id.
func TestFramesOnSessionStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(true)
		f.stream = func(st *fakeStream) (any, *jsonrpc.Error) {
			st.active("c0")
			f.mu.Lock()
			get := f.sessions["s1"]
			f.mu.Unlock()
			get <- fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"e1","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{},"cursor":"c1","_meta":{"io.modelcontextprotocol/subscriptionId":%v}}}`, st.id)
			return hold(st)
		}
		read(t, subscribe(t, connect(t, f, carriers[2], Options{}))).want("e1")
	})
}

// filter runs an SSE body through the filter and returns what the SDK would read, and what went to
// the call.
func filter(t *testing.T, body string, streaming bool) (passed string, frames []string, err error) {
	t.Helper()
	b := newBoard(false)
	defer b.abort()
	b.shaking = false
	var own *call
	if streaming {
		own = newCall(newInflow(true))
	}
	f := newSSEFilter(t.Context(), io.NopCloser(strings.NewReader(body)), b, own, "1", 1<<10)
	out, err := io.ReadAll(f)
	if own != nil {
		if errors.As(own.cause, new(*AnswerError)) {
			err = own.cause
		}
		close(own.in.frames)
		for fr := range own.in.frames {
			frames = append(frames, strings.TrimPrefix(fr.method, wire.NotificationPrefix))
		}
	}
	return string(out), frames, err
}

// The filter passes on byte for byte what is not ours, takes what is, in any legal form of SSE, the result of
// a call of ours included, and drops what was cut off, at which the SDK would end the session.
func TestSSEFilter(t *testing.T) {
	const hb = `{"jsonrpc":"2.0","method":"notifications/events/heartbeat","params":{}}`
	const res = `{"jsonrpc":"2.0","id":1,"result":{"text":"notifications/events/heartbeat"}}`
	const stub = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
	const others = `{"jsonrpc":"2.0","id":2,"result":{}}`
	for _, tt := range []struct {
		body, passed string
		frames       int
	}{
		{"data: " + hb + "\n\n", "", 1},
		{"data:" + hb + "\r\n\r\n", "", 1},
		{": hello\nevent: message\nid: 7\ndata: " + hb + "\n\n", "", 1},
		{"data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/events/heartbeat\"}\n\n", "", 1},
		{"data: " + hb + "\n\ndata: " + res + "\n\n", stub, 1},
		{"id: 1\ndata: " + res + "\n\n", stub, 0},
		{"id: 1\ndata: " + others + "\n\n", "event: message\ndata: " + others + "\n\n", 0},
		{"id: 0\nretry: 5\ndata:\n\ndata: " + hb + "\n\n", "", 1},
		{"data: " + hb, "", 1}, // the end of the body ends the block
		{"data: " + res, stub, 0},
		{"data: " + hb[:30], "", 0},
		{"data: " + hb + "\n\nda", "", 1},
		{"data: " + res[:20] + "\n", "", 0},
		{": comment\n\n", "", 0},
		{"", "", 0},
	} {
		passed, frames, err := filter(t, tt.body, true)
		if passed != tt.passed || len(frames) != tt.frames || err != nil {
			t.Errorf("%q:\npassed %q\nframes %v\nerr %v", tt.body, passed, frames, err)
		}
	}
	const other = "id: 3\nevent: message\ndata: " + res + "\n\n"
	if passed, _, _ := filter(t, other, false); passed != other {
		t.Errorf("passed %q", passed)
	}
	for _, streaming := range []bool{false, true} {
		_, _, err := filter(t, "data: "+strings.Repeat("x", 1<<10), streaming)
		if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "is larger than 1024 bytes (Options.MaxMessage)") {
			t.Error(err)
		}
	}
}

// Retry-After is read in both forms, and bounded.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)
		for v, want := range map[string]time.Duration{"": 0, "5": 5 * time.Second, "-1": 0, "x": 0, "99999999999": maxWait, at: time.Minute} {
			if got := retryAfter(&http.Response{Header: http.Header{"Retry-After": {v}}}); got != want {
				t.Errorf("%q: %v", v, got)
			}
		}
	})
}
