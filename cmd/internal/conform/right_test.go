package conform

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/wrongserver"
	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

type tock struct {
	Seq  int    `json:"seq"`
	Kind string `json:"kind"`
}

// A server of this module is blamed for nothing, in both eras of the protocol and by every mode; nor is one with
// receiving middleware.
func TestRightServer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		revision string
		plain    bool
	}{"stateless": {wire.RevisionStateless, true}, "legacy": {wire.RevisionLegacy, true}, "middleware": {wire.RevisionStateless, false}} {
		if testing.Short() && name != "stateless" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const host = "127.0.0.1" // the server looks names up
				n := &site{t: t}
				o := n.options(right(t, n, c.plain))
				o.Revision, o.OtherToken, o.door, o.Seed = c.revision, other, n.door(host), sampletest.Rand(t).Uint64()
				if !c.plain {
					o.selectsCheck = func(c check) bool { return c.needs&needPoll != 0 }
				}
				for _, found := range judge(t, o).Findings {
					only := strings.HasPrefix(found.Got, "only with --") || strings.HasPrefix(found.Got, "only for a server") || strings.Contains(found.Got, "--ssrf") ||
						strings.Contains(found.Got, "on this revision") || strings.Contains(found.Got, "older revision") || strings.HasPrefix(found.Got, "no descriptor has a fingerprint") ||
						strings.HasPrefix(found.Got, "fewer than two deliveries") // its pauses have jitter
					if found.Outcome == verdict.Fail || found.Outcome == verdict.Advice || found.Outcome == verdict.Skip && !only {
						t.Errorf("%+v", found)
					}
				}
			})
		})
	}
}

// refusePrivate answers ResourceExhausted to subscriptions at private addresses, like a server whose budget of failed
// challenges is used up.
func refusePrivate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("Mcp-Method") != wire.MethodSubscribe || !bytes.Contains(body, []byte("/mcpe-gen-conform")) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
			return
		}
		var c struct{ ID json.RawMessage }
		_ = json.Unmarshal(body, &c)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"%s"}}`, c.ID, wire.Sketch.Code(wire.ResourceExhausted), wire.ResourceExhausted)
	})
}

// TestPermitted judges servers that do what a document permits, or whose surroundings do: a small ring, another clock,
// limits of streams and of requests, and callers that may not do everything.
func TestPermitted(t *testing.T) {
	t.Parallel()
	refuse := func(k wire.Kind, most int, methods ...string) func(http.Handler) http.Handler {
		return func(next http.Handler) http.Handler {
			var open atomic.Int64
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !slices.Contains(methods, r.Header.Get("Mcp-Method")) {
					next.ServeHTTP(w, r)
					return
				}
				defer open.Add(-1)
				if open.Add(1) <= int64(most) {
					next.ServeHTTP(w, r)
					return
				}
				var c struct{ ID json.RawMessage }
				_ = json.NewDecoder(r.Body).Decode(&c)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"%s"}}`, c.ID, wire.Sketch.Code(k), k)
			})
		}
	}
	for name, tt := range map[string]struct {
		change func(*wrongserver.Options)
		wrap   func(http.Handler) http.Handler
		ssrf   bool
		says   string
	}{
		"ring":            {change: func(o *wrongserver.Options) { o.Ring, o.Interval = 12, time.Second/3 }},
		"clock ahead":     {change: func(o *wrongserver.Options) { o.Skew = time.Second }},
		"clock behind":    {change: func(o *wrongserver.Options) { o.Skew = -time.Second }},
		"few streams":     {wrap: refuse(wire.ResourceExhausted, 3, wire.MethodStream)},
		"limited seconds": {wrap: limit(15, func() string { return "1" })},
		"limited date":    {wrap: limit(15, func() string { return time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat) })},
		"few challenges":  {ssrf: true, wrap: refusePrivate},
		"closed":          {wrap: limit(4, func() string { return "3600" }), says: "the server limits requests"},
		"no poll":         {wrap: refuse(wire.Forbidden, 0, wire.MethodPoll), says: "the caller may not poll spare; try the --token of another caller"},
		"no stream":       {wrap: refuse(wire.Forbidden, 0, wire.MethodStream), says: "the caller may not stream tick; try the --token of another caller"},
		"no webhook":      {wrap: refuse(wire.Forbidden, 0, wire.MethodSubscribe), says: "the caller may not subscribe to tick; try the --token of another caller"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := &site{t: t}
				w := n.wrongOptions("")
				if tt.change != nil {
					tt.change(&w)
				}
				h := http.Handler(n.wrong(w))
				if tt.wrap != nil {
					h = tt.wrap(h)
				}
				o := n.options(h)
				o.door, o.OtherToken, o.SSRF, o.Seed = n.door(hookHost), other, tt.ssrf, sampletest.Rand(t).Uint64()
				report := judge(t, o)
				if report.Failed+report.Advised > 0 {
					t.Error(text(report))
				}
				u := report.Unfinished
				if tt.says == "" && u != nil && !strings.HasPrefix(name, "limited") || tt.says != "" && (u == nil || u.Reason != tt.says) {
					t.Errorf("unfinished: %+v", u)
				}
				if report.Passed < 40 && name != "closed" {
					t.Errorf("%d passed", report.Passed)
				}
				t.Log(report.Summary(), u)
			})
		})
	}
}

// limit allows a number of requests in each second, and answers others with 429.
func limit(most int, after func() string) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		var mu sync.Mutex
		second, n := int64(0), 0
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			if now := time.Now().Unix(); now != second {
				second, n = now, 0
			}
			n++
			limited := n > most
			mu.Unlock()
			if limited {
				w.Header().Set("Retry-After", after())
				http.Error(w, "too many", http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
}

// right serves a type that occurs by every mode, one by poll and one by webhook only.
func right(t *testing.T, n *site, plain bool) http.Handler {
	t.Helper()
	srv := mcp.NewServer(&mcp.Implementation{Name: "right", Version: "1"}, nil)
	if !plain {
		srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
				return next(ctx, method, req)
			}
		})
	}
	es, err := server.New(srv, server.Options{Logger: slog.New(slog.DiscardHandler), Heartbeat: 2 * time.Second,
		Principal: func(_ context.Context, extra *mcp.RequestExtra) string {
			switch extra.Header.Get("Authorization") {
			case "Bearer " + token:
				return "me"
			case "Bearer " + other:
				return "other"
			}
			return ""
		},
		Webhooks: webhooks.New(webhooks.Options{Callbacks: callbacks.Options{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			TLS: memnet.ClientTLS(), DialContext: n.DialContext}})})
	if err != nil {
		t.Fatal(err)
	}
	info := func(name string) events.Type[json.RawMessage, tock] {
		return events.Type[json.RawMessage, tock]{Info: events.Info{Name: name, Description: "What happens.", Match: []events.MatchRule{{Argument: "kind", Path: "/kind"}},
			InputSchema: json.RawMessage(`{"type":"object","properties":{"kind":{"type":"string","enum":["a","b"],"x-match":"/kind"},
				"least":{"type":"integer","minimum":0,"maximum":10}},"additionalProperties":false}`),
			PayloadSchema: json.RawMessage(`{"type":"object","properties":{"seq":{"type":"integer"},"kind":{"type":"string"}},"required":["seq","kind"]}`)}}
	}
	tocks, err := server.Register(es, info("tock"), server.Hooks[json.RawMessage, tock]{})
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string][]server.TypeOption{"spare": {server.WithoutPush(), server.WithoutWebhook()},
		"hook": {server.WithoutPoll(), server.WithoutPush()}} {
		if _, err := server.Register(es, info(name), server.Hooks[json.RawMessage, tock]{}, o...); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for seq := 1; ; seq++ {
			select {
			case <-ctx.Done():
				over <- nil
				return
			case <-ticker.C:
			}
			if err := tocks.Emit(ctx, tock{seq, "a"}); err != nil && ctx.Err() == nil {
				over <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
		if err := es.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	h := transport.NewHandler(es, transport.HandlerOptions{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.UserAgent(), "mcpe-gen") {
			t.Errorf("%s comes from %q", r.Method, r.UserAgent())
		}
		h.ServeHTTP(w, r)
	})
}
