package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/bench/sample"
	"github.com/mcpe-gen/mcpe-gen/bench/sample/sampleserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

const token = "bench-token"

// kinds are the servers that a process can serve. place consists of their arguments, separated by spaces.
var kinds = map[string]func(mux *http.ServeMux, place string) error{
	"limit": serveLimit,
	"ours":  func(mux *http.ServeMux, _ string) error { return serveOurs(mux, newServer(), server.Options{}, nil) },
	"private": func(mux *http.ServeMux, _ string) error {
		return serveOurs(mux, newServer(), server.Options{}, addPrincipal)
	},
	"middleware": func(mux *http.ServeMux, _ string) error {
		return serveOurs(mux, withMiddleware(), server.Options{}, nil)
	},
	"sdk":      serveSDK,
	"tools":    func(mux *http.ServeMux, _ string) error { return serveOurs(mux, withTool(), server.Options{}, nil) },
	"sdktools": serveSDKTools,
	"tenants":  serveTenants,
	"noisy":    serveNoisy,
	"webhook":  serveWebhook,
	"filters":  serveFilters,
	"replica":  serveReplica,
	"worker":   serveWorker,
	"raw":      serveRaw,
	"clock":    func(mux *http.ServeMux, _ string) error { serveClock(mux); return nil },
	"receiver": serveReceiver,
}

// serve is the main function of a server process. It prints its address and serves until it is killed.
func serve(kind, place string) error {
	f, ok := kinds[kind]
	if !ok {
		return fmt.Errorf("unknown server %q", kind)
	}
	mux := http.NewServeMux()
	onGet(mux, "/admin/heap", heapSize)
	if err := f(mux, place); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	return http.Serve(ln, mux)
}

// onEmit handles GET /admin/emit by calling f as often as requested.
func onEmit(mux *http.ServeMux, f func() error) {
	onGet(mux, "/admin/emit", func(r *http.Request) (any, error) {
		n, err := strconv.Atoi(r.FormValue("n"))
		for i := 0; i < n && err == nil; i++ {
			err = f()
		}
		return nil, err
	})
}

func payload() sample.BenchSamplePayload {
	return sample.BenchSamplePayload{
		T: time.Now().UnixNano(), IncidentID: "INC-1234", Title: "Database connection pool exhausted",
		Severity: sample.BenchSamplePayloadSeverityP1, Service: "checkout", URL: "https://example.com/incidents/INC-1234",
	}
}

// A privateView changes the payload for a principal.
type privateView = func(ctx context.Context, principal string, p *sample.BenchSamplePayload, args *sample.BenchSampleArguments) (*sample.BenchSamplePayload, error)

func addPrincipal(_ context.Context, principal string, p *sample.BenchSamplePayload, _ *sample.BenchSampleArguments) (*sample.BenchSamplePayload, error) {
	p.Title += " for " + principal
	return p, nil
}

func serveOurs(mux *http.ServeMux, srv *mcp.Server, o server.Options, view privateView) error {
	es, err := server.New(srv, o)
	if err != nil {
		return err
	}
	emitter, err := sampleserver.RegisterBenchSample(es, sampleserver.BenchSampleHooks{PerPrincipal: view})
	if err != nil {
		return err
	}
	mux.Handle("/mcp", requireToken(transport.NewHandler(es, transport.HandlerOptions{MaxOpen: -1, MaxSessions: -1})))
	onEmit(mux, func() error { return emitter.Emit(context.Background(), payload()) })
	return nil
}

func newServer() *mcp.Server {
	return mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
}

// withMiddleware returns an SDK server with a receiving middleware that forwards every call.
func withMiddleware() *mcp.Server {
	srv := newServer()
	srv.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			return next(ctx, method, req)
		}
	})
	return srv
}

// requireToken returns a handler that forwards only requests with the token. The text after the token names a principal.
func requireToken(h http.Handler) http.Handler {
	verify := func(_ context.Context, got string, _ *http.Request) (*auth.TokenInfo, error) {
		name, ok := strings.CutPrefix(got, token)
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: "bench" + name, Expiration: time.Now().Add(time.Hour)}, nil
	}
	return auth.RequireBearerToken(verify, nil)(h)
}

// emptyPoll is the response to a poll without events.
const emptyPoll = `{"resultType":"complete","events":[],"cursor":"AQJr0wAAAAAAAAABAAAAAAAAAAE","truncated":false,"hasMore":false,"nextPollMs":5000}`

// The server ignores pollParams.
type pollParams struct{ mcp.ParamsBase }

// A pollResult is emptyPoll as written by the SDK.
type pollResult struct{ mcp.ResultBase }

func (pollResult) MarshalJSON() ([]byte, error) { return []byte(emptyPoll), nil }

// serveSDK serves the limit of the SDK: it responds to polls with prebuilt bytes in a custom method of the SDK.
func serveSDK(mux *http.ServeMux, _ string) error {
	srv := withMiddleware()
	mountSDK(mux, srv, true)
	return mcp.AddReceivingCustomMethod(srv, "events/poll", func(context.Context, *mcp.ServerSession, *pollParams) (*pollResult, error) {
		return &pollResult{}, nil
	})
}

// mountSDK serves an SDK server without this module.
func mountSDK(mux *http.ServeMux, srv *mcp.Server, stateless bool) {
	o := &mcp.StreamableHTTPOptions{Stateless: stateless}
	mux.Handle("/mcp", requireToken(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, o)))
}

// serveLimit responds to polls and streams with prebuilt bytes, without authentication, validation or replay.
func serveLimit(mux *http.ServeMux, _ string) error {
	poll := []byte(`{"jsonrpc":"2.0","id":7,"result":` + strings.TrimSuffix(emptyPoll, "}") +
		`,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bench","version":"1"}}}}`)
	active := []byte(`data: {"jsonrpc":"2.0","method":"notifications/events/active","params":{"cursor":"AQJr0wAAAAAAAAABAAAAAAAAAAE","truncated":false,"_meta":{"io.modelcontextprotocol/subscriptionId":7}}}` + "\n\n")
	var mu sync.Mutex
	subscribers := map[chan []byte]struct{}{}
	mux.HandleFunc("POST /mcp", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		if r.Header.Get("Mcp-Method") != "events/stream" {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "no-cache, no-transform")
			w.Write(poll)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flusher := w.(http.Flusher)
		ch := make(chan []byte, 256)
		mu.Lock()
		subscribers[ch] = struct{}{}
		mu.Unlock()
		defer func() {
			mu.Lock()
			delete(subscribers, ch)
			mu.Unlock()
		}()
		w.Write(active)
		flusher.Flush()
		for {
			select {
			case frame := <-ch:
				w.Write(frame)
				flusher.Flush()
			case <-r.Context().Done():
				return
			}
		}
	})
	onEmit(mux, func() error {
		data, err := json.Marshal(payload())
		if err != nil {
			return err
		}
		frame := []byte(`data: {"jsonrpc":"2.0","method":"notifications/events/event","params":{"eventId":"0197a3c4-7f00-7000-8000-000000000000","name":"bench.sample","timestamp":"2026-11-20T07:00:00.123456789Z","data":` +
			string(data) + `,"cursor":"AQJr0wAAAAAAAAABAAAAAAAAAAE","_meta":{"io.modelcontextprotocol/subscriptionId":7}}}` + "\n\n")
		mu.Lock()
		defer mu.Unlock()
		for ch := range subscribers {
			select {
			case ch <- frame:
			case <-time.After(10 * time.Second):
				return errors.New("a stream took no frame for ten seconds")
			}
		}
		return nil
	})
	return nil
}
