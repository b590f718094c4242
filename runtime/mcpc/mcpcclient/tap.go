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

// canTap reports whether the client can intercept the messages of a transport. It returns false for Streamable HTTP,
// which does not carry callbacks.
func canTap(t mcp.Transport) bool {
	switch t := t.(type) {
	case *mcp.LoggingTransport:
		return canTap(t.Transport)
	case *mcp.StreamableClientTransport:
		return false
	}
	return true
}

// A tap is a transport that intercepts the messages on a connection in the order of arrival.
type tap struct {
	mcp.Transport
	client *Client
}

// Connect connects the wrapped transport.
func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tapConn{c, t.client}, nil
}

// SupportsProtocolVersion returns the result of the wrapped transport's method, or true if the transport does not have
// the method.
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

// Read queues the messages in results. It skips callbacks, because they do not answer a request of the SDK.
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
						c.client.queueMessage(b.Text)
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

// A queue buffers messages for listeners. Because of the queue, a listener can call a tool without blocking the
// connection.
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

// push adds a message. It returns false if the queue is full or closed. The limit for updates is half the limit for
// other messages.
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

// pop waits for a message. It returns false once the queue is closed and empty.
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
