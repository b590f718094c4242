package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Answers implements the notification form of the protocol for one server. It sends messages as notifications. Answers
// arrive as conversation/context notifications with the messageId of the message. It supports message-based connections
// such as stdio, but not the SDK's HTTP client. See CONV-2.
type Answers struct {
	mu      sync.Mutex
	conn    mcp.Connection
	waiting map[string]chan *answer
}

// NotificationForm wraps a client's transport to support the notification form. Connect the client to the returned
// transport, and pass the Answers to [Hub.Add] in ServerOptions.Notify.
func NotificationForm(t mcp.Transport) (*Answers, mcp.Transport) {
	a := &Answers{waiting: map[string]chan *answer{}}
	return a, &notifyTransport{t, a}
}

var errNotConnected = errors.New("conversation: the transport of the notification form is not connected")

func (a *Answers) exchange(ctx context.Context, method string, m Message) (*answer, error) {
	ch := make(chan *answer, 1)
	a.mu.Lock()
	conn := a.conn
	_, busy := a.waiting[m.MessageID]
	if conn != nil && !busy {
		a.waiting[m.MessageID] = ch
	}
	a.mu.Unlock()
	switch {
	case conn == nil:
		return nil, errNotConnected
	case busy:
		return nil, fmt.Errorf("conversation: message %q is already in progress", m.MessageID)
	}
	defer func() {
		a.mu.Lock()
		delete(a.waiting, m.MessageID)
		a.mu.Unlock()
	}()
	params, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if err := conn.Write(ctx, &jsonrpc.Request{Method: method, Params: params}); err != nil {
		return nil, err
	}
	select {
	case got := <-ch:
		return got, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// handleAnswer handles a notification that contains an answer. It discards late answers.
func (a *Answers) handleAnswer(params json.RawMessage) {
	var p contextParams
	if wire.Decode(params, &p) != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if ch := a.waiting[p.MessageID]; ch != nil {
		ch <- &p.answer
		delete(a.waiting, p.MessageID)
	}
}

type notifyTransport struct {
	mcp.Transport
	answers *Answers
}

func (t *notifyTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.answers.mu.Lock()
	t.answers.conn = c
	t.answers.mu.Unlock()
	return &notifyConn{c, t.answers}, nil
}

type notifyConn struct {
	mcp.Connection
	answers *Answers
}

// Read handles the notifications that contain answers, which the SDK does not support, and returns all other messages.
func (c *notifyConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			return m, err
		}
		if r, ok := m.(*jsonrpc.Request); ok && !r.IsCall() && r.Method == NotificationContext {
			c.answers.handleAnswer(r.Params)
			continue
		}
		return m, nil
	}
}
