package mcpc

import (
	"context"
	"encoding/json"
	"runtime"
	"slices"
	"weak"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// support is the answer of a check tool. DirectUpdates was asked for until 0.2.4.
type support struct {
	Enabled       bool   `json:"mcpc_enabled"`
	Version       string `json:"mcpc_version"`
	Provider      string `json:"mcpc_provider"`
	DirectUpdates *bool  `json:"mcpc_direct_updates,omitempty"`
}

// checkTools are the names of the releases.
var checkTools = []string{wire.MCPCInit, wire.MCPCCheckHidden, wire.MCPCCheck}

// checkTool is what tools/list says of the documented one.
func checkTool() *mcp.Tool {
	no := false
	return &mcp.Tool{Name: wire.MCPCCheck, Title: "Check for MCPC", Description: "Tells whether this server speaks MCPC, the callbacks of background tools. For clients, not for models.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{}}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no}}
}

// checked is the answer of the check tool of that name (MCPC-INIT-1).
func (a *Adapter) checked(name string) *mcp.CallToolResult {
	s := support{Enabled: true, Version: wire.MCPCVersion, Provider: a.o.Provider}
	if name != wire.MCPCInit {
		yes := true
		s.DirectUpdates = &yes
	}
	b, err := events.Encode(&s)
	if err != nil {
		return failed("Internal error.") // unreachable: strings and booleans
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(b)}}}
}

// middleware answers the check tools, which are no tools of the SDK's so that they are not listed,
// and hides result schemas from sessions that get a message instead of a result: their clients may
// check results against the schema.
func (a *Adapter) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if call, ok := req.(*mcp.CallToolRequest); ok && call.Params != nil && slices.Contains(checkTools, call.Params.Name) {
			a.greet(ctx, req)
			return a.checked(call.Params.Name), nil
		}
		res, err := next(ctx, method, req)
		page, ok := res.(*mcp.ListToolsResult)
		if err != nil || !ok {
			return res, err
		}
		if !a.speaks(req) {
			a.showed(req, page)
			return res, nil
		}
		shown := *page
		shown.CacheScope = "private" // no cache may give it to another
		shown.Tools = slices.Clone(page.Tools)
		for i, t := range shown.Tools {
			if a.isTask(t.Name) && t.OutputSchema != nil {
				own := *t
				own.OutputSchema = nil
				shown.Tools[i] = &own
			}
		}
		return &shown, nil
	}
}

// greet notes that the session speaks MCPC (MCPC-SRV-2).
func (a *Adapter) greet(ctx context.Context, req mcp.Request) {
	c := a.es.CallerOf(ctx, req)
	if c.Connection == "" && c.Session == "" {
		return // no session to note it of: each call has to say it
	}
	if p := a.peerOf(c); p != nil {
		a.awaken(p)
	}
}

// awaken notes that a session speaks MCPC, and begins to send it what is forwarded.
func (a *Adapter) awaken(p *peer) {
	a.mu.Lock()
	known := p.aware
	p.aware = true
	a.mu.Unlock()
	if known {
		return
	}
	a.forward(p)
	if _, listed := a.listed.LoadAndDelete(weak.Make(p.server)); listed && p.connection != "" {
		// What tools/list has shown is no longer true: the result schemas are gone, by which clients
		// check results. It is on its way before the answer by which the client learns of MCPC.
		a.es.Send(p.connection, port.Message{Method: wire.NotificationToolsChanged, Params: json.RawMessage(`{}`)})
	}
}

// showed notes that a legacy session has seen result schemas of tasks.
func (a *Adapter) showed(req mcp.Request, page *mcp.ListToolsResult) {
	ss, _ := req.GetSession().(*mcp.ServerSession)
	if ss == nil || !slices.ContainsFunc(page.Tools, func(t *mcp.Tool) bool { return t.OutputSchema != nil && a.isTask(t.Name) }) {
		return
	}
	if init := ss.InitializeParams(); init == nil || init.ProtocolVersion >= wire.RevisionStateless {
		return // a session of one request
	}
	key := weak.Make(ss)
	if _, known := a.listed.LoadOrStore(key, struct{}{}); !known {
		runtime.AddCleanup(ss, func(key weak.Pointer[mcp.ServerSession]) { a.listed.Delete(key) }, key)
	}
}

// speaks reports whether who sent a request gets callbacks. Only calls of tools say by which
// connection they came; the SDK's session tells it of others.
func (a *Adapter) speaks(req mcp.Request) bool {
	ss, _ := req.GetSession().(*mcp.ServerSession)
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.peers {
		if p.aware && p.connection != "" && p.server == ss {
			return true
		}
	}
	return false
}

func (a *Adapter) isTask(tool string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tools[tool]
}

func failed(message string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: message}}}
}
