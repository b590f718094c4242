package transport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// A conn stands between the SDK's session and a message-based connection. It hands out tickets for
// calls of the extension, writes the notifications of their streams, keeps silent about calls that
// the client has cancelled, and tells of list_changed.
type conn struct {
	mcp.Connection
	es    *port.Port
	lines *lineConn // below Connection; nil when it is some other kind
	plain bool      // Connection is lines itself
	out   *outbox

	ctx    context.Context // ends when the peer is gone or the connection is closed
	hangUp context.CancelFunc
	quiet  func() // ends the announcements
	shut   func() error

	mu         sync.Mutex
	calls      map[jsonrpc.ID]*call // of the extension, unanswered
	muted      map[jsonrpc.ID]int   // responses that the SDK still gives and nobody may see
	listens    map[jsonrpc.ID]*listenCall
	initialize jsonrpc.ID            // the id of a legacy initialize request
	legacy     bool                  // it was answered
	ready      bool                  // and the client knows
	session    string                // its key, for adapters
	outlet     bool                  // adapters can reach it
	local      bool                  // the peer is the process that started this one, or this one
	owned      bool                  // by Run, which closes the connection when the server is shut down
	replies    map[jsonrpc.ID]func() // of calls of other methods, unanswered; told of their end where not nil
	announcing bool                  // list_changed is on its way to a legacy client
	ending     bool
	drained    chan struct{} // closed when ending and no call is left
}

// A call is one unanswered events/* call.
type call struct {
	conn    *conn
	key     jsonrpc.ID
	id      json.RawMessage
	ctx     context.Context
	cancel  context.CancelFunc
	release func()
	gone    atomic.Bool // cancelled by the client: nothing more is written
	stream  port.Stream // nil until open; guarded by conn.mu
}

func newConn(es *port.Port, inner mcp.Connection, lines *lineConn) *conn {
	c := &conn{Connection: inner, es: es, lines: lines, plain: mcp.Connection(lines) == inner,
		calls: map[jsonrpc.ID]*call{}, muted: map[jsonrpc.ID]int{}, listens: map[jsonrpc.ID]*listenCall{},
		drained: make(chan struct{}), session: "conn " + rand.Text()}
	c.ctx, c.hangUp = context.WithCancel(context.Background())
	c.out = newOutbox(func(error) {
		c.hangUp()
		_ = inner.Close() // the reading side then ends the session
	})
	c.quiet = es.OnListChanged(c.announce)
	c.shut = sync.OnceValue(func() error {
		c.quiet()
		c.end()
		c.out.close()
		c.hangUp()
		c.dropSession()
		return inner.Close()
	})
	go func() {
		select {
		case <-es.Closing():
			c.end()
		case <-c.ctx.Done():
		}
	}()
	return c
}

// Read returns the next message for the SDK's session. A line that is none is answered here.
func (c *conn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if bad := (*lineError)(nil); errors.As(err, &bad) {
			c.out.post(func() error { return c.writeLine(bad.response()) })
			continue
		}
		if err != nil {
			c.hangUp()
			return nil, err
		}
		if req, ok := msg.(*jsonrpc.Request); ok {
			c.accept(req)
		}
		return msg, nil
	}
}

// writeLine writes a message that is bytes already, from within the outbox.
func (c *conn) writeLine(data []byte) error {
	_, err := c.lines.w.Write(append(data[:len(data):len(data)], '\n'))
	return err
}

func (c *conn) accept(req *jsonrpc.Request) {
	switch {
	case req.Method == methodCancelled:
		c.cancelled(req.Params)
	case req.Method == methodInitialized:
		c.openSession()
	case !req.IsCall():
		c.notified(req)
	case req.Method == methodCall:
		c.acceptToolCall(req)
	case req.Method == methodInitialize:
		c.mu.Lock()
		c.initialize = req.ID
		c.mu.Unlock()
	case req.Method == methodListen:
		c.acceptListen(req)
	case strings.HasPrefix(req.Method, wire.MethodPrefix):
		c.acceptCall(req)
	default:
		c.expectReply(req.ID, nil)
	}
}

// notified hands a notification to the adapter that waits for it; the SDK drops it afterwards.
func (c *conn) notified(req *jsonrpc.Request) {
	if !c.es.Awaits(req.Method) {
		return
	}
	principal, _ := c.es.Authenticate(c.ctx, nil)
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	c.es.Notified(c.ctx, port.Notification{Method: req.Method, Params: req.Params, Principal: principal, Session: session})
}

// rawID returns the bytes of a call's id, and whether the call came in a batch.
func (c *conn) rawID(id jsonrpc.ID) (raw json.RawMessage, batched bool) {
	if c.lines != nil {
		return c.lines.idOf(id)
	}
	return rawOf(id), false
}

// acceptCall gives a call of the extension its ticket. The ticket is in the request's Extra, which
// never travels, so that no peer can forge one. A stream within a batch gets none: its frames
// would come before the response that the batch owes.
func (c *conn) acceptCall(req *jsonrpc.Request) {
	raw, batched := c.rawID(req.ID)
	streams := req.Method == wire.MethodStream
	if streams && batched {
		return
	}
	k := &call{conn: c, key: req.ID, id: raw}
	k.ctx, k.cancel = context.WithCancel(c.ctx)
	c.mu.Lock()
	if c.calls[req.ID] != nil {
		c.mu.Unlock()
		k.cancel()
		return // refused by the SDK, which has that id in flight
	}
	c.calls[req.ID] = k
	if c.ending && c.owned && !streams {
		k.cancel() // Otherwise the server answers it: it may be closed, this connection is not.
	}
	c.mu.Unlock()
	var ticket string
	if streams {
		ticket, k.release = c.es.Issue(k.ctx, raw, k.run)
	} else {
		ticket, k.release = c.es.Issue(k.ctx, raw, nil)
	}
	made := &mcp.RequestExtra{Header: http.Header{port.TicketHeader: {ticket}}}
	if own, ok := req.Extra.(*mcp.RequestExtra); ok && own != nil {
		made.TokenInfo = own.TokenInfo // of a transport that authenticates by itself
	}
	req.Extra = made
}

// run carries the stream of a call. It is called by the method's handler, whose own result nobody
// sees: the SDK would drop it when the session is about to close, and add to it otherwise (D9).
func (k *call) run(ctx context.Context, _ *mcp.ServerSession, st port.Stream) (json.RawMessage, error) {
	k.conn.mu.Lock()
	k.stream = st
	ending := k.conn.ending
	k.conn.mu.Unlock()
	if ending {
		st.End()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(k.ctx, cancel)()
	final, err := st.Run(ctx, &lineCarrier{k, ctx})
	if err != nil {
		return nil, err
	}
	k.finish(final)
	return json.RawMessage(`{}`), nil
}

// finish answers the call with its stream's result.
func (k *call) finish(final json.RawMessage) {
	c := k.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.gone.Load() {
		return
	}
	c.muted[k.key]++
	resp := &jsonrpc.Response{ID: k.key, Result: final}
	c.out.post(func() error { return c.Connection.Write(context.Background(), resp) })
	c.settle(k)
}

// A lineCarrier writes the notifications of one call's stream. It is a port.Carrier.
type lineCarrier struct {
	*call
	ctx context.Context
}

// Write returns when the frames are written, or when the stream is over even if the sink is stuck.
func (k *lineCarrier) Write(frames []frame.Frame) error {
	c := k.conn
	if c.plain {
		data := joinFrames(frames)
		return c.out.send(k.ctx, func() error {
			if k.gone.Load() {
				return nil
			}
			_, err := c.lines.w.Write(data)
			return err
		})
	}
	msgs := make([]jsonrpc.Request, len(frames))
	for i, f := range frames {
		msgs[i] = jsonrpc.Request{Method: f.Method(), Params: f.Params()}
	}
	return c.out.send(k.ctx, func() error {
		for i := range msgs {
			if k.gone.Load() {
				return nil
			}
			if err := c.Connection.Write(context.Background(), &msgs[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// cancelled ends a call at once (PUSH-8, POLL-9): what it was about to write is dropped, and so is
// the error that the SDK answers later, whatever was called.
func (c *conn) cancelled(params json.RawMessage) {
	id := sdkID(member(params, memberRequestID))
	if !id.IsValid() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.calls[id]; k != nil {
		k.gone.Store(true)
		c.muted[id]++
		c.settle(k)
	}
	if _, open := c.replies[id]; open && c.muted[id] == 0 { // else it is cancelled already
		c.muted[id]++
	}
	if l := c.listens[id]; l != nil {
		c.dropListen(id)
		if l.held == nil {
			c.muted[id]++ // the SDK's answer to a listen request is to come
		} else {
			c.skip(id)
		}
	}
}

// settle forgets an answered or cancelled call. c.mu is held.
func (c *conn) settle(k *call) {
	delete(c.calls, k.key)
	k.cancel()
	if k.release != nil {
		k.release()
	}
	c.checkDrained()
}

// skip tells the connection below that a call stays without an answer.
func (c *conn) skip(id jsonrpc.ID) {
	if c.lines != nil {
		c.out.post(func() error { return c.lines.skip(id) })
	}
}

// Write writes a message of the SDK's. Responses are queued, so that the SDK's reading loop, which
// writes some of them itself, never waits for the sink.
func (c *conn) Write(ctx context.Context, msg jsonrpc.Message) error {
	switch m := msg.(type) {
	case *jsonrpc.Response:
		resp, written := c.respond(m)
		if resp != nil {
			c.out.post(func() error {
				defer written()
				return c.Connection.Write(context.Background(), resp)
			})
		}
		c.replied(m.ID)
		return nil
	case *jsonrpc.Request:
		req, acknowledged := c.notify(m)
		return c.out.send(ctx, func() error {
			if acknowledged != nil {
				acknowledged()
			}
			return c.Connection.Write(context.Background(), req)
		})
	}
	return c.Connection.Write(ctx, msg)
}

// respond returns the response as the client gets it, or nil when it gets none, and what to call when
// it is written.
func (c *conn) respond(m *jsonrpc.Response) (resp *jsonrpc.Response, written func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.muted[m.ID]; n > 0 {
		if c.muted[m.ID] = n - 1; n == 1 {
			delete(c.muted, m.ID)
		}
		c.skip(m.ID)
		return nil, nil
	}
	if k := c.calls[m.ID]; k != nil && m.Error != nil && c.parting() {
		// The error tells of the end only, which the client is to see by the connection's: its call
		// goes to the next server, and is none that failed (SRV-6).
		c.settle(k)
		c.skip(m.ID)
		return nil, nil
	} else if k != nil {
		// The ticket lasts until the answer is written, or until nobody writes any more.
		over := k.release
		k.release = nil
		c.settle(k)
		stop := context.AfterFunc(c.ctx, over)
		return m, func() { stop(); over() }
	}
	if l := c.listens[m.ID]; l != nil {
		return c.respondListen(l, m), func() {}
	}
	if m.ID == c.initialize && m.ID.IsValid() && m.Error == nil {
		c.legacy = true
		if c.lines != nil {
			c.lines.negotiated(text(member(m.Result, "protocolVersion")))
		}
	}
	return m, func() {}
}

// end lets everything that is held open finish (SRV-6): streams get their final result, held calls
// return, listen requests are answered.
func (c *conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return
	}
	c.ending = true
	for _, k := range c.calls {
		if k.stream != nil {
			k.stream.End()
		}
	}
	c.endListens()
	c.checkDrained()
}

// parting reports whether the connection is about to be closed from this side. c.mu is held.
func (c *conn) parting() bool {
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

// interrupt cancels the held calls that are no streams.
func (c *conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.calls {
		if k.stream == nil {
			k.cancel()
		}
	}
}

// checkDrained reports to who waits for it that no call is left. c.mu is held.
func (c *conn) checkDrained() {
	if c.ending && len(c.calls) == 0 {
		select {
		case <-c.drained:
		default:
			close(c.drained)
		}
	}
}

// Close ends what is held open, writes what is queued and closes the connection.
func (c *conn) Close() error { return c.shut() }
