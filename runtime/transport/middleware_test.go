package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// What a receiving middleware can see of one call.
type sighting struct {
	User, Version, Client, Log, Tenant, Value, Method, Session string
	Params                                                     string
	Sessions                                                   int
	CloseSSE                                                   bool
}

type contextKey struct{}

// Our own handling shows middleware what the SDK's handler shows it: who calls, the session with
// the client's own info, the request's headers and context values. Two clients of one principal are
// not mixed.
func TestMiddlewareSeesTheSame(t *testing.T) {
	m := modes[3]
	var seen [2][]sighting
	for i := range seen {
		g := newRig(t, server.Options{})
		var mu sync.Mutex
		g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				ss := req.GetSession().(*mcp.ServerSession)
				x := req.GetExtra()
				s := sighting{User: x.TokenInfo.UserID, Tenant: x.Header.Get("X-Tenant"), Method: method, Session: ss.ID(),
					CloseSSE: x.CloseSSEStream != nil, Sessions: len(slices.Collect(g.srv.Sessions()))}
				s.Value, _ = ctx.Value(contextKey{}).(string)
				if p := ss.InitializeParams(); p != nil {
					s.Version, s.Client = p.ProtocolVersion, p.ClientInfo.Name+fmt.Sprint(p.Capabilities.Extensions)
				}
				s.Params = fmt.Sprint(req.GetParams().GetMeta()["io.modelcontextprotocol/logLevel"])
				mu.Lock()
				seen[i] = append(seen[i], s)
				mu.Unlock()
				return next(ctx, method, req)
			}
		})
		h := NewHandler(g.es, HandlerOptions{})
		if i == 0 {
			h = sdkRoute(h)
		}
		ts := g.listen(m, bearer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, r.Header.Get("X-Tenant")+" value")))
		})))
		for _, who := range []string{"one", "two", "one"} {
			c := g.dial(m, ts.URL, ts.Client())
			c.header.Set("X-Tenant", who)
			for _, method := range []string{wire.MethodList, wire.MethodPoll, wire.MethodSubscribe, wire.MethodUnsubscribe} {
				body := `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"name":"tick","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
					`"io.modelcontextprotocol/logLevel":"debug","io.modelcontextprotocol/clientInfo":{"name":"` + who + `","version":"1"},` +
					`"io.modelcontextprotocol/clientCapabilities":{"extensions":{"x":{"of":"` + who + `"}}}}}}`
				resp := c.post(t.Context(), body, map[string]string{headerVersion: m.version, headerMethod: method})
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}
	}
	if len(seen[0]) != 12 || !reflect.DeepEqual(seen[0], seen[1]) {
		t.Errorf("\nSDK     %+v\nours %+v", seen[0], seen[1])
	}
}

// A middleware's own notifications come before the answer, on the same response, as by the SDK's
// handler.
func TestMiddlewareNotifies(t *testing.T) {
	m := modes[3]
	var bodies [2]string
	for i := range bodies {
		g := newRig(t, server.Options{})
		g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				ss := req.GetSession().(*mcp.ServerSession)
				if err := ss.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: "p", Progress: 1}); err != nil {
					t.Error(err)
				}
				if err := ss.Ping(ctx, nil); err == nil {
					t.Error("a request to the client is answered")
				}
				return next(ctx, method, req)
			}
		})
		h := NewHandler(g.es, HandlerOptions{})
		if i == 0 {
			h = sdkRoute(h)
		}
		c := g.serve(m, bearer(h))
		for _, name := range []string{"tick", "nope"} {
			resp := c.post(t.Context(), m.request(`7`, wire.MethodPoll, `{"name":"`+name+`","maxEvents":1}`),
				map[string]string{headerVersion: m.version, headerMethod: wire.MethodPoll})
			b, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			bodies[i] += fmt.Sprint(resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Get("Cache-Control"), "\n")
			for line := range strings.Lines(string(b)) {
				if strings.Contains(line, `"result"`) {
					line = "the result\n" // its cursor differs
				}
				bodies[i] += line
			}
		}
	}
	if bodies[0] != bodies[1] || strings.Count(bodies[0], "progress") < 2 {
		t.Errorf("\nSDK     %s\nours %s", bodies[0], bodies[1])
	}
}

// POLL-9: a client that goes away ends what middleware waits for, and no session stays behind.
func TestMiddlewareIsAborted(t *testing.T) {
	m := modes[3]
	g := newRig(t, server.Options{})
	entered, left := make(chan struct{}), make(chan error, 1)
	g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			close(entered)
			<-ctx.Done()
			left <- ctx.Err()
			return nil, ctx.Err()
		}
	})
	c := g.serve(m, bearer(NewHandler(g.es, HandlerOptions{})))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err := c.do(ctx, http.MethodPost, m.request(`7`, wire.MethodPoll, `{"name":"tick"}`),
		map[string]string{headerVersion: m.version, headerMethod: wire.MethodPoll})
	if err == nil {
		t.Error("an aborted request was answered")
	}
	if err := <-left; err == nil {
		t.Error("the handler's context is not over")
	}
	for len(slices.Collect(g.srv.Sessions())) > 0 {
		time.Sleep(time.Millisecond)
	}
}

// Receiving middleware of the author decides about every method of the extension, over HTTP in both eras and on stdio,
// also if it was added when clients were connected already. It sees each call once, and nothing of ours.
func TestMiddlewareDecides(t *testing.T) {
	for _, late := range []bool{false, true} {
		inEveryMode(t, func(t *testing.T, m mode) {
			g := plainRig(t, server.Options{})
			var mu sync.Mutex
			var audit []string
			calls := 0
			limited := &jsonrpc.Error{Code: -32029, Message: "slow down", Data: []byte(`{"after":1}`)}
			add := func() {
				g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler { // audit
					return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
						res, err := next(ctx, method, req)
						mu.Lock()
						defer mu.Unlock()
						audit = append(audit, fmt.Sprint(method, " ", err == nil))
						return res, err
					}
				}, func(next mcp.MethodHandler) mcp.MethodHandler { // authorization
					return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
						params, err := json.Marshal(req.GetParams())
						if err != nil || strings.Contains(string(params), `"secret"`) {
							return nil, errors.New("not for you")
						}
						return next(ctx, method, req)
					}
				}, func(next mcp.MethodHandler) mcp.MethodHandler { // a limit
					return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
						mu.Lock()
						if method == wire.MethodList {
							calls++
						}
						over := calls > 2
						mu.Unlock()
						if over {
							return nil, limited
						}
						return next(ctx, method, req)
					}
				})
			}
			if !late {
				add()
			}
			c := g.connect(m, HandlerOptions{})
			c.rpc(`1`, wire.MethodPoll, `{"name":"tick"}`)
			if late {
				add()
			}
			mu.Lock()
			audit = nil
			mu.Unlock()
			f := c.stream(`2`, `{"name":"tick"}`)
			f.want(wire.NotificationActive)
			f.cancel()
			recv(t, g.ended, "the end of the stream")
			for i, method := range []string{wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe, wire.MethodUnsubscribe} {
				env := c.rpc(fmt.Sprint(10+i), method, `{"name":"secret"}`)
				if e := errorOf(t, env); e.Message != "not for you" {
					t.Errorf("%s: %+v", method, e)
				}
			}
			for i := range 3 {
				env := c.rpc(fmt.Sprint(20+i), wire.MethodList, "")
				if (env.error != nil) != (i == 2) {
					t.Errorf("list %d: %s", i, env.error)
				} else if i == 2 && errorOf(t, env).Code != limited.Code {
					t.Errorf("refused with %s", env.error)
				}
			}
			if len(g.opened) > 2 { // that of the first poll, and the stream
				t.Error("a refused subscription was opened")
			}
			mu.Lock()
			defer mu.Unlock()
			want := []string{"events/stream true", "events/poll false", "events/stream false", "events/subscribe false", "events/unsubscribe false",
				"events/list true", "events/list true", "events/list false"}
			got := slices.DeleteFunc(slices.Clone(audit), func(s string) bool { return strings.HasPrefix(s, "notifications/") })
			if !slices.Equal(got, want) {
				t.Errorf("audit %q, want %q", audit, want)
			}
		})
	}
}

// An events/stream that middleware refuses after the method has accepted it is not opened, and one that it answers by
// itself is that answer.
func TestMiddlewareAnswersStream(t *testing.T) {
	inEveryMode(t, func(t *testing.T, m mode) {
		g := plainRig(t, server.Options{MaxStreams: 1})
		g.srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				switch params, _ := json.Marshal(req.GetParams()); {
				case method != wire.MethodStream || strings.Contains(string(params), `"open"`):
				case strings.Contains(string(params), `"answer"`):
					return &rawResult{}, nil
				default:
					if _, err := next(ctx, method, req); err != nil {
						t.Error(err)
					}
					return nil, errors.New("too late")
				}
				return next(ctx, method, req)
			}
		})
		c := g.connect(m, HandlerOptions{})
		if e := errorOf(t, c.rpc(`1`, wire.MethodStream, `{"name":"tick"}`)); e.Message != "too late" {
			t.Errorf("%+v", e)
		}
		g.awaitNone()
		if env := c.rpc(`2`, wire.MethodStream, `{"name":"tick","answer":1}`); env.result == nil {
			t.Errorf("%s", env.error)
		}
		f := c.stream(`3`, `{"name":"tick","open":1}`) // the one place is free
		f.want(wire.NotificationActive)
		f.cancel()
	})
}
