package bridge

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// These are the requests from a window to the hub, which are MCP tools. The first of these tools are also available to
// the agent.
const (
	opList          = "events_list"
	opSubscribe     = "events_subscribe"
	opUnsubscribe   = "events_unsubscribe"
	opSubscriptions = "events_subscriptions"
	opInbox         = "events_inbox"
	opAttach        = "attach"
	opLeave         = "leave"
	opAwait         = "await"
	opTake          = "take"
	opSettle        = "settle"
	opResume        = "resume" // needs no window
)

// protocol is the protocol version that windows and the hub use.
const protocol = 1

// maxLeases is the maximum number of leases per window. A result and a notification each need one lease, and a second
// one while the first is being settled.
const maxLeases = 4

// A guest is the hub's end of the connection to a window.
type guest struct {
	h *hub
	e *engine

	// attach sets reader and differs before the hub answers any other request.
	reader  *inbox.Reader
	differs bool
	told    atomic.Int64 // missed batches reported by the last events_inbox

	mu       sync.Mutex
	attached string // the window; "" before attach and after the end
	leases   map[string]*inbox.Lease
}

// attachParams are the parameters of a window's first request.
type attachParams struct {
	Protocol int    `json:"protocol"`
	Window   string `json:"window"`
	// Servers and Settings are digests of the window's configuration.
	Servers  string `json:"servers"`
	Settings string `json:"settings"`
	// Shown are the batches that the window has shown but no hub has confirmed.
	Shown settlement `json:"shown"`
}

// An attachResult is the hub's response to a window's first request.
type attachResult struct {
	PID int `json:"pid"`
	// Differs reports whether the window's configuration differs from the hub's in anything but the servers.
	Differs bool `json:"differs,omitempty"`
}

// newServer returns the MCP server for the window's connection.
func (g *guest) newServer() *mcp.Server {
	srv := mcp.NewServer(&mcp.Implementation{Name: "mcpe-gen-bridge-hub", Version: fmt.Sprint(protocol)}, nil)
	for name, answer := range map[string]func(context.Context, json.RawMessage) (any, error){
		opAttach: decoded(g.attach), opLeave: g.closeWindow, opAwait: decoded(g.await), opTake: decoded(g.take), opSettle: decoded(g.settle),
		opInbox: decoded(g.inbox), opList: decoded(g.list), opSubscribe: decoded(g.subscribe), opUnsubscribe: decoded(g.unsubscribe),
		opSubscriptions: g.subscriptions, opResume: g.resume,
	} {
		srv.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if name != opAttach && name != opResume && !g.ready() {
					return nil, errors.New("this window is not attached")
				}
				result, err := answer(ctx, req.Params.Arguments)
				if err != nil && (ctx.Err() != nil || errors.Is(err, errEnding)) {
					return nil, err // the window calls the next hub
				}
				var text string
				if err == nil {
					text, err = resultText(result)
				}
				res := &mcp.CallToolResult{IsError: err != nil}
				if err != nil {
					text = plain.Cut(err.Error(), 4*maxText)
				}
				res.Content = []mcp.Content{&mcp.TextContent{Text: text}}
				return res, nil
			})
	}
	return srv
}

// decoded returns an operation that decodes its parameters and calls f.
func decoded[T any](f func(ctx context.Context, in T) (any, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, args json.RawMessage) (any, error) {
		var in T
		if err := json.Unmarshal(args, &in); err != nil {
			return nil, err
		}
		return f(ctx, in)
	}
}

func (g *guest) ready() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.attached != ""
}

// attach associates the connection with a window. A window that reconnects keeps its reading position.
func (g *guest) attach(_ context.Context, in attachParams) (any, error) {
	switch {
	case in.Protocol != protocol:
		return nil, fmt.Errorf("the bridge that has the state is pid %d, of another version of mcpe-gen; end it and all windows that it serves", os.Getpid())
	case in.Servers != g.h.servers:
		return nil, fmt.Errorf("the bridge that has the state is pid %d, whose configuration has other servers or tokens; end it, or name another directory with --state", os.Getpid())
	case len(in.Window) == 0 || len(in.Window) > maxWindowID:
		return nil, errors.New("the window has no usable name")
	case g.ready():
		return nil, errors.New("this window is attached already")
	}
	reader, err := g.h.welcome(in.Window, g)
	if err != nil {
		return nil, err
	}
	g.reader, g.differs = reader, in.Settings != g.h.settings
	if err := g.markShown(in.Shown); err != nil {
		g.h.recordDisconnect(in.Window, g)
		return nil, fmt.Errorf("marking what the window has shown as read: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.attached = in.Window
	return attachResult{PID: os.Getpid(), Differs: g.differs}, nil
}

// closeWindow closes the window and deletes its reading position.
func (g *guest) closeWindow(context.Context, json.RawMessage) (any, error) {
	window := g.disconnect()
	return struct{}{}, g.h.forgetWindow(window)
}

// disconnect ends the window's connection and returns the window's ID. Batches that the window has taken but not shown
// revert to unread.
func (g *guest) disconnect() (window string) {
	g.mu.Lock()
	window, leases := g.attached, g.leases
	g.attached, g.leases = "", nil
	g.mu.Unlock()
	for _, l := range leases {
		l.Release()
	}
	if window != "" {
		g.h.recordDisconnect(window, g)
	}
	return window
}

// storeLease stores a lease until the window settles it or disconnects.
func (g *guest) storeLease(l *inbox.Lease) string {
	name := rand.Text()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.attached == "" || len(g.leases) >= maxLeases {
		l.Release()
		return ""
	}
	if g.leases == nil {
		g.leases = map[string]*inbox.Lease{}
	}
	g.leases[name] = l
	return name
}

// release releases a lease. It ignores leases of earlier hubs.
func (g *guest) release(name string) {
	g.mu.Lock()
	l := g.leases[name]
	delete(g.leases, name)
	g.mu.Unlock()
	if l != nil {
		l.Release()
	}
}
