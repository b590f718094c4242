package transport

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A guest is the connection of a session that exists for one call. Middleware can read the caller from the session and
// send notifications with it; the call itself does not use the connection.
type guest struct {
	send   func(message []byte) error
	closed chan struct{}
	close  func()
}

// visit starts a session of the SDK's server, which the caller must end with left. If init is not nil, the session is
// initialized with it. send sends the session's messages; nil drops them.
func visit(ctx context.Context, srv *mcp.Server, init *mcp.InitializeParams, send func(message []byte) error) (ss *mcp.ServerSession, left func(), err error) {
	g := &guest{send: send, closed: make(chan struct{})}
	g.close = sync.OnceFunc(func() { close(g.closed) })
	ss, err = srv.Connect(ctx, g, &mcp.ServerSessionOptions{State: &mcp.ServerSessionState{InitializeParams: init}})
	return ss, func() { _ = ss.Close() }, err
}

// Connect implements [mcp.Transport].
func (g *guest) Connect(context.Context) (mcp.Connection, error) { return g, nil }

// SessionID returns "", because the session ends with the call.
func (g *guest) SessionID() string { return "" }

// Read blocks until the session or ctx ends.
func (g *guest) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-g.closed:
	case <-ctx.Done():
	}
	return nil, io.EOF
}

// errNoRequests refuses requests to a client, since their responses could not be delivered.
var errNoRequests = errors.New("transport: the session of a single call can send notifications, but not requests")

// Write sends a notification of middleware.
func (g *guest) Write(_ context.Context, msg jsonrpc.Message) error {
	if r, ok := msg.(*jsonrpc.Request); ok && r.IsCall() {
		return errNoRequests
	}
	if g.send == nil {
		return nil
	}
	b, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	return g.send(b)
}

// Close ends the session.
func (g *guest) Close() error {
	g.close()
	return nil
}
