// Package mcpcclient receives MCPC messages for an MCP client of the official SDK. A message reports the progress of a
// tool that runs in the background, or a server event.
//
// Start with [Connect], which also checks whether the server supports MCPC. [Client.CallTool] and the typed [Call] add
// the metadata for the server. Received messages are passed in order to [Options.Listener] and to typed listeners
// ([Listen], [ListenEvent]). Ordinary results and results from servers without MCPC are not changed.
//
// Over HTTP, all messages of a call arrive with its result. To receive them earlier, use a client of MCP Events to
// subscribe to task.Event, and pass the messages to [Client.Take].
package mcpcclient

import (
	"cmp"
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
	// Listener is called for each message in the order of arrival, one at a time. It may call tools. ctx is canceled by
	// Shutdown.
	Listener func(ctx context.Context, m task.Message)
	// SessionID identifies the MCPC session, such as a conversation; default a random id.
	SessionID string
	// MaxQueue limits the messages queued for listeners; default 10,000. Above the limit, updates are dropped and
	// logged. Above twice the limit, all messages are dropped and logged.
	MaxQueue int
	// Session contains options for the SDK; nil means the SDK's defaults.
	Session *mcp.ClientSessionOptions
	// Logger logs malformed and dropped messages; default slog.Default().
	Logger *slog.Logger
}

// Support describes a server's support for MCPC. See MCPC-INIT-1.
type Support struct {
	Enabled       bool   `json:"mcpc_enabled"`
	Version       string `json:"mcpc_version"`
	Provider      string `json:"mcpc_provider"`
	DirectUpdates bool   `json:"mcpc_direct_updates"`
	// CheckTool is the name of the check tool that the server supports. It determines the form of the metadata.
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
	o.MaxQueue = cmp.Or(max(o.MaxQueue, 0), 10_000)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	k := &Client{o: o, done: make(chan struct{}), waiting: map[string]chan task.Message{}}
	k.queue = newQueue(o.MaxQueue)
	k.ctx, k.cancel = context.WithCancel(context.Background())
	if canTap(t) {
		k.tapped = true
		t = &tap{t, k}
	}
	session, err := c.Connect(ctx, t, o.Session)
	if err != nil {
		k.cancel()
		return nil, err
	}
	k.session = session
	go k.runListeners()
	go func() {
		_ = session.Wait()
		k.queue.close()
	}()
	if err := k.probe(ctx); err != nil {
		k.closeSession()
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
		res, err := c.callWithRetry(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case isUnanswered(err):
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

// The number of attempts for an unanswered call and the pause between them. A retry can succeed if a load balancer
// sends it to another server.
const (
	probes     = 8
	probePause = 100 * time.Millisecond
)

// callWithRetry makes an idempotent call and retries it if it is not answered.
func (c *Client) callWithRetry(ctx context.Context, params *mcp.CallToolParams) (res *mcp.CallToolResult, err error) {
	for n := range probes {
		if res, err = c.session.CallTool(ctx, params); !isUnanswered(err) {
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

// codeRejected is the error code that the SDK uses if its transport could not send a call.
const codeRejected = -32005

// isUnanswered reports whether err means that the server did not answer. Such an error does not show which tools the
// server has.
func isUnanswered(err error) bool {
	var answer *jsonrpc.Error
	return err != nil && (!errors.As(err, &answer) || answer.Code == codeRejected)
}

// Session returns the SDK's session.
func (c *Client) Session() *mcp.ClientSession { return c.session }

// Support returns the server's description of its MCPC support. It returns false if the server does not support MCPC.
func (c *Client) Support() (Support, bool) { return c.support, c.support.Enabled }

// Shutdown closes the session and cancels the context of listeners. It waits until the listeners have processed the
// received messages, or until ctx ends. It returns the error from closing the session, or an error that wraps
// ctx.Err(). Do not call Shutdown from a listener, because it would wait for that listener. Shutdown may be called more
// than once.
func (c *Client) Shutdown(ctx context.Context) error {
	err := c.closeSession()
	select {
	case <-c.done:
		return err
	case <-ctx.Done():
		return errors.Join(err, fmt.Errorf("mcpc client: waiting for listeners: %w", ctx.Err()))
	}
}

// closeSession closes the session but does not wait for listeners.
func (c *Client) closeSession() error {
	err := c.session.Close()
	c.cancel()
	return err
}

// CallTool calls a tool with the metadata for the server, and returns its result unchanged. taskID is the id of the
// task, which should be hard to guess; "" means a random id. The metadata is not sent to a server without MCPC.
// Arguments must encode to a JSON object.
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
		c.queueMessages(res.Content)
	}
	return res, id, err
}

// withMetadata adds the session and task ids to the arguments, in the form used by the server's release.
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

// queueMessages queues the messages in the content blocks of a result.
func (c *Client) queueMessages(blocks []mcp.Content) {
	for _, b := range blocks {
		if text, ok := b.(*mcp.TextContent); ok {
			c.queueMessage(text.Text)
		}
	}
}

// queueMessage queues the message in text. It does nothing if text is not a message.
func (c *Client) queueMessage(text string) {
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

// runListeners passes queued messages to listeners, one at a time.
func (c *Client) runListeners() {
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
		c.notifyWaiter(m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, w := range c.waiting {
		close(w)
		delete(c.waiting, id)
	}
}

// notifyWaiter sends the last message of a task to the caller of [Running.Wait].
func (c *Client) notifyWaiter(m task.Message) {
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

// ErrClosed is returned if the session ended before the task.
var ErrClosed = errors.New("mcpc: the session has ended")
