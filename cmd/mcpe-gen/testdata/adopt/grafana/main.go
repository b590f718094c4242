// Command dashboards serves MCP by mcp-go on stdio, HTTP+SSE or Streamable HTTP, as github.com/grafana/mcp-grafana does.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func newServer(enabled bool) *server.MCPServer {
	s := server.NewMCPServer("dashboards", "1.0.0", server.WithToolCapabilities(true))
	if enabled {
		s.AddTool(mcp.NewTool("ping"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return mcp.NewToolResultText("pong"), nil
		})
	}
	return s
}

// httpServer is what serves over HTTP.
type httpServer interface {
	Start(addr string) error
	Shutdown(ctx context.Context) error
}

func runHTTPServer(ctx context.Context, srv httpServer, addr, transportName string) error {
	serverErr := make(chan error, 1)
	go func() {
		if err := srv.Start(addr); err != nil {
			serverErr <- err
		}
		close(serverErr)
	}()
	select {
	case err := <-serverErr:
		return err
	case <-ctx.Done():
		slog.Info("shutting down", "transport", transportName)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return srv.Shutdown(ctx)
	}
}

func handleHealthz(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func withToken(ctx context.Context, r *http.Request) context.Context {
	type key struct{}
	return context.WithValue(ctx, key{}, r.Header.Get("Authorization"))
}

func run(transport, addr, endpointPath string) error {
	s := newServer(true)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	switch transport {
	case "stdio":
		srv := server.NewStdioServer(s)
		return srv.Listen(ctx, os.Stdin, os.Stdout)
	case "sse":
		httpSrv := &http.Server{Addr: addr}
		srv := server.NewSSEServer(s, server.WithHTTPServer(httpSrv))
		mux := http.NewServeMux()
		mux.Handle("/", srv)
		mux.HandleFunc("/healthz", handleHealthz)
		httpSrv.Handler = mux
		return runHTTPServer(ctx, srv, addr, "SSE")
	case "streamable-http":
		httpSrv := &http.Server{Addr: addr}
		opts := []server.StreamableHTTPOption{
			server.WithHTTPContextFunc(withToken),
			server.WithEndpointPath(endpointPath),
			server.WithStreamableHTTPServer(httpSrv),
		}
		srv := server.NewStreamableHTTPServer(s, opts...)
		mux := http.NewServeMux()
		mux.Handle(endpointPath, srv)
		mux.HandleFunc("/healthz", handleHealthz)
		httpSrv.Handler = mux
		fmt.Fprintf(os.Stderr, "MCP on http://%s%s\n", addr, endpointPath)
		return runHTTPServer(ctx, srv, addr, "StreamableHTTP")
	default:
		return fmt.Errorf("invalid transport type: %s", transport)
	}
}

func main() {
	transport := flag.String("t", "streamable-http", "transport")
	addr := flag.String("http", "127.0.0.1:8000", "address to listen on")
	flag.Parse()
	if err := run(*transport, *addr, "/mcp"); err != nil {
		panic(err)
	}
}
