// Package server has the names of github.com/mark3labs/mcp-go/server that the modules of this directory use. The module
// cmd/mcpe-gen/internal/adopt/public builds them with the real package.
package server

import (
	"context"
	"io"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
)

type (
	MCPServer            struct{}
	ServerOption         func(*MCPServer)
	StreamableHTTPServer struct{ http.Handler }
	StreamableHTTPOption func(*StreamableHTTPServer)
	SSEServer            struct{ http.Handler }
	SSEOption            func(*SSEServer)
	StdioServer          struct{}
	HTTPContextFunc      func(ctx context.Context, r *http.Request) context.Context
	ToolHandlerFunc      func(ctx context.Context, request mcp.CallToolRequest) (*mcp.CallToolResult, error)
)

func NewMCPServer(string, string, ...ServerOption) *MCPServer { return nil }

func WithToolCapabilities(bool) ServerOption { return nil }

func (*MCPServer) AddTool(mcp.Tool, ToolHandlerFunc) {}

func NewStreamableHTTPServer(*MCPServer, ...StreamableHTTPOption) *StreamableHTTPServer { return nil }

func WithEndpointPath(string) StreamableHTTPOption { return nil }

func WithHTTPContextFunc(HTTPContextFunc) StreamableHTTPOption { return nil }

func WithStreamableHTTPServer(*http.Server) StreamableHTTPOption { return nil }

func (*StreamableHTTPServer) Start(string) error { return nil }

func (*StreamableHTTPServer) Shutdown(context.Context) error { return nil }

func NewSSEServer(*MCPServer, ...SSEOption) *SSEServer { return nil }

func WithHTTPServer(*http.Server) SSEOption { return nil }

func (*SSEServer) Start(string) error { return nil }

func (*SSEServer) Shutdown(context.Context) error { return nil }

func NewStdioServer(*MCPServer) *StdioServer { return nil }

func (*StdioServer) Listen(context.Context, io.Reader, io.Writer) error { return nil }

func ServeStdio(*MCPServer) error { return nil }
