package mcpc

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/codec"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// checkOutput is the output of a check tool. Clients required DirectUpdates until 0.2.4.
type checkOutput struct {
	Enabled       bool   `json:"mcpc_enabled"`
	Version       string `json:"mcpc_version"`
	Provider      string `json:"mcpc_provider"`
	DirectUpdates *bool  `json:"mcpc_direct_updates,omitempty"`
}

// checkTools lists all names of the check tool, which differ between releases.
var checkTools = []string{wire.MCPCInit, wire.MCPCCheckHidden, wire.MCPCCheck}

// checkTool returns the descriptor of the documented check tool.
func checkTool() *mcp.Tool {
	no := false
	return &mcp.Tool{Name: wire.MCPCCheck, Title: "Check for MCPC", Description: "Tells whether this server speaks MCPC, the callbacks of background tools. For clients, not for models.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{}}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no}}
}

// checkResult returns the result of the named check tool (MCPC-INIT-1).
func (a *Adapter) checkResult(name string) *mcp.CallToolResult {
	s := checkOutput{Enabled: true, Version: wire.MCPCVersion, Provider: a.o.Provider}
	if name != wire.MCPCInit {
		yes := true
		s.DirectUpdates = &yes
	}
	b, err := codec.Encode(&s)
	if err != nil {
		return failed("Internal error.") // unreachable: strings and booleans
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(b)}}}
}

// checkMiddleware handles calls to the check tools. The tools are not registered with the SDK, so the SDK does not list
// them.
func (a *Adapter) checkMiddleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if call, ok := req.(*mcp.CallToolRequest); ok && call.Params != nil && slices.Contains(checkTools, call.Params.Name) {
			a.recordSupport(ctx, req)
			return a.checkResult(call.Params.Name), nil
		}
		return next(ctx, method, req)
	}
}

// recordSupport records that the session supports MCPC (MCPC-SRV-2).
func (a *Adapter) recordSupport(ctx context.Context, req mcp.Request) {
	c := a.es.CallerOf(ctx, req)
	if c.Connection == "" && c.Session == "" {
		return // no session to record it for: each call must carry metadata
	}
	if p := a.peerOf(c); p != nil {
		a.enableForwarding(p)
	}
}

// enableForwarding marks a peer as supporting MCPC and starts to forward events to it.
func (a *Adapter) enableForwarding(p *peer) {
	a.mu.Lock()
	known := p.aware
	p.aware = true
	a.mu.Unlock()
	if known {
		return
	}
	a.forward(p).Wait() // the client misses nothing after it has the answer
}

func failed(message string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: message}}}
}
