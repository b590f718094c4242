// Command todos is an MCP server with several users: it makes one server for each request.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type todo struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// serverFor is the server of one user.
func serverFor(user string) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "todos", Version: "v1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "add_todo", Description: "Add something to do."},
		func(_ context.Context, _ *mcp.CallToolRequest, in todo) (*mcp.CallToolResult, any, error) {
			log.Printf("%s: %s", user, in.Text)
			return nil, nil, nil
		})
	return server
}

// verify knows two users; your identity provider knows more.
func verify(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
	user, ok := map[string]string{"s3cret-of-ada": "ada", "s3cret-of-bob": "bob"}[token]
	if !ok {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: user}, nil
}

func main() {
	addr := flag.String("http", "127.0.0.1:8080", "address to listen on")
	flag.Parse()

	handler := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return serverFor(auth.TokenInfoFromContext(r.Context()).UserID)
	}, nil)
	authenticate := auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})
	mux := http.NewServeMux()
	mux.Handle("/mcp", authenticate(handler))

	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("MCP on http://%s/mcp", listener.Addr())
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(web.Serve(listener))
}
