// Package mcp has the names of github.com/mark3labs/mcp-go/mcp that the modules of this directory use.
package mcp

type (
	Tool            struct{}
	CallToolRequest struct{}
	CallToolResult  struct{}
)

func NewTool(string, ...func(*Tool)) Tool { return Tool{} }

func NewToolResultText(string) *CallToolResult { return nil }
