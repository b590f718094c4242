package bridge

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An agentTransport is the transport to the agent. It adds two functions to the SDK's transport. It reports when a
// result has been written, and it sends notifications that the SDK does not define.
type agentTransport struct {
	under mcp.Transport

	mu    sync.Mutex
	conn  *agentConn
	begun chan struct{} // closed when the agent has sent initialized
}

func newAgentTransport(t mcp.Transport) *agentTransport {
	return &agentTransport{under: t, begun: make(chan struct{})}
}

// Connect implements [mcp.Transport].
func (t *agentTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	under, err := t.under.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conn = &agentConn{Connection: under, t: t, calls: map[jsonrpc.ID]*call{}, tickets: map[string]*call{}}
	return t.conn, nil
}

// initialized returns a channel that is closed when the agent can receive notifications.
func (t *agentTransport) initialized() <-chan struct{} { return t.begun }

// notify sends a notification. It must not be called before initialized is closed.
func (t *agentTransport) notify(ctx context.Context, method string, params any) error {
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	t.mu.Lock()
	conn := t.conn
	t.mu.Unlock()
	return conn.Connection.Write(ctx, &jsonrpc.Request{Method: method, Params: raw})
}

// onWritten registers two functions for a call and calls exactly one of them. The first is called after the result has
// been written, and the second if it is not written. It must not block.
func (t *agentTransport) onWritten(extra *mcp.RequestExtra, written, dropped func()) {
	t.mu.Lock()
	conn := t.conn
	t.mu.Unlock()
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if extra != nil {
		if c := conn.tickets[extra.Header.Get(ticketHeader)]; c != nil && !c.cancelled {
			c.written, c.dropped = written, dropped
			return
		}
	}
	dropped() // nobody waits for the result any longer
}

// ticketHeader is the header that passes the ticket of a call to its handler. It is not part of any message.
const ticketHeader = "Mcpe-Bridge-Call"

// A call is a request from the agent that has not been answered.
type call struct {
	ticket           string
	written, dropped func() // nil if the result shows nothing
	cancelled        bool
}

type agentConn struct {
	mcp.Connection
	t *agentTransport

	mu      sync.Mutex
	last    uint64
	calls   map[jsonrpc.ID]*call
	tickets map[string]*call
	begun   bool
}

// Read implements [mcp.Connection].
func (c *agentConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	req, ok := msg.(*jsonrpc.Request)
	if err != nil || !ok {
		return msg, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case req.Method == "tools/call" && req.ID.IsValid() && c.calls[req.ID] == nil: // two calls with the same id cannot be distinguished
		c.last++
		k := &call{ticket: strconv.FormatUint(c.last, 10)}
		c.calls[req.ID], c.tickets[k.ticket] = k, k
		req.Extra = &mcp.RequestExtra{Header: http.Header{ticketHeader: {k.ticket}}}
	case req.Method == "notifications/cancelled":
		var p struct {
			RequestID any `json:"requestId"`
		}
		if json.Unmarshal(req.Params, &p) != nil {
			break
		}
		if id, err := jsonrpc.MakeID(p.RequestID); err == nil && c.calls[id] != nil {
			k := c.calls[id]
			if k.cancelled = true; k.dropped != nil {
				k.dropped()
				k.written, k.dropped = nil, nil
			}
		}
	case req.Method == "notifications/initialized" && !c.begun:
		c.begun = true
		close(c.t.begun)
	}
	return msg, nil
}

// Write implements [mcp.Connection].
func (c *agentConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	res, ok := msg.(*jsonrpc.Response)
	if !ok {
		return c.Connection.Write(ctx, msg)
	}
	c.mu.Lock()
	var written, dropped func()
	if k := c.calls[res.ID]; k != nil {
		written, dropped = k.written, k.dropped
		delete(c.calls, res.ID)
		delete(c.tickets, k.ticket)
	}
	c.mu.Unlock()
	err := c.Connection.Write(ctx, msg)
	switch {
	case written == nil:
	case err != nil || res.Error != nil:
		dropped()
	default:
		written()
	}
	return err
}
