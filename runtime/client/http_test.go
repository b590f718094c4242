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
			get <- fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"e1","name":"tick","timestamp":"2026-11-20T08:00:00Z","data":{},"cursor":"c1","_meta":{"io.modelcontextprotocol/subscriptionId":%s}}}`, idText(st.id))
			return hold(st)
		}
		read(t, subscribe(t, connect(t, f, carriers[2], Options{}))).want("e1")
	})
}

// marked answers every call by SSE that begins with a byte order mark, before the field data.
type marked struct{ http.RoundTripper }

func (m marked) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := m.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch resp.Header.Get("Content-Type") {
	case typeJSON:
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		resp.Header.Set("Content-Type", typeSSE)
		resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader("\ufeffdata: "+string(body)+"\n\n")), -1
		return resp, err
	case typeSSE:
		resp.Body = &markedBody{ReadCloser: resp.Body}
	}
	return resp, nil
}

// A markedBody has a byte order mark in the place of its first event field.
type markedBody struct {
	io.ReadCloser
	begun bool
}

func (b *markedBody) Read(p []byte) (int, error) {
	if b.begun {
		return b.ReadCloser.Read(p)
	}
	b.begun = true
	if _, err := io.CopyN(io.Discard, b.ReadCloser, int64(len("event: message\n"))); err != nil {
		return 0, err
	}
	return copy(p, "\ufeff"), nil
}

// A byte order mark at the beginning of an event stream is dropped, as the HTML standard says (PUSH-11).
func TestByteOrderMark(t *testing.T) {
	for _, c := range carriers[2:] {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(c.legacy)
			f.stream = numbered(2)
			tr := f.transport(t, c).(*mcp.StreamableClientTransport)
			tr.HTTPClient.Transport = marked{tr.HTTPClient.Transport}
			cl, err := Connect(t.Context(), tr, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			read(t, subscribe(t, cl)).want("e1", "e2")
		})
	}
}

// tapped returns what the SDK reads of an SSE body that answers own.
func tapped(t *testing.T, body string, own *call) (string, error) {
	t.Helper()
	b := newTapState(false, &observers{})
	defer b.abort()
	out, err := io.ReadAll(&sseTap{blocks: newBlockReader(strings.NewReader(body), 1<<10), board: b, own: own, id: "1"})
	return string(out), err
}

// streamed returns the frames in an SSE body that answers a request of the client, and why it ended.
func streamed(t *testing.T, body string) (frames []string, err error) {
	t.Helper()
	b := newTapState(false, &observers{})
	defer b.abort()
	own := newCall(newFrameQueue(true))
	own.method = wire.MethodStream
	p := &poster{limit: 1 << 10}
	err = p.receive(t.Context(), &session{board: b}, &http.Response{Body: io.NopCloser(strings.NewReader(body))}, own, "1")
	close(own.in.frames)
	for fr := range own.in.frames {
		frames = append(frames, strings.TrimPrefix(fr.method, wire.NotificationPrefix))
	}
	return frames, err
}

const (
	heartbeatBody = `{"jsonrpc":"2.0","method":"notifications/events/heartbeat","params":{}}`
	resultBody    = `{"jsonrpc":"2.0","id":1,"result":{"text":"notifications/events/heartbeat"}}`
)

// Frames are read in any legal form of SSE, up to the result or the end of the body, and what was cut off counts as far as
// it is whole.
func TestStreamedFrames(t *testing.T) {
	for _, tt := range []struct {
		body   string
		frames int
	}{
		{"data: " + heartbeatBody + "\n\n", 1},
		{"data:" + heartbeatBody + "\r\n\r\n", 1},
		{": hello\nevent: message\nid: 7\ndata: " + heartbeatBody + "\n\n", 1},
		{"data: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"notifications/events/heartbeat\"}\n\n", 1},
		{"data: " + heartbeatBody + "\n\ndata: " + resultBody + "\n\ndata: " + heartbeatBody + "\n\n", 1},
		{"id: 0\nretry: 5\ndata:\n\ndata: " + heartbeatBody + "\n\n", 1},
		{"data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\ndata: " + heartbeatBody + "\n\n", 1}, // another request's
		{"data: " + heartbeatBody, 1},                                                                // the end of the body ends the block
		{"data: " + heartbeatBody[:30], 0},
		{"data: " + heartbeatBody + "\n\nda", 1},
		{": comment\n\n", 0},
		{"", 0},
	} {
		if frames, err := streamed(t, tt.body); len(frames) != tt.frames || err != errStreamEnded {
			t.Errorf("%q: frames %v, %v", tt.body, frames, err)
		}
	}
	var answer *AnswerError
	for body, want := range map[string]string{
		"data: " + strings.Repeat("x", 1<<10): "is larger than 1024 bytes (Options.MaxMessage)",
		"data: x\n\n":                         "no JSON-RPC message",
		"data: {\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}\n\n": "a request, ping",
	} {
		if _, err := streamed(t, body); !errors.As(err, &answer) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", body, err)
		}
	}
}

// The SDK gets an SSE body byte for byte, except the result of a call of ours and what it would end the session at.
func TestTappedSSE(t *testing.T) {
	const stub = "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n"
	for body, want := range map[string]string{
		"data: " + heartbeatBody + "\r\n\r\n":                           "data: " + heartbeatBody + "\r\n\r\n",
		"data: " + heartbeatBody + "\n\ndata: " + resultBody + "\n\n":   "data: " + heartbeatBody + "\n\n" + stub,
		"id: 1\ndata: " + resultBody + "\n\n":                           stub,
		"id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n": "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n",
		"id: 0\nretry: 5\ndata:\n\n":                                    "id: 0\nretry: 5\ndata:\n\n",
		"data: " + resultBody:                                           stub,
		"data: " + resultBody[:20] + "\n":                               "",
		"data: " + heartbeatBody + "\n\nda":                             "data: " + heartbeatBody + "\n\n",
		"data: garbage\n\n: comment\n\n":                                "",
		": comment\n\n":                                                 ": comment\n\n",
		"data: " + strings.Repeat("x", 1<<10):                           "",
	} {
		own := newCall(nil)
		got, err := tapped(t, body, own)
		if got != want || err != nil {
			t.Errorf("%q: %q, %v", body, got, err)
		}
		if answered := strings.Contains(want, stub); answered != (own.failureReason() == nil) || answered != (own.result != nil) {
			t.Errorf("%q: result %s, cause %v", body, own.result, own.failureReason())
		}
	}
	const other = "id: 3\nevent: message\ndata: " + resultBody + "\n\n"
	if got, err := tapped(t, other+"data: garbage\n\n"+other, nil); got != other+other || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := tapped(t, "data: "+strings.Repeat("x", 1<<10), nil); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
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
