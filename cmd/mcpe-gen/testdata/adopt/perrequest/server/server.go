// Package server makes MCP servers.
package server

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Config is what a server needs.
type Config struct{ Version, Addr string }

// NewMCPServer makes a server with its tools.
func NewMCPServer(_ context.Context, cfg Config, tools []string) (*mcp.Server, error) {
	s := NewServer(cfg.Version, nil)
	for _, name := range tools {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, nil
		})
	}
	return s, nil
}

// NewServer makes a server without tools.
func NewServer(version string, opts *mcp.ServerOptions) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "todo", Version: version}, opts)
	return s
}
