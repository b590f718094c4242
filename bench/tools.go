package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	toolConnections = 2
	// Short turns make drifts of the machine affect both sides.
	toolTurns = 20
	toolTurn  = 200 * time.Millisecond
)

// withTool returns an SDK server with a tool that does nothing.
func withTool() *mcp.Server {
	srv := newServer()
	mcp.AddTool(srv, &mcp.Tool{Name: "nothing", Description: "Does nothing."}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{}}, nil, nil
	})
	return srv
}

// serveSDKTools serves the limit of tools/call: the SDK's handler, with sessions or "stateless".
func serveSDKTools(mux *http.ServeMux, place string) error {
	mountSDK(mux, withTool(), place == "stateless")
	return nil
}

// benchTools measures how much slower calls of tools become if a server also has events. It measures stateless calls
// and those of a legacy session.
func benchTools(b *bench) {
	for _, sessions := range []string{"stateless", "sessions"} {
		limit, ours := toolCalls(b, b.start("sdktools", sessions), sessions), toolCalls(b, b.start("tools"), sessions)
		var l, o latencies
		for range b.rounds {
			var took [2][]float64
			for range toolTurns {
				for i, call := range []func(context.Context) error{limit, ours} {
					_, some, err := closedLoop(b, toolConnections, toolTurn, call)
					b.check(err)
					took[i] = append(took[i], some...)
				}
			}
			l.add(took[0])
			o.add(took[1])
		}
		what := fmt.Sprintf("tools/call (%s) with events; limit: the SDK without, ", sessions)
		b.against(what+"p50", l.p50, o.p50, duration, "≤ 1.03")
		b.against(what+"p99", l.p99, o.p99, duration, "≤ 1.03")
	}
}

// toolCalls returns a function that calls the tool of a server, for "sessions" in a new legacy session.
func toolCalls(b *bench, p *process, sessions string) func(context.Context) error {
	hc := keepAlive(toolConnections)
	b.ends = append(b.ends, hc.CloseIdleConnections)
	newCall := func(ctx context.Context) *http.Request {
		r := request(ctx, p.base+"/mcp", "tools/call", `"name":"nothing","arguments":{},`)
		r.Header.Set("Mcp-Name", "nothing")
		return r
	}
	if sessions == "sessions" {
		const version = "2025-11-25"
		send := func(ctx context.Context, id, body string) *http.Request {
			r := message(ctx, p.base+"/mcp", version, body)
			r.Header.Set("Mcp-Session-Id", id)
			return r
		}
		resp, err := hc.Do(message(b, p.base+"/mcp", version, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+
			`","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`))
		b.check(err)
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		id := resp.Header.Get("Mcp-Session-Id")
		resp, err = hc.Do(send(b, id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`))
		b.check(err)
		resp.Body.Close()
		var calls atomic.Int64 // ids are unique in a session
		newCall = func(ctx context.Context) *http.Request {
			return send(ctx, id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"nothing","arguments":{}}}`, 1+calls.Add(1)))
		}
	}
	return func(ctx context.Context) error {
		_, err := call(hc, newCall(ctx))
		return err
	}
}
