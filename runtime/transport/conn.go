package transport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// A conn is a layer between the SDK's session and a message-based connection. It answers extension calls, suppresses
// responses to cancelled calls, and sends list_changed. The SDK receives an extension call only if it must reject the
// call.
type conn struct {
	mcp.Connection
	es    *port.Port
	lines *lineConn // below Connection; nil for other kinds of connections
	out   *outbox

	ctx    context.Context // done when the peer is gone or the connection is closed
	hangUp context.CancelFunc
	quiet  func() // stops the announcements
	shut   func() error

	route *dispatcher
	probe atomic.Pointer[string] // returned by SessionID during a search for the session
	found *mcp.ServerSession     // the result of that search; used only by Read

	mu         sync.Mutex
	calls      map[string]*call   // unanswered calls of the extension, by idKey
	muted      map[jsonrpc.ID]int // responses of the SDK to suppress
	listens    map[jsonrpc.ID]*listenCall
	initialize jsonrpc.ID            // the ID of a legacy initialize request
	greeted    chan struct{}         // closed when initialize is answered; nil before it arrives
	legacy     bool                  // initialize was answered with a session
	declares   bool                  // the client declared the extension
	ready      bool                  // the client knows of its session
	session    string                // the session's key, for adapters
	outlet     bool                  // adapters can reach the session
	local      bool                  // the peer is this process or its parent
	owned      bool                  // Run owns it, and closes the connection when the server is shut down
	replies    map[jsonrpc.ID]func() // unanswered calls of other methods; non-nil functions are called at their end
	announcing bool                  // a list_changed for a legacy client is queued
	ending     bool
	drained    chan struct{} // closed when ending and all calls have ended
}

func newConn(ctx context.Context, es *port.Port, inner mcp.Connection, lines *lineConn) *conn {
	c := &conn{Connection: inner, es: es, lines: lines, route: newDispatcher(es),
		calls: map[string]*call{}, muted: map[jsonrpc.ID]int{}, listens: map[jsonrpc.ID]*listenCall{},
		drained: make(chan struct{}), session: "conn " + rand.Text()}
	c.ctx, c.hangUp = context.WithCancel(context.WithoutCancel(ctx))
	c.out = newOutbox(func(error) {
		c.hangUp()
		_ = inner.Close() // the reader then ends the session
	})
	c.quiet = es.OnListChanged(c.announce)
	c.shut = sync.OnceValue(func() error {
		c.quiet()
		c.endCalls()
		c.out.close()
		c.hangUp()
		c.dropSession()
		return inner.Close()
	})
	go func() {
		select {
		case <-es.Closing():
			c.endCalls()
		case <-c.ctx.Done():
		}
	}()
	return c
}

// Read returns the next message for the SDK's session. It answers malformed lines itself.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if bad := (*lineError)(nil); errors.As(err, &bad) {
			c.out.post(func() error { return c.lines.write(bad.response()) })
			continue
		}
		if err != nil {
			c.hangUp()
			return nil, err
		}
		if req, ok := msg.(*jsonrpc.Request); ok && c.intercept(req) {
			continue
		}
		return msg, nil
	}
}

// intercept handles a message before the SDK does. It returns true if the SDK must not receive the message.
func (c *conn) intercept(req *jsonrpc.Request) (taken bool) {
	switch {
	case req.Method == methodCancelled:
		c.cancelCall(req)
	case req.Method == methodInitialized:
		c.openSession()
	case !req.IsCall() && !isEvents(req.Method):
		c.passNotification(req)
	case req.Method == methodCall:
		c.acceptToolCall(req)
	case req.Method == methodInitialize:
		c.acceptInitialize(req)
	case req.Method == methodListen:
		c.acceptListen(req)
	case isEvents(req.Method):
		return c.acceptCall(req)
	default:
		c.registerCall(req.ID, nil)
	}
	return false
}

// acceptInitialize records an initialize request. The legacy session starts when the request is answered.
func (c *conn) acceptInitialize(req *jsonrpc.Request) {
	extensions := member(member(req.Params, "capabilities"), "extensions")
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.greeted == nil {
		c.initialize, c.greeted = req.ID, make(chan struct{})
		c.declares = member(extensions, wire.ExtensionID) != nil
	}
}

// passNotification passes a notification to the adapter that expects it. The SDK then drops the notification.
func (c *conn) passNotification(req *jsonrpc.Request) {
	if !c.es.Awaits(req.Method) {
		return
	}
	principal, _ := c.es.Authenticate(c.ctx, extraOf(req))
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	c.es.Notified(c.ctx, port.Notification{Method: req.Method, Params: req.Params, Principal: principal, Session: session})
}

// cancelCall cancels a call immediately (PUSH-8, POLL-9). For any method, it suppresses the call's pending output and
// the SDK's later error response.
func (c *conn) cancelCall(req *jsonrpc.Request) {
	raw := member(req.Params, memberRequestID)
	if !isID(raw) {
		return
	}
	if c.lines != nil {
		if raw = c.lines.received(raw); !isPreservedID(raw) {
			req.Params = cancelOfCall(req.Params, raw)
		}
	}
	id := sdkID(raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.calls[idKey(raw)]; k != nil {
		k.gone.Store(true)
		c.removeCall(k)
		c.skipResponse(k.ID)
		return
	}
	if _, open := c.replies[id]; open && c.muted[id] == 0 { // otherwise it is cancelled already
		c.muted[id]++
	}
	if l := c.listens[id]; l != nil {
		c.dropListen(id)
		if l.held == nil {
			c.muted[id]++ // the SDK's response to the listen request is still to come
		} else {
			c.skipResponse(raw)
		}
	}
}

// skipResponse informs the underlying connection that a call will not be answered.
func (c *conn) skipResponse(id json.RawMessage) {
	if c.lines != nil {
		c.lines.closeCall(id)
	}
}

// Write writes a message from the SDK. It queues responses, because the SDK's read loop, which writes some of them,
// must not wait for the sink.
func (c *conn) Write(ctx context.Context, msg jsonrpc.Message) error {
	switch m := msg.(type) {
	case *jsonrpc.Response:
		if resp := c.rewriteResponse(m); resp != nil {
			c.out.post(func() error { return c.Connection.Write(context.Background(), resp) })
		}
		c.settleReply(m.ID)
		return nil
	case *jsonrpc.Request:
		req, acknowledged := c.rewriteNotification(m)
		return c.out.send(ctx, func() error {
			if acknowledged != nil {
				acknowledged()
			}
			return c.Connection.Write(context.Background(), req)
		})
	}
	return c.Connection.Write(ctx, msg)
}

// rewriteResponse returns the response to send to the client, or nil to suppress it.
func (c *conn) rewriteResponse(m *jsonrpc.Response) *jsonrpc.Response {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.muted[m.ID]; n > 0 {
		if c.muted[m.ID] = n - 1; n == 1 {
			delete(c.muted, m.ID)
		}
		c.skipResponse(encodeID(m.ID))
		return nil
	}
	if l := c.listens[m.ID]; l != nil {
		return c.respondListen(l, m)
	}
	if m.ID == c.initialize && m.ID.IsValid() {
		c.initialize = jsonrpc.ID{}
		c.legacy = m.Error == nil
		close(c.greeted)
		if !c.legacy {
			c.greeted = nil // the client may retry
		}
	}
	return m
}

// endCalls ends all open calls (SRV-6). It sends the final results of streams and answers listen requests.
func (c *conn) endCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return
	}
	c.ending = true
	for _, k := range c.calls {
		if k.open != nil {
			k.open.End()
		}
	}
	c.endListens()
	c.checkDrained()
}

// isClosing reports whether this side is about to close the connection. The caller must hold c.mu.
func (c *conn) isClosing() bool {
	if !c.owned || c.ending {
		return c.owned
	}
	select {
	case <-c.es.Closing():
		return true
	default:
		return false
	}
}

// cancelCalls cancels all open calls except streams.
func (c *conn) cancelCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.calls {
		if k.open == nil {
			k.cancel()
		}
	}
}

// checkDrained closes drained if the connection is ending and all calls have ended. The caller must hold c.mu.
func (c *conn) checkDrained() {
	if c.ending && len(c.calls) == 0 {
		select {
		case <-c.drained:
		default:
			close(c.drained)
		}
	}
}

// Close ends the open calls, writes the queued messages and closes the connection.
func (c *conn) Close() error { return c.shut() }
