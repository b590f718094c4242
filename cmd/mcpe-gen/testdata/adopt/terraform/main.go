// Command registry serves MCP by mcp-go behind middleware, as github.com/hashicorp/terraform-mcp-server does.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	log "github.com/sirupsen/logrus"

	"example.com/registry/client"
)

// NewServer makes a server with its tools.
func NewServer(version string, logger *log.Logger) *server.MCPServer {
	s := server.NewMCPServer("registry", version, server.WithToolCapabilities(true))
	s.AddTool(mcp.NewTool("ping"), func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		logger.Infof("ping")
		return mcp.NewToolResultText("pong"), nil
	})
	return s
}

func runStdioServer(logger *log.Logger) error {
	return server.ServeStdio(NewServer("0.1.0", logger))
}

func runHTTPServer(logger *log.Logger, addr, endpointPath string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	hcServer := NewServer("0.1.0", logger)
	return streamableHTTPServerInit(ctx, hcServer, logger, addr, endpointPath)
}

func streamableHTTPServerInit(ctx context.Context, hcServer *server.MCPServer, logger *log.Logger, addr, endpointPath string) error {
	endpointPath = path.Join("/", endpointPath)
	opts := []server.StreamableHTTPOption{
		server.WithEndpointPath(endpointPath),
	}
	baseStreamableServer := server.NewStreamableHTTPServer(hcServer, opts...)

	// Wrap the server in the checks of its callers.
	streamableServer := client.NewSecurityHandler(baseStreamableServer, []string{"https://example.com"}, logger)

	mux := http.NewServeMux()
	mux.Handle(endpointPath, streamableServer)
	mux.Handle(endpointPath+"/", streamableServer)
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "MCP on http://%s%s\n", listener.Addr(), endpointPath)
	httpServer := &http.Server{
		Handler:           mux,
		ReadTimeout:       30 * time.Second,
		ReadHeaderTimeout: 30 * time.Second,
		WriteTimeout:      30 * time.Second,
	}
	errC := make(chan error, 1)
	go func() { errC <- httpServer.Serve(listener) }()
	select {
	case <-ctx.Done():
		return httpServer.Shutdown(context.Background())
	case err := <-errC:
		return fmt.Errorf("error running server: %w", err)
	}
}

func main() {
	stdio := flag.Bool("stdio", false, "serve on stdio")
	addr := flag.String("http", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	logger := log.New()
	var err error
	if *stdio {
		err = runStdioServer(logger)
	} else {
		err = runHTTPServer(logger, *addr, "mcp")
	}
	if err != nil {
		log.Fatal(err)
	}
}
