package transport

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// Headers that determine the routing of a request.
const (
	headerVersion     = wire.HeaderProtocolVersion
	headerMethod      = wire.HeaderMethod
	headerLastEventID = "Last-Event-Id"
	headerSession     = wire.HeaderSessionID
)

// MCP methods that this package handles.
const (
	methodListen        = "subscriptions/listen"
	methodDiscover      = "server/discover"
	methodInitialize    = "initialize"
	methodPing          = "ping"
	methodAcknowledged  = "notifications/subscriptions/acknowledged"
	methodCancelled     = "notifications/cancelled"
	methodInitialized   = "notifications/initialized"
	methodToolsList     = "tools/list"
	contentTypeJSON     = "application/json"
	defaultWriteTimeout = 30 * time.Second
)

// HandlerOptions configures a handler created by [NewHandler]. The zero value is ready to use.
type HandlerOptions struct {
	// MaxBody is the largest request body in bytes; 0 means the SDK's default of 4 MiB, negative no limit. It takes
	// precedence over Streamable.MaxRequestBodyBytes.
	MaxBody int64
	// ReadTimeout is the timeout for reading a request body; 0 means 30 seconds, negative no limit. If it expires, the
	// response is 408. A shorter ReadTimeout of the http.Server also applies to the body. Neither timeout limits how
	// long the response remains open.
	ReadTimeout time.Duration
	// WriteTimeout is the timeout for writing a batch of frames to a client; 0 means 30 seconds. If it expires, the
	// stream is aborted. See PUSH-7.
	WriteTimeout time.Duration
	// SessionTimeout is how long a legacy session may be idle before it expires. A session is idle if it has no open
	// stream, standalone GET or call. 0 means Streamable.SessionTimeout or, if that is 0, 30 minutes; negative means no
	// limit.
	SessionTimeout time.Duration
	// Origins lists the foreign origins whose web pages may call the server from a browser. Each element is
	// scheme://host, scheme://host:port, or "*" for every origin. The server's own origin is always allowed. Requests
	// from pages of other origins are refused with 403. Requests without an Origin header, which programs send, are not
	// affected. If authentication wraps the handler, wrap both in [AllowOrigins] instead.
	Origins []string
	// MaxOpen is the maximum number of open requests per principal; 0 means 4,096, negative no limit. Open requests
	// include streams, long polls, waits, listen requests and incoming bodies. For callers without a principal, the
	// limit applies to each address (for IPv6, each /64 network), and the total of all such callers is limited to 16
	// times the limit. Behind a proxy, they all have the proxy's address. Further requests are answered with 429
	// (CAP-7).
	MaxOpen int
	// MaxSessions limits legacy sessions in the same way as MaxOpen limits requests; 0 means 1,024. Beyond the limit, a
	// new session replaces the session that has been idle longest, and first of all a session that was only
	// initialized. If no session is idle, the response is 429.
	MaxSessions int
	// Streamable is passed to the SDK's handlers. JSONResponse is ignored, because this package chooses the form of
	// each response. If Stateless is set, legacy revisions have neither sessions nor list_changed.
	Streamable *mcp.StreamableHTTPOptions
	// Logger logs errors that cannot be sent to a client; nil means slog.Default().
	Logger *slog.Logger
}

// A handler dispatches requests to this package or to one of the SDK's two handlers.
type handler struct {
	srv          *mcp.Server
	es           *port.Port
	legacy       http.Handler // revisions that start with initialize
	stateless    http.Handler // 2026-07-28 and later
	route        *dispatcher
	options      *mcp.StreamableHTTPOptions
	gate         *gate
	maxBody      int64         // negative: no limit
	readTimeout  time.Duration // negative: no limit
	writeTimeout time.Duration
	calls        callRegistry
	sessions     *sessionTable
	open         *openCount // requests
	sessioned    bool       // legacy revisions have sessions
	log          *slog.Logger

	mu        sync.Mutex
	listeners map[*announcer]struct{} // open responses that send list_changed
}

// NewHandler returns a handler that serves MCP over Streamable HTTP on one URL. It serves the events of es and all
// other features of its mcp.Server, for all protocol revisions. Requests with Mcp-Protocol-Version 2026-07-28 or later
// are stateless. All others belong to legacy sessions. JSON-RPC batches, which only revision 2025-03-26 has, are
// refused. Wrap the handler in authentication as you would the SDK's handler. The same checks and middleware apply to
// events/stream as to every other method (PUSH-11). See D4.
//
// All streams end when es is shut down. For a graceful shutdown, register its Shutdown method:
//
//	httpServer.RegisterOnShutdown(func() { es.Shutdown(ctx) })
//
// The handler refuses events/stream if the response writer cannot flush. HTTP/2 servers of the standard library allow
// 250 concurrent requests per connection. To support clients with more streams, increase
// http.HTTP2Config.MaxConcurrentStreams.
func NewHandler(es *server.Server, o HandlerOptions) http.Handler {
	inside := port.Of(es)
	srv := inside.MCP()
	if srv == nil {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			inbound.Deadline(w, r, defaultReadTimeout)
			http.Error(w, errEmitOnly.Error(), http.StatusNotImplemented)
		})
	}
	var base mcp.StreamableHTTPOptions
	if o.Streamable != nil {
		base = *o.Streamable
	}
	base.JSONResponse = false
	if o.MaxBody != 0 {
		base.MaxRequestBodyBytes = o.MaxBody
	}
	if base.MaxRequestBodyBytes == 0 {
		base.MaxRequestBodyBytes = mcp.DefaultMaxRequestBodyBytes
	}
	sessionTimeout := cmp.Or(o.SessionTimeout, base.SessionTimeout, defaultSessionTimeout)
	base.SessionTimeout = 0 // the SDK's timeout would end sessions with open streams
	modern := base
	modern.Stateless = true
	modern.EventStore = nil

	get := func(*http.Request) *mcp.Server { return srv }
	h := &handler{
		srv:       srv,
		es:        inside,
		route:     newDispatcher(inside),
		legacy:    mcp.NewStreamableHTTPHandler(get, &base),
		stateless: mcp.NewStreamableHTTPHandler(get, &modern),
		options:   &base,
		//lint:ignore SA1019 honoured here for as long as the SDK honours it
		gate:         newGate("HandlerOptions.Origins", o.Origins, base.CrossOriginProtection),
		maxBody:      base.MaxRequestBodyBytes,
		readTimeout:  o.ReadTimeout,
		writeTimeout: o.WriteTimeout,
		log:          o.Logger,
		listeners:    map[*announcer]struct{}{},
		sessioned:    !base.Stateless,
		open:         newOpenCount(cmp.Or(o.MaxOpen, defaultMaxOpen)),
		sessions:     newSessions(sessionTimeout, cmp.Or(o.MaxSessions, defaultMaxSessions), inside.EndSession),
	}
	if h.readTimeout == 0 {
		h.readTimeout = defaultReadTimeout
	}
	if h.writeTimeout <= 0 {
		h.writeTimeout = defaultWriteTimeout
	}
	if h.log == nil {
		h.log = slog.Default()
	}
	if limit, ok := descriptorLimit(); ok {
		if said := descriptorWarning(limit, h.open.max); said != "" {
			h.log.Warn(said)
		}
	}
	inside.SetListChanged(!base.Stateless, true)
	inside.OnListChanged(h.announce)
	return h
}

// ServeHTTP routes a request by protocol revision and method.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	inbound.Deadline(w, r, h.readTimeout)
	w = &unbufferedWriter{ResponseWriter: w}
	if !h.gate.admit(w, r) {
		return
	}
	if leave, ok := h.Reserve(w, r); ok {
		defer leave()
		h.serve(w, r)
	}
}

// serve routes a request that was admitted and reserved.
func (h *handler) serve(w http.ResponseWriter, r *http.Request) {
	r.Header.Del(port.ReplyHeader) // only this package may set it
	modern := r.Header.Get(headerVersion) >= wire.RevisionStateless
	if id := r.Header.Get(headerSession); id != "" && !modern && h.sessioned {
		defer h.sessions.registerRequest(id, r.Method)()
	}
	switch {
	case r.Method == http.MethodPost && modern:
		h.servePOST(w, r, nil)
	case r.Method == http.MethodPost:
		h.serveLegacyPOST(w, r, nil)
	case modern:
		h.stateless.ServeHTTP(w, r)
	case r.Method == http.MethodGet:
		h.serveGET(w, r)
	case r.Method == http.MethodDelete && h.sessioned:
		// The SDK ends a session only after its calls have ended.
		principal, _ := h.authenticate(r)
		defer h.es.EndSession(httpSession(r), principal)()
		h.legacy.ServeHTTP(w, r)
	default:
		h.legacy.ServeHTTP(w, r)
	}
}

// servePOST serves POST requests of the stateless revision. It routes by the Mcp-Method header. If the body has a
// different method, the SDK refuses the request. The guest is nil if the request came to this server.
func (h *handler) servePOST(w http.ResponseWriter, r *http.Request, g *port.Guest) {
	p, ok := h.readPOST(w, r, h.stateless, true)
	if !ok {
		return
	}
	method := r.Header.Get(headerMethod)
	if g != nil && !strings.HasPrefix(method, wire.MethodPrefix) {
		r = r.WithContext(g.Context)
	}
	switch {
	case p.env.method == method && h.handlesNotification("", p.env):
		h.serveNotification(w, r, h.stateless, "", p)
	case method == methodListen:
		h.serveListen(w, r, p, nil)
	case !strings.HasPrefix(method, wire.MethodPrefix):
		defer h.expectReply(r, "")()
		h.passToSDK(h.stateless, w, r, p)
	default:
		h.serveModernEvents(w, r, p, g)
	}
}

// serveLegacyPOST serves POST requests of legacy revisions. They have no Mcp-Method header, so it routes by the body.
func (h *handler) serveLegacyPOST(w http.ResponseWriter, r *http.Request, g *port.Guest) {
	p, ok := h.readPOST(w, r, h.legacy, false)
	if !ok {
		return
	}
	if p.isStateless() {
		// The body belongs to the stateless revision, but the header is missing or differs. Only the stateless handler
		// reports that.
		h.passToSDK(h.stateless, w, r, p)
		return
	}
	session := h.sessionOf(r)
	if g != nil {
		session = g.Session
		if !isEvents(p.env.method) {
			r = r.WithContext(g.Context)
		}
	}
	principal, _ := h.authenticate(r)
	switch {
	case h.handlesNotification(session, p.env):
		h.serveNotification(w, r, h.legacy, session, p)
		return
	case session == "" || !p.env.isCall():
		h.serveLegacy(w, r, p, nil, g)
		return
	}
	call := &liveCall{key: newCallKey(principal, session, p.env.id), id: p.env.id, sdk: !isEvents(p.env.method)}
	if p.env.method == methodInitialize {
		call.stays = true
	} else {
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		r, call.stop = r.WithContext(ctx), stop
	}
	if !h.calls.register(call) {
		refuseMalformed(w, idInUse(p.env.id), false)
		return
	}
	defer h.calls.unregister(call)
	if call.gone.Load() {
		writeEmptyStream(w)
		return
	}
	h.serveLegacy(w, r, p, call, g)
}

func idInUse(id json.RawMessage) *malformedError {
	return &malformedError{code: jsonrpc.CodeInvalidRequest, id: id, reason: "/id is in use by an unanswered request"}
}

// serveLegacy serves a message of a legacy revision. The call is nil outside a session and for a notification.
func (h *handler) serveLegacy(w http.ResponseWriter, r *http.Request, p *postBody, call *liveCall, g *port.Guest) {
	if isEvents(p.env.method) && p.env.isCall() && (call != nil || !h.sessioned) {
		h.serveLegacyEvents(w, r, p, call, g)
		return
	}
	if !isEvents(p.env.method) {
		defer h.expectReply(r, h.sessionOf(r))()
	}
	if call != nil {
		w = &muteWriter{w, call}
	}
	if h.sessioned && httpSession(r) == "" && p.env.isCall() && p.env.method == methodInitialize {
		h.serveInitialize(w, r, p)
		return
	}
	h.passToSDK(h.legacy, w, r, p)
}
