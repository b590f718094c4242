package transport

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// A call is an unanswered extension call on a message-based connection.
type call struct {
	eventsCall
	conn    *conn
	sdk     jsonrpc.ID // the call's ID on connections without lines
	ctx     context.Context
	cancel  context.CancelFunc
	greeted chan struct{} // closed when the call may start; nil if it need not wait
	gone    atomic.Bool   // cancelled by the client: nothing more is written
	open    port.Stream   // nil until the stream is accepted; guarded by conn.mu
}

// acceptCall accepts an extension call, unless the SDK must reject it.
func (c *conn) acceptCall(req *jsonrpc.Request) (taken bool) {
	k := &call{conn: c, sdk: req.ID}
	k.Method, k.Params, k.CanStream = req.Method, req.Params, true
	ss := c.serverSession()
	if ss == nil {
		return false // the session belongs to another server, which may not have events
	}
	if k.extra = extraOf(req); k.extra == nil {
		k.extra = &mcp.RequestExtra{}
	}
	k.session = func(context.Context) (*mcp.ServerSession, func(), error) { return ss, func() {}, nil }
	if own, ok := req.Extra.(*lineCall); ok {
		k.ID = own.id
	}
	if k.ID == nil && !req.IsCall() {
		return false
	}
	if k.ID == nil {
		k.ID = encodeID(req.ID)
	}
	meta := metaOf(k.Params)
	modern := unquote(member(meta, mcp.MetaKeyProtocolVersion)) >= wire.RevisionStateless
	who, ok := caller{}, false
	if modern {
		who, ok = c.route.statelessCaller(meta)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !modern {
		init := ss.InitializeParams() // also covers a session that the author has restored
		k.greeted, ok = c.greeted, c.greeted != nil || init != nil
		who.declares = c.declares || declaresExtension(init)
	}
	k.Stateless, k.DeclaresExtension = modern, who.declares
	switch {
	case !ok:
		return false
	case c.calls[idKey(k.ID)] != nil:
		c.refuse(k, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: idInUse(k.ID).Error()})
	default:
		k.ctx, k.cancel = context.WithCancel(c.ctx)
		c.calls[idKey(k.ID)] = k
		if c.ending && c.owned && k.Method != wire.MethodStream {
			k.cancel() // Otherwise the server answers it: the server may be closed while this connection is not.
		}
		go k.serve()
	}
	return true
}

// extraOf returns the token and the headers of a request if its transport authenticates the caller, otherwise nil.
func extraOf(req *jsonrpc.Request) *mcp.RequestExtra {
	own, _ := req.Extra.(*mcp.RequestExtra)
	if l, ok := req.Extra.(*lineCall); ok {
		own = l.extra
	}
	if own == nil {
		return nil
	}
	return &mcp.RequestExtra{TokenInfo: own.TokenInfo, Header: own.Header}
}

// refuse answers a call with an error.
func (c *conn) refuse(k *call, err error) {
	c.out.post(func() error { return c.writeAnswer(k, nil, err) })
}

// errUninitialized is the response to a call after a failed initialize request.
var errUninitialized = &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "InvalidRequest: the session is not initialized: initialize has failed"}

// serve answers the call.
func (k *call) serve() {
	var result json.RawMessage
	err := k.waitForInitialize()
	if err == nil {
		result, err = k.conn.route.answerCall(k.ctx, &k.eventsCall)
	}
	if err == nil && k.Stream != nil {
		if result, err = k.runStream(); err != nil {
			k.discard()
			return
		}
	}
	k.finish(result, err)
}

// waitForInitialize waits until the session of a legacy call is initialized. The call may arrive before the response to
// initialize.
func (k *call) waitForInitialize() error {
	if k.greeted == nil {
		return nil
	}
	select {
	case <-k.greeted:
	case <-k.ctx.Done():
		return k.ctx.Err()
	}
	k.conn.mu.Lock()
	defer k.conn.mu.Unlock()
	if !k.conn.legacy {
		return errUninitialized
	}
	return nil
}

// runStream writes the stream of the call and returns its final result.
func (k *call) runStream() (final json.RawMessage, err error) {
	k.reply.Finish()
	k.conn.mu.Lock()
	k.open = k.Stream
	ending := k.conn.ending
	k.conn.mu.Unlock()
	if ending {
		k.open.End()
	}
	return k.open.Run(k.ctx, &lineCarrier{k})
}

// discard removes a call that will not be answered.
func (k *call) discard() {
	c := k.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if !k.gone.Load() {
		c.removeCall(k)
		c.skipResponse(k.ID)
	}
}

// finish answers the call.
func (k *call) finish(result json.RawMessage, err error) {
	c := k.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case k.gone.Load():
		k.reply.Finish()
	case err != nil && c.isClosing():
		// The error would only report the end of the connection, which the client is about to detect. The client then
		// sends the call to another server, so the call has not failed (SRV-6).
		c.removeCall(k)
		c.skipResponse(k.ID)
		k.reply.Finish()
	default:
		written := context.AfterFunc(c.ctx, k.reply.Finish) // nothing is written after that
		c.out.post(func() error {
			defer k.reply.Finish()
			defer written()
			return c.writeAnswer(k, result, err)
		})
		c.removeCall(k)
	}
}

// writeAnswer writes the response to a call. Only the outbox may call it.
func (c *conn) writeAnswer(k *call, result json.RawMessage, err error) error {
	switch {
	case c.lines == nil:
		return c.Connection.Write(context.Background(), &jsonrpc.Response{ID: k.sdk, Result: result, Error: err})
	case err != nil:
		return c.lines.writeResponse(k.ID, appendResponse(nil, k.ID, "error", errorValue(err)))
	}
	return c.lines.writeResponse(k.ID, appendResponse(nil, k.ID, "result", result))
}

// removeCall removes an answered or cancelled call. The caller must hold c.mu.
func (c *conn) removeCall(k *call) {
	delete(c.calls, idKey(k.ID))
	k.cancel()
	c.checkDrained()
}

// A lineCarrier writes the notifications of a call's stream. It implements port.Carrier.
type lineCarrier struct{ *call }

// Write writes the frames. It returns early if the stream ends, even while the sink is blocked.
func (k *lineCarrier) Write(frames []frame.Frame) error {
	c := k.conn
	if c.lines != nil {
		data := joinFrames(frames)
		return c.out.send(k.ctx, func() error {
			if k.gone.Load() {
				return nil
			}
			return c.lines.write(data)
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

// SessionID returns the session ID of the underlying connection, except during serverSession.
func (c *conn) SessionID() string {
	if id := c.probe.Load(); id != nil {
		return *id
	}
	return c.Connection.SessionID()
}

// serverSession returns the connection's session, or nil if the session belongs to another server. The SDK does not
// expose a session's connection. To identify the session, SessionID returns a unique ID during the search. Only Read
// may call serverSession.
func (c *conn) serverSession() *mcp.ServerSession {
	if c.found == nil {
		id := rand.Text()
		c.probe.Store(&id)
		defer c.probe.Store(nil)
		for ss := range c.es.MCP().Sessions() {
			if ss.ID() == id {
				c.found = ss
			}
		}
	}
	return c.found
}
