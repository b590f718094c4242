// Command server makes its MCP server for each request, as github.com/github/github-mcp-server does: the HTTP handler calls
// a function value, whose default calls a constructor, which calls another one. The stdio command calls the same constructors.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"example.com/todos/server"
	"example.com/todos/web"
)

func main() {
	addr := flag.String("http", "", "address to serve on; stdio without it")
	flag.Parse()
	if *addr == "" {
		log.Fatal(runStdio(context.Background()))
	}
	log.Fatal(http.ListenAndServe(*addr, web.NewHandler(server.Config{Version: "1"})))
}

func runStdio(ctx context.Context) error {
	s, err := server.NewMCPServer(ctx, server.Config{Version: "1"})
	if err != nil {
		return err
	}
	return s.Run(ctx, &mcp.StdioTransport{})
}
