// Command server makes its MCP server for each request, as github.com/github/github-mcp-server does: the HTTP handler calls
// a function value, whose default calls a constructor, which calls another one. The stdio command calls the same constructors.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"example.com/todos/server"
	"example.com/todos/web"
)

func main() {
	addr := flag.String("http", "", "address to serve on; stdio without it")
	flag.Parse()
	run := runHTTP
	if *addr == "" {
		run = runStdio
	}
	if err := run(context.Background(), server.Config{Version: "1", Addr: *addr}); err != nil {
		log.Fatal(err)
	}
}

func runHTTP(ctx context.Context, cfg server.Config) error {
	mux := http.NewServeMux()
	handler := web.NewHandler(ctx, cfg, web.WithTools("ping"))
	handler.RegisterRoutes(mux)

	listener, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return fmt.Errorf("failed to listen: %w", err)
	}
	log.Printf("MCP on http://%s/mcp", listener.Addr())
	svr := http.Server{
		Handler:           mux,
		ReadHeaderTimeout: 60 * time.Second,
	}
	if err := svr.Serve(listener); err != nil && err != http.ErrServerClosed {
		return fmt.Errorf("server error: %w", err)
	}
	return nil
}

func runStdio(ctx context.Context, cfg server.Config) error {
	s, err := server.NewMCPServer(ctx, cfg, nil)
	if err != nil {
		return err
	}
	return s.Run(ctx, &mcp.StdioTransport{})
}
