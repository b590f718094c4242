// Package mcpcclient lets an MCP client of the official SDK receive MCPC messages. These are the messages of tools
// that work in the background, and server events.
//
// Start with [Connect], which also checks whether the server supports MCPC. [Client.CallTool] and the typed [Call] add
// the metadata for the server; the received messages go, in order, to [Options.Listener] and to typed listeners
// ([Listen], [ListenEvent]). Ordinary results are unchanged, and so are all results of servers without MCPC.
//
// Over HTTP all messages of a call arrive with its result. To receive them earlier, a client of MCP Events subscribes
// to task.Event and passes the messages to [Client.Take].
package mcpcclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/listeners"
	"github.com/mcpe-gen/mcpe-gen/runtime/mcpc/task"
)

// Options configures a [Client]; the zero value is usable.
type Options struct {
	// Listener is called for every message in the order of arrival, one at a time. It may call tools. ctx ends with
	// Shutdown.
	Listener func(ctx context.Context, m task.Message)
	// SessionID identifies the MCPC session, for example a conversation; default a random id.
	SessionID string
	// MaxQueue bounds the messages that wait for listeners; default 10,000. Above it, updates are dropped and logged;
	// above twice the limit, all messages are.
	MaxQueue int
	// Session is passed to the SDK; nil means its defaults.
	Session *mcp.ClientSessionOptions
	// Logger receives errors about malformed and dropped messages; default slog.Default().
	Logger *slog.Logger
}

// Support describes a server's support for MCPC. See MCPC-INIT-1.
type Support struct {
	Enabled       bool   `json:"mcpc_enabled"`
	Version       string `json:"mcpc_version"`
	Provider      string `json:"mcpc_provider"`
	DirectUpdates bool   `json:"mcpc_direct_updates"`
	// CheckTool is the tool that answered; it determines the form of the metadata.
	CheckTool string `json:"-"`
}

// A Client is a session with a server that may support MCPC. It is safe for concurrent use.
type Client struct {
	o       Options
	session *mcp.ClientSession
	tapped  bool // messages are read from the connection, before the SDK
	support Support
	queue   *queue
	done    chan struct{} // closed when the session has ended and the queue is empty
	ctx     context.Context
	cancel  context.CancelFunc

	listeners listeners.Set[func(context.Context, task.Message)]

	mu      sync.Mutex
	waiting map[string]chan task.Message // by task
}

// Connect connects c over t and checks whether the server supports MCPC. See MCPC-CLI-1.
func Connect(ctx context.Context, c *mcp.Client, t mcp.Transport, o Options) (*Client, error) {
	if o.SessionID == "" {
		o.SessionID = uuid.NewString()
	}
	if o.MaxQueue <= 0 {
		o.MaxQueue = 10_000
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	k := &Client{o: o, done: make(chan struct{}), waiting: map[string]chan task.Message{}}
	k.queue = newQueue(o.MaxQueue)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	if tappable(t) {
		k.tapped = true
		t = &tap{t, k}
	}
	session, err := c.Connect(ctx, t, o.Session)
	if err != nil {
		k.cancel()
		return nil, err
	}
	k.session = session
	go k.run()
	go func() {
		_ = session.Wait()
		k.queue.close()
	}()
	if err := k.probe(ctx); err != nil {
		k.end()
		<-k.done // no listener is running that could delay it
		return nil, err
	}
	return k, nil
}

// probe calls the check tools of all releases, newest first.
func (c *Client) probe(ctx context.Context) error {
	for _, tool := range []string{wire.MCPCInit, wire.MCPCCheckHidden, wire.MCPCCheck} {
		args := map[string]any{}
		if tool == wire.MCPCInit {
			args[wire.MCPCInfo] = map[string]any{"mcpc_version": wire.MCPCVersion, "mcpc_provider": "mcpe-gen"}
		}
		res, err := c.ask(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case unanswered(err):
			return fmt.Errorf("mcpc: checking whether the server speaks MCPC: %w", err)
		case err != nil || res.IsError:
			continue // the server does not have this tool
		}
		for _, block := range res.Content {
			text, ok := block.(*mcp.TextContent)
			if s := (Support{}); ok && json.Unmarshal([]byte(text.Text), &s) == nil && s.Enabled {
				s.CheckTool = tool
				c.support = s
				return nil
			}
		}
	}
	return nil
}

// Attempts for an unanswered call, and the pause between them: with a load balancer, only one of several servers may
// be down.
const (
	probes     = 8
	probePause = 100 * time.Millisecond
)

// ask makes an idempotent call, with retries.
func (c *Client) ask(ctx context.Context, params *mcp.CallToolParams) (res *mcp.CallToolResult, err error) {
	for n := range probes {
		if res, err = c.session.CallTool(ctx, params); !unanswered(err) {
			break
		}
		if n < probes-1 {
			select {
			case <-time.After(probePause):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
	return res, err
}

// codeRejected is the SDK's code for a call that its transport could not send.
const codeRejected = -32005

// unanswered reports whether err did not come from the server, so that it does not tell which tools the server has.
func unanswered(err error) bool {
	var answer *jsonrpc.Error
	return err != nil && (!errors.As(err, &answer) || answer.Code == codeRejected)
}

// Session returns the SDK's session.
func (c *Client) Session() *mcp.ClientSession { return c.session }

// Support returns the server's description of its MCPC support, and false if it has none.
func (c *Client) Support() (Support, bool) { return c.support, c.support.Enabled }

// Shutdown closes the session and ends the context of listeners. It waits until the listeners have processed the
// received messages, or ctx ends. The error comes from closing the session, or wraps ctx.Err(). Do not call it from a
// listener, which would wait for itself. It may be called more than once.
func (c *Client) Shutdown(ctx context.Context) error {
	err := c.end()
	select {
	case <-c.done:
		return err
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("mcpc client: waiting for listeners: %w", ctx.Err()))
	}
}

// end closes the session without waiting for listeners.
func (c *Client) end() error {
	err := c.session.Close()
	c.cancel()
	return err
}

// CallTool calls a tool with the metadata for the server, and returns its result unchanged. taskID is the id of the
// task, which should be hard to guess; "" means a random one. It is not sent to a server without MCPC. Arguments must
// encode to a JSON object.
func (c *Client) CallTool(ctx context.Context, params *mcp.CallToolParams, taskID string) (res *mcp.CallToolResult, id string, err error) {
	id = taskID
	if id == "" {
		id = uuid.NewString()
	}
	own := *params
	if c.support.Enabled {
		if own.Arguments, err = c.withMetadata(params.Arguments, id); err != nil {
			return nil, id, err
		}
	}
	res, err = c.session.CallTool(ctx, &own)
	if err == nil && !c.tapped {
		c.hear(res.Content)
	}
	return res, id, err
}

// withMetadata adds the session and the task in the form of the server's release.
func (c *Client) withMetadata(arguments any, id string) (json.RawMessage, error) {
	members := map[string]json.RawMessage{}
	b, err := json.Marshal(arguments)
	if err == nil {
		err = json.Unmarshal(b, &members)
	}
	if err != nil {
		return nil, fmt.Errorf("mcpc: arguments of a tool: %w", err)
	}
	if members == nil {
		members = map[string]json.RawMessage{}
	}
	argument, metadata := wire.MCPCMetadata, map[string]string{wire.MCPCMetadataSession: c.o.SessionID, wire.MCPCMetadataTask: id}
	if c.support.CheckTool == wire.MCPCInit {
		argument, metadata = wire.MCPCParams, map[string]string{wire.MCPCParamsSession: c.o.SessionID, wire.MCPCParamsTask: id}
	}
	if members[argument], err = json.Marshal(metadata); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}

// hear queues the messages among the blocks of a result.
func (c *Client) hear(blocks []mcp.Content) {
	for _, b := range blocks {
		if text, ok := b.(*mcp.TextContent); ok {
			c.read(text.Text)
		}
	}
}

// read queues the message in text, if there is one.
func (c *Client) read(text string) {
	m, ok, err := task.Parse(text)
	switch {
	case err != nil:
		c.o.Logger.Warn("mcpc: a message cannot be decoded", "error", err)
	case ok:
		c.Take(m)
	}
}

// Take passes a message from another source, such as mcpc.task, to the listeners.
func (c *Client) Take(m task.Message) {
	if !c.queue.push(m) {
		c.o.Logger.Warn("mcpc: listeners are too slow, a message is dropped", "event", m.Event, "tool", m.ToolName)
	}
}

// run passes messages to listeners, one at a time.
func (c *Client) run() {
	defer close(c.done)
	defer c.cancel()
	ctx := c.ctx
	for {
		m, ok := c.queue.pop()
		if !ok {
			break
		}
		if c.o.Listener != nil {
			c.o.Listener(ctx, m)
		}
		for f := range c.listeners.All() {
			f(ctx, m)
		}
		c.settle(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, w := range c.waiting {
		close(w)
		delete(c.waiting, id)
	}
}

// settle passes the last message of a task to its waiter.
func (c *Client) settle(m task.Message) {
	if m.Type != wire.MCPCTask || m.Event != wire.MCPCComplete && m.Event != wire.MCPCFailed {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if w := c.waiting[m.TaskID]; w != nil {
		w <- m
		delete(c.waiting, m.TaskID)
	}
}

// ErrClosed reports that the session ended before the task.
var ErrClosed = errors.New("mcpc: the session has ended")
