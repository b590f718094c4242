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

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
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
		return "http " + id
	}
	return ""
}

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
	c.mu.Lock()
	if c.replies == nil {
		c.replies = map[jsonrpc.ID]func(){}
	}
	before := c.replies[req.ID] // refused by the SDK, which has that id in flight
	if before == nil {
		c.replies[req.ID] = replied
	}
	c.mu.Unlock()
	if before != nil {
		replied()
		return
	}
	req.Extra = port.WithReply(req.Extra, ticket)
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

// openListener makes a listen request known to adapters.
func (c *conn) openListener(l *listenCall) {
	if len(l.wish.keys) == 0 {
		return
	}
	principal, expires := c.es.Authenticate(c.ctx, &mcp.RequestExtra{})
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
		f()
	}
}

// serveNotification passes what is no call to the SDK and acts on it when that has accepted it: a
// cancel, or a notification for an adapter. The SDK's checks of host, session and caller come first
// that way.
func (h *handler) serveNotification(w http.ResponseWriter, r *http.Request, sdk http.Handler, session string, p *posted) {
	env := p.env
	cancels := env.method == methodCancelled && session != ""
	if !cancels && (env.method == "" || !h.es.Awaits(env.method)) {
		h.toSDK(sdk, w, r, p)
		return
	}
	principal, _ := h.caller(r)
	var key callKey
	if cancels {
		if key, cancels = h.cancelOf(p, principal, session); !cancels {
			h.toSDK(sdk, w, r, p)
			return
		}
	}
	status := &statusWriter{ResponseWriter: w}
	h.toSDK(sdk, status, r, p)
	switch {
	case status.code < 200 || status.code >= 300:
	case cancels:
		h.calls.cancel(key)
	default:
		// The request is over; what comes of the notification is not.
		h.es.Notified(context.WithoutCancel(r.Context()), port.Notification{Method: env.method, Params: env.params, Principal: principal, Session: session})
	}
}

// cancelOf returns the call that a cancel is about, and gives the SDK that call's id as it knows it:
// its alias, or one of no call where the cancel is carried out here, so that the SDK does not end the
// call before its response is muted.
func (h *handler) cancelOf(p *posted, principal, session string) (callKey, bool) {
	start, end, ok := locate(p.env.params, memberRequestID)
	if !ok || !isID(p.env.params[start:end]) {
		return callKey{}, false
	}
	id := p.env.params[start:end]
	key := newCallKey(principal, session, id)
	switch {
	case h.calls.endsHere(key):
		id = aliasValue(aliasOf(id, noCall))
	case !survives(id):
		id = aliasValue(aliasOf(id, 0))
	default:
		return key, true
	}
	if at, to, ok := locate(p.body, "params", memberRequestID); ok {
		p.body = splice(p.body, at, to, id)
		p.env.idAt = -1 // offsets no longer hold; a notification has no id
	}
	return key, true
}

// A statusWriter remembers the status of a response.
type statusWriter struct {
	http.ResponseWriter
	code int
}

func (w *statusWriter) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (w *statusWriter) Write(b []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
