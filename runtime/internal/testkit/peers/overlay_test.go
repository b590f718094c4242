package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/overlay"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// proxied is a plain server with a TypeScript SDK, behind a reverse proxy.
func proxied(t *testing.T, version string) http.Handler {
	port := freePort(t)
	_, kill := start(t, version+"-plain", port, time.Now())
	t.Cleanup(kill)
	to := &url.URL{Scheme: "http", Host: fmt.Sprint("127.0.0.1:", port)}
	return &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
}

// perRequest makes a server with the official SDK for each request, or for each session.
func perRequest(stateless bool) http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "next", Version: "1"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "theirs"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
		return s
	}, &mcp.StreamableHTTPOptions{Stateless: stateless})
}

// Next to servers of other makes, clients of other makes get events and the tools of both, in each era that the server
// speaks, and our client gets them by poll and by push.
func TestPeersOverlaid(t *testing.T) {
	for _, next := range []struct {
		name    string
		handler func(t *testing.T) http.Handler
		clients []string
		modern  bool
	}{
		{"official SDK, server per request", func(*testing.T) http.Handler { return perRequest(true) }, []string{"1", "2", "2-legacy", "ai-sdk"}, true},
		{"official SDK, server per session", func(*testing.T) http.Handler { return perRequest(false) }, []string{"1", "2-legacy", "ai-sdk"}, false},
		{"TypeScript SDK 1.x", func(t *testing.T) http.Handler { return proxied(t, "1") }, []string{"1", "2-legacy", "ai-sdk"}, false},
		{"TypeScript SDK 2.x", func(t *testing.T) http.Handler { return proxied(t, "2") }, []string{"1", "2", "2-legacy", "ai-sdk"}, true},
	} {
		for _, make := range next.clients {
			t.Run(next.name+", client "+make, func(t *testing.T) {
				node(t, "client.mjs") // skips before anything is begun
				handler := next.handler(t)
				at := serve(t, func(es *server.Server) http.Handler { return overlay.NewHandler(es, handler, overlay.Options{}) })
				tryClient(t, make, at, "events_wait", "theirs")
			})
		}
		for _, revision := range []string{wire.RevisionLegacy, wire.RevisionStateless} {
			if revision == wire.RevisionStateless && !next.modern {
				continue
			}
			t.Run(next.name+", our client "+revision, func(t *testing.T) {
				node(t, "client.mjs")
				handler := next.handler(t)
				at := serve(t, func(es *server.Server) http.Handler { return overlay.NewHandler(es, handler, overlay.Options{}) })
				cl, err := client.Connect(t.Context(), client.HTTP(at, nil), client.Options{ProtocolVersion: revision, Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				defer cl.Close()
				ids := []chan string{}
				for _, mode := range []string{wire.ModePush, wire.ModePoll} {
					s, err := client.Subscribe(t.Context(), cl, client.Dynamic("tick"), json.RawMessage(nil), client.WithMode(mode))
					if err != nil {
						t.Fatal(mode, err)
					}
					got := make(chan string, 1)
					ids = append(ids, got)
					go func() {
						for ev, err := range s.Events() {
							if err != nil {
								got <- err.Error()
							} else {
								got <- ev.ID
							}
							return
						}
					}()
				}
				for slices.ContainsFunc(cl.Subscriptions(), func(s client.Status) bool { return s.Cursor == "" }) {
					time.Sleep(10 * time.Millisecond)
				}
				resp, err := http.Post(at[:len(at)-len("/mcp")]+"/emit", "", nil)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				for i, got := range ids {
					select {
					case id := <-got:
						if id != "e7" {
							t.Errorf("%d: %s", i, id)
						}
					case <-time.After(time.Minute):
						t.Errorf("%d: no event", i)
					}
				}
			})
		}
	}
}
