package mcpcclient

import (
	"bytes"
	"context"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

// tappable reports whether the connection of a transport can be read before the SDK reads it. That
// of Streamable HTTP cannot, and has nothing unasked on it.
func tappable(t mcp.Transport) bool {
	switch t := t.(type) {
	case *mcp.LoggingTransport:
		return tappable(t.Transport)
	case *mcp.StreamableClientTransport:
		return false
	}
	return true
}

// A tap reads the messages on a connection, in the order in which they come.
type tap struct {
	mcp.Transport
	client *Client
}

// Connect connects the transport below.
func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tapConn{c, t.client}, nil
}

// SupportsProtocolVersion is the answer of the transport below; those that give none carry all.
func (t *tap) SupportsProtocolVersion(version string) bool {
	if s, ok := t.Transport.(mcp.ProtocolVersionSupporter); ok {
		return s.SupportsProtocolVersion(version)
	}
	return true
}

type tapConn struct {
	mcp.Connection
	client *Client
}

// Read takes callbacks out, which answer nothing that the SDK has asked, and looks into results.
func (c *tapConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			return m, err
		}
		r, ok := m.(*jsonrpc.Response)
		if !ok {
			return m, nil
		}
		if r.Error == nil && bytes.Contains(r.Result, []byte(wire.MCPCProtocol)) {
			var result struct {
				Content []struct {
					Type string `json:"type"`
					Text string `json:"text"`
				} `json:"content"`
			}
			if wire.Decode(r.Result, &result) == nil {
				for _, b := range result.Content {
					if b.Type == "text" {
						c.client.read(b.Text)
					}
				}
			}
		}
		if id, ok := r.ID.Raw().(string); ok && id == wire.MCPCCallback {
			continue
		}
		return m, nil
	}
}

// A queue keeps messages until listeners have time for them, so that a listener that calls a tool
// does not wait for a connection that waits for the listener.
type queue struct {
	max int

	mu     sync.Mutex
	wake   sync.Cond
	closed bool
	all    []task.Message
}

func newQueue(max int) *queue {
	q := &queue{max: max}
	q.wake.L = &q.mu
	return q
}

// push reports whether the message found room. What ends a task finds some longer than updates.
func (q *queue) push(m task.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	limit := q.max
	if m.Event != wire.MCPCUpdate || m.Type != wire.MCPCTask {
		limit *= 2
	}
	if q.closed || len(q.all) >= limit {
		return false
	}
	q.all = append(q.all, m)
	q.wake.Signal()
	return true
}

// pop waits for a message; false once the queue is closed and empty.
func (q *queue) pop() (m task.Message, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.all) == 0 {
		if q.closed {
			return m, false
		}
		q.wake.Wait()
	}
	m = q.all[0]
	q.all[0] = task.Message{}
	q.all = q.all[1:]
	return m, true
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake.Broadcast()
}
