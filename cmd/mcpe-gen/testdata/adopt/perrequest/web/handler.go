// Package web serves MCP over HTTP.
package web

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"example.com/todos/server"
)

// ServerFactory makes the server of a request.
type ServerFactory func(r *http.Request, cfg server.Config, tools []string) (*mcp.Server, error)

// Handler makes a server for each request.
type Handler struct {
	ctx     context.Context
	config  server.Config
	factory ServerFactory
	tools   []string
}

// HandlerOption is an option of NewHandler.
type HandlerOption func(*Handler)

// WithTools gives the servers tools.
func WithTools(names ...string) HandlerOption {
	return func(h *Handler) { h.tools = append(h.tools, names...) }
}

// WithServerFactory sets what makes the servers.
func WithServerFactory(f ServerFactory) HandlerOption {
	return func(h *Handler) { h.factory = f }
}

// NewHandler returns a Handler with the default factory.
func NewHandler(ctx context.Context, cfg server.Config, opts ...HandlerOption) *Handler {
	h := &Handler{ctx: ctx, config: cfg, factory: DefaultServerFactory}
	for _, o := range opts {
		o(h)
	}
	return h
}

// RegisterRoutes registers the endpoint, with and without the tools that write.
func (h *Handler) RegisterRoutes(mux *http.ServeMux) {
	mux.Handle("/mcp", h)
	mux.Handle("/mcp/readonly", readOnly(h))
}

func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Set("X-MCP-Readonly", "true")
		next.ServeHTTP(w, r)
	})
}

// DefaultServerFactory makes a server that knows the caller.
func DefaultServerFactory(r *http.Request, cfg server.Config, tools []string) (*mcp.Server, error) {
	return server.NewMCPServer(r.Context(), cfg, tools)
}

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tools := h.tools
	if r.Header.Get("X-MCP-Readonly") != "" {
		tools = nil
	}
	s, err := h.factory(r, h.config, tools)
	if err != nil {
		http.Error(w, "no server", http.StatusInternalServerError)
		return
	}

	mcpHandler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		return s
	}, &mcp.StreamableHTTPOptions{Stateless: true})
	mcpHandler.ServeHTTP(w, r)
}
