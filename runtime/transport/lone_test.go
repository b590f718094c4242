package transport

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// sdkRoute serves as front does, except that calls which a connection of their own could carry go
// through the SDK's handler: what they are compared with.
func sdkRoute(front http.Handler) http.Handler {
	h := front.(*handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.Header.Get(headerVersion) < wire.RevisionStateless {
			h.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		if err != nil {
			panic(err)
		}
		setBody(r, body)
		if env, ok := parseEnvelope(body); ok && env.method == r.Header.Get(headerMethod) && h.lonely(r, env) {
			r.Header.Del(port.TicketHeader)
			if p, ok := h.readPOST(w, r, h.stateless, true); ok {
				h.serveCall(w, r, h.stateless, p)
			}
			return
		}
		h.ServeHTTP(w, r)
	})
}

// What a receiving middleware can see of one call.
type sighting struct {
	User, Version, Client, Log, Tenant, Value, Method, Session string
	Params                                                     string
	Sessions                                                   int
	CloseSSE                                                   bool
}

type contextKey struct{}

// The default route shows middleware what the SDK's handler shows it: who calls, the session with
// the client's own info, the request's headers and context values. Two clients of one principal are
// not mixed.
func TestDefaultRouteShowsTheSame(t *testing.T) {
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
		t.Errorf("\nSDK     %+v\ndefault %+v", seen[0], seen[1])
	}
}

// A middleware's own notifications come before the answer, on the same response, as by the SDK's
// handler.
func TestDefaultRouteCarriesNotifications(t *testing.T) {
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
		t.Errorf("\nSDK     %s\ndefault %s", bodies[0], bodies[1])
	}
}

// POLL-9: a client that goes away ends what middleware waits for, and no session stays behind.
func TestDefaultRouteAbort(t *testing.T) {
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
