package transport

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// A call before initialize is refused on every transport of the revisions that have it, and reaches no tool. MCPE's document
// has -32000 for it; the SDK says it before anything of ours is asked, with its own code, 0 (docs/mcpe.md).
func TestCallBeforeInitialize(t *testing.T) {
	const (
		call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"counted","arguments":{}}}`
		want = `"id":1,"error":{"code":0,"message":"method \"tools/call\" is invalid during session initialization"}}`
	)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	post := func(t *testing.T, url string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(call))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for name, ask := range map[string]func(t *testing.T, g *rig) string{
		"stdio": func(t *testing.T, g *rig) string {
			in, toServer := io.Pipe()
			fromServer, out := io.Pipe()
			ran := make(chan error, 1)
			go func() { ran <- Run(ctx, g.es, &mcp.IOTransport{Reader: in, Writer: out}) }()
			defer func() {
				toServer.Close()
				fromServer.Close()
				<-ran
			}()
			if _, err := io.WriteString(toServer, call+"\n"); err != nil {
				t.Fatal(err)
			}
			return lineWith(t, fromServer, "error")
		},
		"HTTP": func(t *testing.T, g *rig) string {
			web := httptest.NewServer(NewHandler(g.es, HandlerOptions{}))
			defer web.Close()
			resp := post(t, web.URL)
			defer resp.Body.Close()
			return lineWith(t, resp.Body, "data: ")
		},
		"SSE": func(t *testing.T, g *rig) string {
			web := httptest.NewServer(NewSSEHandler(g.srv, g.es, nil))
			defer web.Close()
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Accept", "text/event-stream")
			stream, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Body.Close()
			events := bufio.NewReader(stream.Body)
			endpoint := strings.TrimPrefix(lineWith(t, events, "data: "), "data: ")
			post(t, web.URL+endpoint).Body.Close()
			return lineWith(t, events, "data: {")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, server.Options{})
			var called atomic.Int32
			mcp.AddTool(g.srv, &mcp.Tool{Name: "counted"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				called.Add(1)
				return nil, nil, nil
			})
			if got := ask(t, g); !strings.HasSuffix(got, want) || called.Load() != 0 {
				t.Errorf("%s, and the tool was called %d times", got, called.Load())
			}
			if err := g.es.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// lineWith is the next line with a text in it.
func lineWith(t *testing.T, from io.Reader, with string) string {
	t.Helper()
	r, ok := from.(*bufio.Reader)
	if !ok {
		r = bufio.NewReader(from)
	}
	for {
		text, err := r.ReadString('\n')
		if strings.Contains(text, with) {
			return strings.TrimSpace(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
