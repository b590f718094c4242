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
)

// Bounds of what waits for one peer outside of any call. What comes beyond is refused, so that a
// peer that reads nothing costs no more than this.
const (
	maxUnsent      = 1024
	maxUnsentBytes = 8 << 20
)

// methodCall is the call by which clients reach the tools of adapters.
const methodCall = "tools/call"

// A wish is what a listen request asks for beyond the SDK's kinds: list_changed of event types, and
// the messages of adapters by their keys.
type wish struct {
	listChanged bool
	keys        []string
}

func (w wish) none() bool { return !w.listChanged && len(w.keys) == 0 }

// wishes reads what a listen request asks for of what es has to offer.
func wishes(es *port.Port, params json.RawMessage) wish {
	w := wish{listChanged: asksListChanged(params) && sendsListChanged(es)}
	if meta := member(params, "_meta"); meta != nil {
		for _, key := range es.ListenKeys() {
			if string(member(meta, key)) == "true" {
				w.keys = append(w.keys, key)
			}
		}
	}
	return w
}

// openListeners makes a listen request known to adapters under each of its keys.
func openListeners(es *port.Port, w wish, principal string, send func(port.Message) bool) (closed func()) {
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

// label adds the id of a listen request to the params of a message that goes out on it, as
// everything on it carries it.
func label(params, id json.RawMessage) json.RawMessage {
	if len(params) < 2 {
		params = json.RawMessage(`{}`)
	}
	member := `"_meta":{"` + wire.MetaSubscriptionID + `":` + string(id) + `}}`
	if len(params) > 2 {
		member = "," + member
	}
	return append(slices.Clone(params[:len(params)-1]), member...)
}

// messageBytes is a message as JSON; id is the listen request's, nil for a session.
func messageBytes(m port.Message, id json.RawMessage) []byte {
	if m.Raw != nil {
		return m.Raw
	}
	params := m.Params
	if id != nil {
		params = label(params, id)
	}
	return notification(m.Method, params)
}

// caller tells whose a response to r is, and from when on nothing more may be sent on it (AUTH-4).
func (h *handler) caller(r *http.Request) (principal string, expires time.Time) {
	return h.es.Authenticate(r.Context(), &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header})
}

func expired(at time.Time) bool { return !at.IsZero() && !time.Now().Before(at) }

// httpSession is the key of a legacy session.
func httpSession(r *http.Request) string {
	if id := r.Header.Get(headerSession); id != "" {
		return sessionKey(id)
	}
	return ""
}

// sessionKey is the key of the session that the SDK knows by an id.
func sessionKey(id string) string { return "http " + id }

// expectReply lets adapters know which session a call comes by and when its reply is written.
func (h *handler) expectReply(r *http.Request, session string) (replied func()) {
	gone := r.Context()
	if session != "" && h.options.EventStore != nil {
		gone = context.WithoutCancel(gone) // the client may come back for the answer
	}
	ticket, over := h.es.ExpectReply(gone, session, "", false)
	r.Header.Set(port.ReplyHeader, ticket)
	// The SDK goes on with a call whose client has gone away.
	stop := context.AfterFunc(r.Context(), over)
	return func() {
		stop()
		over()
	}
}

// send queues a message for the response, between the SDK's own.
func (a *announcer) send(m port.Message) bool {
	frame := asEvent(messageBytes(m, a.id))
	a.state.Lock()
	defer a.state.Unlock()
	if a.over || expired(a.expires) || len(a.unsent) >= maxUnsent || a.unsentBytes+len(frame) > maxUnsentBytes {
		return false
	}
	a.unsent = append(a.unsent, unsent{frame, m.Written})
	a.unsentBytes += len(frame)
	if !a.busy {
		a.busy = true
		go a.settle()
	}
	return true
}

// A sender queues messages of adapters for a message-based connection.
type sender struct {
	conn *conn
	id   json.RawMessage // of the listen request, nil for a session

	mu      sync.Mutex
	closed  bool
	count   int
	bytes   int
	waiting map[*unsent]struct{} // whose adapter wants to know
}

func (s *sender) send(m port.Message) bool {
	u := &unsent{messageBytes(m, s.id), m.Written}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.conn.ctx.Err() != nil || s.count >= maxUnsent || s.bytes+len(u.data) > maxUnsentBytes {
		return false
	}
	s.count++
	s.bytes += len(u.data)
	if u.written != nil {
		if s.waiting == nil {
			s.waiting = map[*unsent]struct{}{}
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

// close gives up what is not written. A message that is being written counts as given up.
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

// writeRaw writes one message from within the outbox.
func (c *conn) writeRaw(b []byte) error {
	if c.plain {
		return c.writeLine(b)
	}
	m, err := jsonrpc.DecodeMessage(b)
	if err != nil {
		return nil // an adapter's mistake is not the connection's
	}
	return c.Connection.Write(context.Background(), m)
}

// acceptToolCall lets adapters know which session the call comes by and when it was answered.
func (c *conn) acceptToolCall(req *jsonrpc.Request) {
	session := ""
	c.mu.Lock()
	if c.legacy {
		session = c.session
	}
	c.mu.Unlock()
	c.openOutlet()
	ticket, replied := c.es.ExpectReply(c.ctx, session, c.session, c.local)
	if !c.expectReply(req.ID, replied) {
		replied()
		return
	}
	req.Extra = port.WithReply(req.Extra, ticket)
}

// expectReply notes a call of a method that is not the extension's. It is false for an id that is in flight, which the
// SDK refuses.
func (c *conn) expectReply(id jsonrpc.ID, replied func()) bool {
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

// replied tells that the call is answered: what adapters send from now on comes after it.
func (c *conn) replied(id jsonrpc.ID) {
	c.mu.Lock()
	f := c.replies[id]
	delete(c.replies, id)
	c.mu.Unlock()
	if f != nil {
		f()
	}
}

// openSession makes the legacy session known to adapters, once.
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

// openOutlet makes the connection reachable for adapters, once. In the stateless era that is for
// who was called by it (Caller.Connection), not for a session.
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

// openListener makes a listen request of the principal known to adapters, until its token expires.
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

// dropListen forgets a listen request. c.mu is held.
func (c *conn) dropListen(id jsonrpc.ID) {
	if l := c.listens[id]; l != nil && l.close != nil {
		l.close()
	}
	delete(c.listens, id)
}

// dropSession ends what adapters know of the connection.
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
