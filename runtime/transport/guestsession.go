package transport

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A tempConn is the connection of a session that exists for a single call. Middleware can read the client's information
// from the session and use it to send notifications. The call itself does not use the connection.
type tempConn struct {
	send   func(message []byte) error
	closed chan struct{}
	close  func()
}

// newTempSession starts a session of the SDK's server. The caller must call endSession to end it. If init is not nil, the
// session is initialized with it. The session's messages are passed to send, or dropped if send is nil.
func newTempSession(ctx context.Context, srv *mcp.Server, init *mcp.InitializeParams, send func(message []byte) error) (ss *mcp.ServerSession, endSession func(), err error) {
	g := &tempConn{send: send, closed: make(chan struct{})}
	g.close = sync.OnceFunc(func() { close(g.closed) })
	ss, err = srv.Connect(ctx, g, &mcp.ServerSessionOptions{State: &mcp.ServerSessionState{InitializeParams: init}})
	return ss, func() { _ = ss.Close() }, err
}

// Connect implements [mcp.Transport].
func (g *tempConn) Connect(context.Context) (mcp.Connection, error) { return g, nil }

// SessionID returns "", because the session ends with the call.
func (g *tempConn) SessionID() string { return "" }

// Read blocks until the session or ctx ends.
func (g *tempConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-g.closed:
	case <-ctx.Done():
	}
	return nil, io.EOF
}

// errNoRequests is returned for requests to a client, because their responses could not be delivered.
var errNoRequests = errors.New("transport: the session of a single call can send notifications, but not requests")

// Write sends a notification from middleware.
func (g *tempConn) Write(_ context.Context, msg jsonrpc.Message) error {
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
func (g *tempConn) Close() error {
	g.close()
	return nil
}
