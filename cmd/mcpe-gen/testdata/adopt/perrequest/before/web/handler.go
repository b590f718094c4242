// Package web serves MCP over HTTP.
package web

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"example.com/todos/server"
)

// ServerFactory makes the server of a request.
type ServerFactory func(r *http.Request, cfg server.Config) (*mcp.Server, error)

// Handler makes a server for each request.
type Handler struct {
	config  server.Config
	factory ServerFactory
}

// NewHandler returns a Handler with the default factory.
func NewHandler(cfg server.Config) *Handler {
	return &Handler{config: cfg, factory: DefaultServerFactory}
}

// DefaultServerFactory makes a server that knows the caller.
func DefaultServerFactory(r *http.Request, cfg server.Config) (*mcp.Server, error) {
	return server.NewMCPServer(r.Context(), cfg)
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s, err := h.factory(r, h.config)
	if err != nil {
		http.Error(w, "no server", http.StatusInternalServerError)
		return
	}
	mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}).ServeHTTP(w, r)
}
