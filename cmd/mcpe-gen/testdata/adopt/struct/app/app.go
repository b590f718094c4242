// Package app keeps the server in a struct and mounts it on the mux of another package.
package app

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"example.com/tickets/mux"
)

// App is the application.
type App struct {
	version string
	mcp     *mcp.Server
}

// New makes the application.
func New(version string) *App {
	a := &App{
		version: version,
		mcp:     mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: version}, nil),
	}
	mcp.AddTool(a.mcp, &mcp.Tool{Name: "ping"}, a.ping)
	return a
}

// Routes returns the handler of the application.
func (a *App) Routes() http.Handler {
	r := mux.NewRouter()
	r.Get("/health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	r.Mount("/"+a.version, a.v1())
	return r
}

func (a *App) v1() http.Handler {
	r := mux.NewRouter()
	r.Handle("/mcp", mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return a.mcp }, nil))
	return r
}

func (a *App) ping(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
	return nil, nil, nil
}
