package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// The tests of this file state what the SDK cannot do, and why this package does it. One that fails
// after an upgrade tells that a part of this package may go.

type rawParams struct{ mcp.ParamsBase }
type rawResult struct{ mcp.ResultBase }

func method(t *testing.T, srv *mcp.Server, name string, f func(ctx context.Context) error) {
	t.Helper()
	err := mcp.AddReceivingCustomMethod(srv, name, func(ctx context.Context, _ *mcp.ServerSession, _ *rawParams) (*rawResult, error) {
		return &rawResult{}, f(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Server.Run waits for an open custom method when its context ends.
func TestSDKRunHangs(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "s"}, nil)
	opened, end := make(chan struct{}), make(chan struct{})
	method(t, srv, "x/hold", func(ctx context.Context) error {
		close(opened)
		select {
		case <-ctx.Done():
		case <-end:
		}
		return nil
	})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	go io.Copy(io.Discard, outR)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- srv.Run(ctx, &mcp.IOTransport{Reader: inR, Writer: outW}) }()
	io.WriteString(inW, initializeRequest(wire.RevisionLegacy)+"\n")
	io.WriteString(inW, `{"jsonrpc":"2.0","id":1,"method":"x/hold"}`+"\n")
	recv(t, opened, "call")
	cancel()
	select {
	case <-ran:
		t.Error("Server.Run now ends while a custom method is open: Run may become simpler")
	case <-time.After(200 * time.Millisecond):
	}
	close(end)
	recv(t, ran, "Run")
}

// A held custom method over HTTP is not cancelled when its client goes away, except in the
// stateless revision with PropagateRequestCancellation (POLL-9).
func TestSDKLeavesHeldCalls(t *testing.T) {
	for _, m := range []mode{modes[2], modes[3]} {
		inBubble(t, m.name, func(t *testing.T) {
			g := newRig(t, server.Options{})
			opened, end, result := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
			method(t, g.srv, "x/hold", func(ctx context.Context) error {
				close(opened)
				select {
				case <-ctx.Done():
					result <- true
				case <-end:
					result <- false
				}
				return nil
			})
			c := g.serve(m, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return g.srv }, &mcp.StreamableHTTPOptions{Stateless: m.modern()}))
			ctx, cancel := context.WithCancel(context.Background())
			failed := make(chan error, 1)
			go func() {
				_, err := c.do(ctx, http.MethodPost, m.request(`1`, "x/hold", ""), nil)
				failed <- err
			}()
			recv(t, opened, "call")
			cancel()
			recv(t, failed, "abort")
			synctest.Wait()
			close(end)
			if recv(t, result, "end of the call") {
				t.Error("the SDK now cancels a custom method whose client is gone: serveCall may become superfluous")
			}
		})
	}
}

// Numbers as ids lose digits and form.
func TestSDKRewritesIDs(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[3]
	c := g.serve(m, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return g.srv }, &mcp.StreamableHTTPOptions{Stateless: true}))
	for sent, back := range map[string]string{`1.0`: `1`, `9007199254740993`: `9007199254740992`} {
		if got := c.rpc(sent, methodDiscover, "").id; string(got) != back {
			t.Errorf("id %s comes back as %s", sent, got)
		}
	}
}

// After a cancel the SDK still answers the call, and says what went on inside; conn mutes it (POLL-9).
func TestSDKAnswersCancelledCalls(t *testing.T) {
	g := newRig(t, server.Options{})
	opened := make(chan struct{})
	method(t, g.srv, "x/hold", func(ctx context.Context) error { close(opened); <-ctx.Done(); return ctx.Err() })
	ours, theirs := mcp.NewInMemoryTransports()
	ss, err := g.srv.Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer ss.Close()
	c, err := ours.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	send := func(message string) {
		t.Helper()
		msg, err := jsonrpc.DecodeMessage([]byte(message))
		if err == nil {
			err = c.Write(t.Context(), msg)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	answer := func() *jsonrpc.Response {
		t.Helper()
		msg, err := c.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return msg.(*jsonrpc.Response)
	}
	send(initializeRequest(wire.RevisionLegacy))
	answer()
	send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	send(modes[0].request(`9`, "x/hold", ""))
	recv(t, opened, "call")
	send(modes[0].request("", methodCancelled, cancelOf(`9`)))
	if got := answer(); got.Error == nil || !strings.Contains(got.Error.Error(), "context canceled") {
		t.Errorf("the SDK now answers %+v: the muting of cancelled calls may become superfluous", got)
	}
}

// The data of a wrapped error is lost, so that errors go to the SDK bare.
func TestSDKLosesWrappedData(t *testing.T) {
	g := newRig(t, server.Options{})
	wired := &jsonrpc.Error{Code: -32011, Message: "NotFound", Data: json.RawMessage(`{"kind":"event"}`)}
	method(t, g.srv, "x/bare", func(context.Context) error { return wired })
	method(t, g.srv, "x/wrapped", func(context.Context) error { return fmt.Errorf("wrapped: %w", wired) })
	c := g.stdio(modes[0])
	if e := errorOf(t, c.rpc(`1`, "x/bare", "")); e.Data == nil {
		t.Error("a bare error has no data")
	}
	if e := errorOf(t, c.rpc(`2`, "x/wrapped", "")); e.Data != nil {
		t.Errorf("a wrapped error now keeps its data: %s", e.Data)
	}
}

// A stateful session's context has the token of its first request for ever; RequestExtra has the
// request's own (AUTH-3).
func TestSDKContextTokenIsStale(t *testing.T) {
	g := newRig(t, server.Options{})
	seen := make(chan string, 2)
	g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/list" {
				seen <- auth.TokenInfoFromContext(ctx).Extra["token"].(string)
				seen <- req.GetExtra().TokenInfo.Extra["token"].(string)
			}
			return next(ctx, method, req)
		}
	})
	front := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "alice", Expiration: time.Now().Add(time.Hour), Extra: map[string]any{"token": token}}, nil
	}, nil)(NewHandler(g.es, HandlerOptions{}))
	m := modes[2]
	c := g.serve(m, front)
	c.header.Set("Authorization", "Bearer second")
	c.rpc(`1`, "tools/list", "")
	if context, extra := <-seen, <-seen; context != "alice" || extra != "second" {
		t.Errorf("context %q, extra %q", context, extra)
	}
}

// A custom notification cannot be sent with the SDK.
func TestSDKSendsNoCustomNotifications(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "s"}, nil)
	err := mcp.AddReceivingCustomMethod(srv, wire.NotificationEvent, func(context.Context, *mcp.ServerSession, *rawParams) (*rawResult, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	// Registered as a method, it is refused without an id: it stays a call.
	a, b := mcp.NewInMemoryTransports()
	ctx := context.Background()
	if _, err := srv.Connect(ctx, a, nil); err != nil {
		t.Fatal(err)
	}
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "c"}, nil).Connect(ctx, b, &mcp.ClientSessionOptions{ProtocolVersion: wire.RevisionLegacy})
	if err != nil {
		t.Fatal(err)
	}
	defer cs.Close()
	_, err = mcp.CallCustomMethod[*rawParams, *rawResult](ctx, cs, wire.NotificationEvent, &rawParams{})
	if err == nil || strings.Contains(err.Error(), "notification") && errors.Is(err, context.Canceled) {
		t.Errorf("CallCustomMethod of a notification: %v", err)
	}
}

// A refusal of a stream by the SDK alone is a stream of events in every revision; through the
// front it is not (ERR-3).
func TestSDKRefusesAsEvents(t *testing.T) {
	g := newRig(t, server.Options{})
	m := modes[3]
	c := g.serve(m, mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return g.srv }, &mcp.StreamableHTTPOptions{Stateless: true}))
	resp := c.post(context.Background(), m.request(`1`, wire.MethodStream, `{"name":"tick"}`), nil)
	if got := resp.Header.Get("Content-Type"); got != sse.ContentType || resp.StatusCode != 200 {
		t.Errorf("%s %s", resp.Status, got)
	}
	// Without the front nobody can carry a stream: it fails closed.
	if e := errorOf(t, readMessage(t, resp)); string(e.Data) != `{"feature":"deliveryMode","value":"push"}` {
		t.Errorf("%+v", e)
	}
}

// E10: the text of a verifier's error is the body that the caller reads, as docs/hooks.md says.
func TestSDKTellsWhatAVerifierReturns(t *testing.T) {
	for cause, status := range map[error]int{auth.ErrInvalidToken: 401, auth.ErrOAuth: 400, errors.New("dial tcp 10.0.0.7:443: refused"): 500} {
		verify := func(context.Context, string, *http.Request) (*auth.TokenInfo, error) { return nil, cause }
		r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
		r.Header.Set("Authorization", "Bearer t")
		w := httptest.NewRecorder()
		auth.RequireBearerToken(verify, nil)(http.NotFoundHandler()).ServeHTTP(w, r)
		if w.Code != status || strings.TrimSpace(w.Body.String()) != cause.Error() {
			t.Errorf("%v: %d %s", cause, w.Code, w.Body)
		}
	}
}
