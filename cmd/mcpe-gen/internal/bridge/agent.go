package bridge

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/bridge/inbox"
)

// An agentTransport is the connection to the agent. It does two things that the SDK does not: it tells what was shown by
// a result once that is written, and it sends notifications that the SDK does not know.
type agentTransport struct {
	under mcp.Transport
	print func(string)
	// turn is held from taking batches for a result until that is written and they are read, so that a crash leaves no more
	// than one result behind that was written and is shown again.
	turn chan struct{}

	mu    sync.Mutex
	conn  *agentConn
	begun chan struct{} // closed when the agent has said that it is initialized
}

func newAgentTransport(t mcp.Transport, print func(string)) *agentTransport {
	return &agentTransport{under: t, print: print, turn: make(chan struct{}, 1), begun: make(chan struct{})}
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

// initialized is closed once notifications may be sent.
func (t *agentTransport) initialized() <-chan struct{} { return t.begun }

// notify sends a notification. It must not be called before the agent is initialized.
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

// shows tells that the result of a call shows what the lease has: when the result is written it is read, and else it is
// unread as before. The caller has the turn, which passes on then.
func (t *agentTransport) shows(extra *mcp.RequestExtra, l *inbox.Lease) {
	t.mu.Lock()
	conn := t.conn
	t.mu.Unlock()
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if extra != nil {
		if c := conn.tickets[extra.Header.Get(ticketHeader)]; c != nil && !c.cancelled {
			c.lease = l
			return
		}
	}
	t.put(l) // nobody waits for the result any more
}

// put gives back what a result would have shown, and the turn.
func (t *agentTransport) put(l *inbox.Lease) {
	l.Release()
	<-t.turn
}

// ticketHeader carries the ticket of a call to its handler. It is in no message.
const ticketHeader = "Mcpe-Bridge-Call"

// A call is a request of the agent without an answer yet.
type call struct {
	ticket    string
	lease     *inbox.Lease
	cancelled bool
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
	case req.Method == "tools/call" && req.ID.IsValid() && c.calls[req.ID] == nil: // two of one id are not told apart
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
			if k.cancelled = true; k.lease != nil {
				c.t.put(k.lease)
				k.lease = nil
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
	k := c.calls[res.ID]
	var l *inbox.Lease
	if k != nil {
		l = k.lease
		delete(c.calls, res.ID)
		delete(c.tickets, k.ticket)
	}
	c.mu.Unlock()
	err := c.Connection.Write(ctx, msg)
	switch {
	case l == nil:
	case err != nil || res.Error != nil:
		c.t.put(l)
	default:
		if failed := l.Done(); failed != nil {
			c.t.print("marking events as read: " + failed.Error() + "; they will be shown again")
		}
		<-c.t.turn
	}
	return err
}
