package transport

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// Limits for messages queued for one peer outside of calls. Further messages are refused, so a peer that does not read
// uses a limited amount of memory.
const (
	maxUnsent      = 1024
	maxUnsentBytes = 8 << 20
)

// methodCall is the method that clients use to call adapters' tools.
const methodCall = "tools/call"

// A listenRequest holds the parts of a listen request that the SDK does not support: list_changed for event types, and
// adapter keys.
type listenRequest struct {
	listChanged bool
	keys        []string
}

func (w listenRequest) isEmpty() bool { return !w.listChanged && len(w.keys) == 0 }

// parseListenRequest returns the parts of a listen request that es can serve.
func parseListenRequest(es *port.Port, params json.RawMessage) listenRequest {
	w := listenRequest{listChanged: requestsListChanged(params) && sendsListChanged(es)}
	if meta := member(params, "_meta"); meta != nil {
		for _, key := range es.ListenKeys() {
			if string(member(meta, key)) == "true" {
				w.keys = append(w.keys, key)
			}
		}
	}
	return w
}

// openListeners opens an outlet for each key in a listen request.
func openListeners(es *port.Port, w listenRequest, principal string, send func(port.Message) bool) (closed func()) {
	var each []func()
	for _, key := range w.keys {
		each = append(each, es.OpenOutlet(port.Outlet{Principal: principal, Key: key, Send: send}))
	}
	return func() {
		for _, f := range each {
			f()
		}
	}
}

// addSubscriptionID adds the ID of a listen request to the params of a message.
func addSubscriptionID(params, id json.RawMessage) json.RawMessage {
	if len(params) < 2 {
		params = json.RawMessage(`{}`)
	}
	member := `"_meta":{"` + wire.MetaSubscriptionID + `":` + string(id) + `}}`
	if len(params) > 2 {
		member = "," + member
	}
	return append(slices.Clone(params[:len(params)-1]), member...)
}

// messageBytes encodes a message as JSON. The id is that of the listen request, or nil for a session.
func messageBytes(m port.Message, id json.RawMessage) []byte {
	if m.Raw != nil {
		return m.Raw
	}
	params := m.Params
	if id != nil {
		params = addSubscriptionID(params, id)
	}
	return notification(m.Method, params)
}

// authenticate returns the principal of r and the time after which nothing may be sent to the principal (AUTH-4).
func (h *handler) authenticate(r *http.Request) (principal string, expires time.Time) {
	return h.es.Authenticate(r.Context(), &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header})
}

func expired(at time.Time) bool { return !at.IsZero() && !time.Now().Before(at) }

// httpSession returns the key of a request's legacy session, or "" without a session.
func httpSession(r *http.Request) string {
	if id := r.Header.Get(headerSession); id != "" {
		return sessionKey(id)
	}
	return ""
}

// sessionOf returns the key of a request's legacy session, or "" if the handler does not have sessions.
func (h *handler) sessionOf(r *http.Request) string {
	if !h.sessioned {
		return ""
	}
	return httpSession(r)
}

// sessionKey returns the key of the session with the given ID in the SDK.
func sessionKey(id string) string { return "http " + id }

// expectReply informs adapters of a call's session. The caller must call replied when the response has been written,
// which informs the adapters.
func (h *handler) expectReply(r *http.Request, session string) (replied func()) {
	gone := r.Context()
	if session != "" && h.options.EventStore != nil {
		gone = context.WithoutCancel(gone) // the client may reconnect for the response
	}
	ticket, over := h.es.ExpectReply(gone, session, "", false)
	r.Header.Set(port.ReplyHeader, ticket)
	// The SDK continues a call after its client has disconnected.
	stop := context.AfterFunc(r.Context(), over)
	return func() {
		stop()
		over()
	}
}

// send queues a message that is written between the SDK's messages. It returns false if the message cannot be queued.
func (a *announcer) send(m port.Message) bool {
	frame := sse.Message(messageBytes(m, a.id))
	a.state.Lock()
	defer a.state.Unlock()
	if a.over || expired(a.expires) || len(a.unsent) >= maxUnsent || a.unsentBytes+len(frame) > maxUnsentBytes {
		return false
	}
	a.unsent = append(a.unsent, queuedMessage{frame, m.Written})
	a.unsentBytes += len(frame)
	a.schedule()
	return true
}

// A sender queues messages from adapters for a message-based connection.
type sender struct {
	conn *conn
	id   json.RawMessage // the listen request's; nil for a session

	mu      sync.Mutex
	closed  bool
	count   int
	bytes   int
	waiting map[*queuedMessage]struct{} // messages with a callback
}

func (s *sender) send(m port.Message) bool {
	u := &queuedMessage{messageBytes(m, s.id), m.Written}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.conn.ctx.Err() != nil || s.count >= maxUnsent || s.bytes+len(u.data) > maxUnsentBytes {
		return false
	}
	s.count++
	s.bytes += len(u.data)
	if u.written != nil {
		if s.waiting == nil {
			s.waiting = map[*queuedMessage]struct{}{}
		}
		s.waiting[u] = struct{}{}
	}
	s.conn.out.post(func() error {
		s.mu.Lock()
		s.count--
		s.bytes -= len(u.data)
		closed := s.closed
		s.mu.Unlock()
		if closed {
			return nil
		}
		err := s.conn.writeRaw(u.data)
		s.mu.Lock()
		_, waits := s.waiting[u]
		delete(s.waiting, u)
		s.mu.Unlock()
		if waits {
			u.written(err == nil)
		}
		return err
	})
	return true
}

// close drops unwritten messages. A message that is being written is reported as dropped.
func (s *sender) close() {
	s.mu.Lock()
	s.closed = true
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for u := range waiting {
		u.written(false)
	}
}

// writeRaw writes a message. Only the outbox may call it.
func (c *conn) writeRaw(b []byte) error {
	if c.lines != nil {
		return c.lines.write(b)
	}
	m, err := jsonrpc.DecodeMessage(b)
	if err != nil {
		return nil // an adapter's mistake must not end the connection
	}
	return c.Connection.Write(context.Background(), m)
}

// acceptToolCall tells adapters which session the call belongs to and when its response has been written.
func (c *conn) acceptToolCall(req *jsonrpc.Request) {
	session := ""
	c.mu.Lock()
	if c.legacy {
		session = c.session
	}
	c.mu.Unlock()
	c.openOutlet()
	ticket, replied := c.es.ExpectReply(c.ctx, session, c.session, c.local)
	if !c.registerCall(req.ID, replied) {
		replied()
		return
	}
	req.Extra = port.WithReply(req.Extra, ticket)
}

// registerCall registers a call to a method that does not belong to the extension. It returns false if the ID is in
// use. The SDK then refuses the call.
func (c *conn) registerCall(id jsonrpc.ID, replied func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, open := c.replies[id]; open {
		return false
	}
	if c.replies == nil {
		c.replies = map[jsonrpc.ID]func(){}
	}
	c.replies[id] = replied
	return true
}

// settleReply records that a call was answered. Messages that adapters send from then on follow the response.
func (c *conn) settleReply(id jsonrpc.ID) {
	c.mu.Lock()
	f := c.replies[id]
	delete(c.replies, id)
	c.mu.Unlock()
	if f != nil {
		f()
	}
}

// openSession makes the legacy session available to adapters. Later calls do nothing.
func (c *conn) openSession() {
	c.mu.Lock()
	if !c.legacy || c.ready || c.ending {
		c.mu.Unlock()
		return
	}
	c.ready = true
	c.mu.Unlock()
	c.openOutlet()
}

// openOutlet makes the connection available to adapters. Later calls do nothing. In the stateless revision, adapters
// address the connection by Caller.Connection, not by a session.
func (c *conn) openOutlet() {
	c.mu.Lock()
	if c.outlet || c.ending {
		c.mu.Unlock()
		return
	}
	c.outlet = true
	s := &sender{conn: c}
	c.mu.Unlock()
	closed := c.es.OpenOutlet(port.Outlet{Session: c.session, Send: s.send})
	context.AfterFunc(c.ctx, func() {
		s.close()
		closed()
	})
}

// openListener makes a listen request available to adapters until the principal's token expires.
func (c *conn) openListener(l *listenCall, principal string, expires time.Time) {
	if len(l.wish.keys) == 0 {
		return
	}
	s := &sender{conn: c, id: l.id}
	send := func(m port.Message) bool { return !expired(expires) && s.send(m) }
	closed := openListeners(c.es, l.wish, principal, send)
	c.mu.Lock()
	gone := true
	for _, o := range c.listens {
		gone = gone && o != l
	}
	l.close = func() {
		s.close()
		closed()
	}
	c.mu.Unlock()
	if gone {
		l.close()
	}
}

// dropListen removes a listen request. The caller must hold c.mu.
func (c *conn) dropListen(id jsonrpc.ID) {
	if l := c.listens[id]; l != nil && l.close != nil {
		l.close()
	}
	delete(c.listens, id)
}

// dropSession removes the listen requests of the connection and settles its pending replies.
func (c *conn) dropSession() {
	c.mu.Lock()
	for id := range c.listens {
		c.dropListen(id)
	}
	replies := c.replies
	c.replies = nil
	c.mu.Unlock()
	for _, f := range replies {
		if f != nil {
			f()
		}
	}
}
