package client

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A connTransport taps the connection of a message-based transport: stdio, in-memory, a process.
type connTransport struct {
	inner mcp.Transport
	board *board
}

func (t *connTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	inner, err := t.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	// An SDK session that is told to close waits for its calls; one that is stuck in a write ends
	// only with the connection.
	context.AfterFunc(t.board.aborted, func() { inner.Close() })
	return &connTap{inner, t.board}, nil
}

// A connTap takes the extension's notifications out of what the SDK reads, which would drop them.
type connTap struct {
	mcp.Connection
	board *board
}

// Write learns which call an id belongs to before the request is on the wire, so that no frame can
// come before its receiver is known.
func (c *connTap) Write(ctx context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Request)
	if !ok || !r.IsCall() {
		return c.Connection.Write(ctx, m)
	}
	own := callFrom(ctx)
	if own == nil || own.in == nil {
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
			c.board.breaks(err)
			return m, err
		}
		switch r := m.(type) {
		case *jsonrpc.Request:
			if r.IsCall() {
				return m, nil
			}
			if strings.HasPrefix(r.Method, wire.NotificationPrefix) {
				c.board.dispatch(ctx, frame{r.Method, r.Params}, nil)
				continue
			}
			if c.board.others != nil {
				c.board.others.observed(r.Method, r.Params)
			}
			if r.Method == notificationListenAck {
				c.board.dispatch(ctx, frame{r.Method, r.Params}, nil)
			}
		case *jsonrpc.Response:
			c.board.observe(r.Result)
			c.board.unroute(idText(r.ID.Raw()))
		}
		return m, nil
	}
}
