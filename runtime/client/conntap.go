package client

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A connTransport taps the connection of a message-based transport: stdio, in-memory or a process.
type connTransport struct {
	inner mcp.Transport
	board *tapState
}

func (t *connTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	inner, err := t.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	// A closing SDK session waits for its calls. A call that is blocked in a write ends only when the connection is
	// closed.
	context.AfterFunc(t.board.abortContext, func() { inner.Close() })
	return &connTap{inner, t.board}, nil
}

// A connTap handles the extension's notifications, which the SDK would drop, and hides them from the SDK.
type connTap struct {
	mcp.Connection
	board *tapState
}

// Write routes a request's ID to its call before it sends the request. Otherwise a frame could arrive before its
// receiver is known.
func (c *connTap) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	own := callFrom(ctx)
	if !ok || !r.IsCall() || own == nil || own.in == nil {
		return c.Connection.Write(ctx, m)
	}
	id := idText(r.ID.Raw())
	c.board.route(ctx, id, own)
	err := c.Connection.Write(ctx, m)
	if err != nil {
		c.board.unroute(id)
	}
	return err
}

func (c *connTap) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			c.board.setBroken(err)
			return m, err
		}
		switch r := m.(type) {
		case *jsonrpc.Request:
			if r.IsCall() {
				return m, nil
			}
			c.board.handleNotification(ctx, frame{r.Method, r.Params}, nil)
			if strings.HasPrefix(r.Method, wire.NotificationPrefix) {
				continue
			}
		case *jsonrpc.Response:
			c.board.recordCapabilities(r.Result)
			c.board.unroute(idText(r.ID.Raw()))
		}
		return m, nil
	}
}
