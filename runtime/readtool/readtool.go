// Package readtool describes the read tools: one MCP tool an event type that returns its next
// occurrences by cursor, so that a client that knows no events can use the type. Generated code
// holds a [Tool] per event type; server.Server.AddReadTools registers them.
package readtool

import "github.com/modelcontextprotocol/go-sdk/mcp"

// A Tool ties a tool's descriptor to the event type that it reads.
type Tool struct {
	// Event is the name of the event type.
	Event string
	// CursorArgument and MaxEventsArgument name the two arguments that the tool has beside the
	// event type's own, usually "cursor" and "maxEvents".
	CursorArgument, MaxEventsArgument string
	// Tool is the descriptor as tools/list publishes it. InputSchema and OutputSchema hold
	// json.RawMessage; Annotations.ReadOnlyHint is true.
	Tool mcp.Tool
}
