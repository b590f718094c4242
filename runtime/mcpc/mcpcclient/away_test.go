package mcpcclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/mcpcclient"
)

// L1: that nobody answers the question whether a server speaks MCPC is no answer to it: it is asked again, and
// is an error when it stays so.
func TestL1ProbeThatMeetsNobody(t *testing.T) {
	srv := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	srv.AddTool(&mcp.Tool{Name: "is_mcpc_enabled", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(`{"mcpc_enabled":true,"mcpc_version":"0.2.0","mcpc_provider":"p"}`), nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return srv }, &mcp.StreamableHTTPOptions{Stateless: true})
	for _, always := range []bool{false, true} {
		var calls atomic.Int64
		front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			if bytes.Contains(body, []byte("tools/call")) && (always || calls.Add(1)%2 == 1) {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			handler.ServeHTTP(w, r)
		}))
		hc := &http.Client{Transport: &http.Transport{}}
		c, err := mcpcclient.Connect(t.Context(), mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil),
			&mcp.StreamableClientTransport{Endpoint: front.URL, HTTPClient: hc}, mcpcclient.Options{Logger: quiet})
		if (err != nil) != always {
			t.Errorf("always %v: %v", always, err)
		}
		if err == nil {
			if _, ok := c.Support(); !ok {
				t.Error("the server counts as one without MCPC")
			}
			c.Shutdown(t.Context())
		}
		hc.CloseIdleConnections()
		front.Close()
	}
}
