package overlay

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// BenchmarkToolCall measures a call of a tool of next over loopback, alone and through the overlay in turns.
func BenchmarkToolCall(b *testing.B) {
	next := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		s := mcp.NewServer(&mcp.Implementation{Name: "next", Version: "1"}, nil)
		mcp.AddTool(s, &mcp.Tool{Name: "theirs"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{}, nil, nil
		})
		return s
	}, &mcp.StreamableHTTPOptions{Stateless: true})
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil), server.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer es.Shutdown(context.Background())
	if err := es.AddWaitTool(); err != nil {
		b.Fatal(err)
	}
	const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"theirs","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	handlers := []http.Handler{next, NewHandler(es, next, Options{})}
	took := make([][]time.Duration, len(handlers))
	var urls []string
	for _, h := range handlers {
		web := httptest.NewServer(h)
		defer web.Close()
		urls = append(urls, web.URL)
	}
	for b.Loop() {
		for i, url := range urls {
			r, _ := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
			r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
				"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"theirs"}}
			start := time.Now()
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if took[i] = append(took[i], time.Since(start)); resp.StatusCode != http.StatusOK {
				b.Fatal(resp.Status)
			}
		}
	}
	for i, name := range []string{"alone", "overlaid"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), name+"-p50-µs")
		b.ReportMetric(float64(took[i][len(took[i])*99/100].Microseconds()), name+"-p99-µs")
	}
}
