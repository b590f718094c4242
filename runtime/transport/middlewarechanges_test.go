package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A change is receiving middleware that may replace anything of a call.
type change func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error)

// middleware returns do as receiving middleware for the events methods.
func (do change) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if !isEvents(method) {
			return next(ctx, method, req)
		}
		return do(ctx, method, req, next)
	}
}

// inEveryPlace runs f in every mode with a server that has do as receiving middleware, added before or after the server's
// own.
func (do change) inEveryPlace(t *testing.T, o server.Options, f func(t *testing.T, g *rig, c client, m mode)) {
	for _, place := range []string{"before", "after"} {
		t.Run(place, func(t *testing.T) {
			inEveryMode(t, func(t *testing.T, m mode) {
				if place == "before" {
					g := rigAround(t, o, do.middleware)
					f(t, g, g.connect(m, HandlerOptions{}), m)
					return
				}
				g := plainRig(t, o)
				g.srv.AddReceivingMiddleware(do.middleware)
				f(t, g, g.connect(m, HandlerOptions{}), m)
			})
		})
	}
}

// setParam replaces a member of the params as the params of a tool are replaced.
func setParam(t *testing.T, req mcp.Request, name, value string) {
	b, err := json.Marshal(req.GetParams())
	if err != nil {
		t.Error(err)
	}
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &members); err != nil {
		t.Error(err)
	}
	members[name] = json.RawMessage(value)
	b, _ = json.Marshal(members)
	if err := json.Unmarshal(b, req.GetParams()); err != nil {
		t.Error(err)
	}
}

// Middleware that narrows the arguments of a stream or a poll narrows what arrives, on every carrier.
func TestMiddlewareReplacesArguments(t *testing.T) {
	change(func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
		setParam(t, req, "arguments", `{"channel":"own"}`)
		return next(ctx, method, req)
	}).inEveryPlace(t, server.Options{}, func(t *testing.T, g *rig, c client, m mode) {
		cursor := member(c.rpc(`1`, wire.MethodPoll, `{"name":"tick"}`).result, "cursor")
		f := c.stream(`2`, `{"name":"tick","arguments":{"channel":"foreign"}}`)
		f.want(wire.NotificationActive)
		for i, channel := range []string{"foreign", "own"} {
			if err := g.ticks.Emit(t.Context(), tickPayload{Seq: i, Channel: channel}); err != nil {
				t.Fatal(err)
			}
		}
		if data := member(f.want(wire.NotificationEvent).params, "data"); string(member(data, "channel")) != `"own"` {
			t.Errorf("the stream has %s", data)
		}
		page := c.rpc(`3`, wire.MethodPoll, `{"name":"tick","cursor":`+string(cursor)+`}`)
		if got := string(member(page.result, "events")); strings.Contains(got, "foreign") || !strings.Contains(got, "own") {
			t.Errorf("the poll has %s", got)
		}
		f.cancel()
	})
}

// Middleware that changes a value within _meta changes it for the call alone, although calls share what was decoded, and
// the server sees the change.
func TestMiddlewareChangesMeta(t *testing.T) {
	change(func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
		if value, ok := req.GetParams().GetMeta()[mcp.MetaKeyClientCapabilities].(map[string]any); ok {
			if value["changed"] != nil {
				t.Errorf("the capabilities of another call are %v", value)
			}
			value["changed"] = true
			if b, _ := json.Marshal(req.GetParams()); !bytes.Contains(b, []byte(`"changed":true`)) {
				t.Errorf("the server has %s", b)
			}
		}
		return next(ctx, method, req)
	}).inEveryPlace(t, server.Options{}, func(t *testing.T, g *rig, c client, m mode) {
		for i := range 3 {
			if got := c.rpc(fmt.Sprint(i), wire.MethodList, `{}`); got.error != nil {
				t.Errorf("%s", got.error)
			}
		}
	})
}

// Middleware replaces the context, the token, _meta, the method and the results of every events method, and what it replaces is
// used. It cannot change the revision of a request.
func TestMiddlewareReplaces(t *testing.T) {
	type key struct{}
	sent := func(b []byte, err error) string { return fmt.Sprint(string(b), err) }
	for name, test := range map[string]struct {
		do   change
		call func(t *testing.T, c client) string // what it answers
		want string
	}{
		"the context": {
			func(_ context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
				return next(context.WithValue(context.Background(), key{}, "new"), method, req)
			},
			func(t *testing.T, c client) string {
				return string(c.rpc(`1`, wire.MethodPoll, `{"name":"tick"}`).error)
			},
			"new alice",
		},
		"the token": {
			func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
				req.GetExtra().TokenInfo = &auth.TokenInfo{UserID: "bob"}
				return next(ctx, method, req)
			},
			func(t *testing.T, c client) string {
				return string(c.rpc(`1`, wire.MethodPoll, `{"name":"tick"}`).error)
			},
			" bob",
		},
		"the method": {
			func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
				return next(ctx, wire.MethodList, req)
			},
			func(t *testing.T, c client) string { return string(c.rpc(`1`, wire.MethodPoll, `{}`).result) },
			`"events":[{`,
		},
		"_meta in place": {
			func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
				meta := req.GetParams().GetMeta()
				if meta == nil {
					meta = map[string]any{}
				}
				meta["x"] = "y"
				req.GetParams().SetMeta(meta)
				return nil, fmt.Errorf("%s", sent(json.Marshal(req.GetParams())))
			},
			func(t *testing.T, c client) string { return string(c.rpc(`1`, wire.MethodList, ``).error) },
			`\"x\":\"y\"`,
		},
		"the revision": {
			func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
				version := wire.RevisionStateless
				if v, _ := req.GetParams().GetMeta()[mcp.MetaKeyProtocolVersion].(string); v >= version {
					version = wire.RevisionLegacy
				}
				req.GetParams().SetMeta(map[string]any{mcp.MetaKeyProtocolVersion: version})
				return next(ctx, method, req)
			},
			func(t *testing.T, c client) string {
				return string(c.rpc(`1`, wire.MethodStream, `{"name":"tick"}`).error)
			},
			`-32603`,
		},
		"the result of a stream": {
			func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
				if _, err := next(ctx, method, req); err != nil {
					return nil, err
				}
				return &mcp.CallToolResult{}, nil
			},
			func(t *testing.T, c client) string {
				return string(c.rpc(`1`, wire.MethodStream, `{"name":"tick","cursor":null,"arguments":{"channel":"open"}}`).result)
			},
			`"content":`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var logged lockedBuffer
			o := server.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil)),
				Authorize: func(ctx context.Context, principal, event string, arguments json.RawMessage) error {
					if strings.Contains(string(arguments), "open") {
						return nil
					}
					v, _ := ctx.Value(key{}).(string)
					return fmt.Errorf("%s %s", v, principal)
				}}
			test.do.inEveryPlace(t, o, func(t *testing.T, g *rig, c client, m mode) {
				logged.Reset()
				answer, want := test.call(t, c), test.want
				if !m.http {
					want = strings.TrimSuffix(want, "alice") // stdio has no principal
				}
				if !strings.Contains(answer+logged.String(), want) {
					t.Errorf("%s and %s, want %s", answer, logged.String(), want)
				}
				g.awaitNone()
			})
		})
	}
}

// A lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *lockedBuffer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *lockedBuffer) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func (w *lockedBuffer) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b.Reset()
}

// A stream's hooks have the values of middleware's context, whose end is not the stream's, and its final result has what
// middleware adds to the result.
func TestMiddlewareAmendsStream(t *testing.T) {
	type key struct{}
	change(func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
		ctx, cancel := context.WithCancel(context.WithValue(ctx, key{}, "tenant"))
		defer cancel()
		res, err := next(ctx, method, req)
		if err == nil {
			res.SetMeta(map[string]any{"audit": "7"})
		}
		return res, err
	}).inEveryPlace(t, server.Options{}, func(t *testing.T, g *rig, c client, m mode) {
		seen := make(chan string, 10)
		e, err := server.Register(g.es, tickType("hooked"), server.Hooks[tickArguments, tickPayload]{
			Match: func(ctx context.Context, _ *tickPayload, _ *tickArguments) bool {
				v, _ := ctx.Value(key{}).(string)
				seen <- v
				return true
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		f := c.stream(`1`, `{"name":"hooked"}`)
		f.want(wire.NotificationActive)
		if err := e.Emit(t.Context(), tickPayload{Seq: 1}); err != nil {
			t.Fatal(err)
		}
		f.want(wire.NotificationEvent)
		go g.es.Shutdown(context.Background())
		final := f.want("")
		meta := member(final.result, "_meta")
		if string(member(meta, "audit")) != `"7"` {
			t.Errorf("the final result is %s", final.result)
		}
		if m.modern() && string(member(meta, wire.MetaSubscriptionID)) != `1` {
			t.Errorf("the final result lost its id: %s", final.result)
		}
		if v := <-seen; v != "tenant" {
			t.Errorf("a hook saw %q", v)
		}
	})
}

// Middleware that returns neither a result nor an error, or a result that is not an object, or panics, causes the error
// -32603. A panic is logged and ends neither the process nor the connection.
func TestMiddlewareFails(t *testing.T) {
	for name, do := range map[string]change{
		"nothing": func(context.Context, string, mcp.Request, mcp.MethodHandler) (mcp.Result, error) { return nil, nil },
		"nothing after the method": func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
			_, _ = next(ctx, method, req)
			return nil, nil
		},
		"a nil pointer": func(context.Context, string, mcp.Request, mcp.MethodHandler) (mcp.Result, error) {
			return (*mcp.CallToolResult)(nil), nil
		},
		"a panic": func(context.Context, string, mcp.Request, mcp.MethodHandler) (mcp.Result, error) { panic("oops") },
		"a panic after the method": func(ctx context.Context, method string, req mcp.Request, next mcp.MethodHandler) (mcp.Result, error) {
			_, _ = next(ctx, method, req)
			panic("oops")
		},
	} {
		t.Run(name, func(t *testing.T) {
			inEveryMode(t, func(t *testing.T, m mode) {
				var logged lockedBuffer
				g := plainRig(t, server.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
				g.srv.AddReceivingMiddleware(do.middleware)
				var c client
				if m.http {
					c = g.serve(m, bearer(NewHandler(g.es, HandlerOptions{})), func(s *http.Server) { s.ErrorLog = log.New(&logged, "", 0) })
				} else {
					c = g.stdio(m)
				}
				for i, method := range []string{wire.MethodList, wire.MethodPoll, wire.MethodStream, wire.MethodSubscribe, wire.MethodUnsubscribe} {
					if e := errorOf(t, c.rpc(fmt.Sprint(i+1), method, `{"name":"tick"}`)); e.Code != -32603 {
						t.Errorf("%s: %+v", method, e)
					}
				}
				g.awaitNone()
				if got, want := strings.Count(logged.String(), "oops"), strings.Contains(name, "panic"); (got >= 5) != want || want && !strings.Contains(logged.String(), "middlewarechanges_test.go") {
					t.Errorf("logged %s", logged.String())
				}
			})
		})
	}
}

// Middleware that aborts a request over HTTP with http.ErrAbortHandler does so.
func TestMiddlewareAborts(t *testing.T) {
	g := plainRig(t, server.Options{})
	defer g.stop()
	g.srv.AddReceivingMiddleware(func(mcp.MethodHandler) mcp.MethodHandler {
		return func(context.Context, string, mcp.Request) (mcp.Result, error) { panic(http.ErrAbortHandler) }
	})
	defer func() {
		if v := recover(); v != http.ErrAbortHandler {
			t.Errorf("recovered %v", v)
		}
	}()
	m := modes[3]
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(m.request(`1`, wire.MethodList, "")))
	r.Header = http.Header{"Content-Type": {contentTypeJSON}, "Accept": {contentTypeJSON + ", " + sse.ContentType}, headerVersion: {m.version}, headerMethod: {wire.MethodList}}
	NewHandler(g.es, HandlerOptions{}).ServeHTTP(httptest.NewRecorder(), r)
}
