package adopt

import (
	"fmt"
	"slices"
)

// A Shape is the kind of server that a module has.
type Shape string

// The shapes of servers.
const (
	// OneServer is a server of the official SDK that lives as long as the process.
	OneServer Shape = "go-sdk"
	// PerRequest is a server of the official SDK that is created or chosen for each request.
	PerRequest Shape = "go-sdk-per-request"
	// MCPGo is a server of github.com/mark3labs/mcp-go on Streamable HTTP.
	MCPGo Shape = "mcp-go"
	// PlainHTTP is an HTTP server without MCP.
	PlainHTTP Shape = "net/http"
	// NoServer is a module without a server.
	NoServer Shape = "none"
	// Unknown is a server to which init does not know how to add events.
	Unknown Shape = "unknown"
)

// Describe returns the shape of the module's server, and what init says about it.
func (found *Found) Describe() (shape Shape, says string) {
	if i := slices.IndexFunc(found.Places, isPerRequest); i >= 0 {
		return PerRequest, "a server of the official SDK that is created or chosen for each request, " + found.Places[i].at() + ": it stays, and gets events next to it"
	}
	if len(found.Places) > 0 {
		return OneServer, "a server of the official SDK, " + found.Places[0].at() + ": it sends the events"
	}
	if i := slices.IndexFunc(found.mcpGo, func(p Place) bool { return p.Kind == mcpGoHTTP }); i >= 0 {
		return MCPGo, "a server of github.com/mark3labs/mcp-go, " + found.mcpGo[i].at() + ": it stays, and gets events next to it on Streamable HTTP"
	}
	switch {
	case len(found.mcpGo) > 0:
		return Unknown, "a server of github.com/mark3labs/mcp-go on a transport to which nothing can add events, " + found.mcpGo[0].at()
	case found.uses != "":
		return Unknown, "an MCP server that no call in this module creates, " + found.uses
	case found.OtherSDK != "":
		return Unknown, "a server of another SDK, " + found.OtherSDK + ", whose calls init does not know"
	case len(found.mounts) > 0:
		m := found.mounts[0]
		return PlainHTTP, fmt.Sprintf("an HTTP server without MCP, %s:%d: it gets an MCP server with events at /mcp", m.file.path, m.file.line(m.handler.Pos()))
	}
	return NoServer, "no server: it gets an MCP server with events"
}

// at returns the function that a place calls, and the place.
func (p *Place) at() string { return fmt.Sprintf("%s at %s:%d", p.Kind, p.Path, p.Line) }
