// Command tickets is an MCP server with one tool.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type note struct {
	ID     string `json:"id"`
	Author string `json:"author"`
	Text   string `json:"text"`
}

func main() {
	addr := flag.String("http", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	server := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "v1.0.0"}, nil)

	mcp.AddTool(server, &mcp.Tool{Name: "add_note", Description: "Add a note."},
		func(ctx context.Context, _ *mcp.CallToolRequest, n note) (*mcp.CallToolResult, any, error) {
			log.Printf("%s: %s", n.Author, n.Text)
			return nil, nil, nil
		})

	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	mux := http.NewServeMux()
	mux.Handle("/mcp", handler)

	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("MCP on http://%s/mcp", listener.Addr())
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(web.Serve(listener))
}
