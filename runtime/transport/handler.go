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

// Headers that decide where a request goes.
const (
	headerVersion     = wire.HeaderProtocolVersion
	headerMethod      = wire.HeaderMethod
	headerLastEventID = "Last-Event-Id"
	headerSession     = wire.HeaderSessionID
)

// Methods of MCP itself that this package has to recognize.
const (
	methodListen        = "subscriptions/listen"
	methodDiscover      = "server/discover"
	methodInitialize    = "initialize"
	methodPing          = "ping"
	methodAcknowledged  = "notifications/subscriptions/acknowledged"
	methodCancelled     = "notifications/cancelled"
	methodInitialized   = "notifications/initialized"
	contentTypeJSON     = "application/json"
	contentTypeEvents   = "text/event-stream"
	defaultWriteTimeout = 30 * time.Second
)

// HandlerOptions configure [NewHandler]; the zero value is ready to use.
type HandlerOptions struct {
	// Direct answers events/list and events/poll of revision 2026-07-28 without going through the
	// SDK's handler, as application/json and several times faster. Requests and answers are the
	// same, but receiving middleware that the author added to the SDK's server does not see them.
	// The first one makes the SDK answer a server/discover, to learn what it adds to results.
	Direct bool
	// MaxBody is the largest request body in bytes; 0 means the SDK's default of 4 MiB and a
	// negative value no limit. It wins over Streamable.MaxRequestBodyBytes.
	MaxBody int64
	// ReadTimeout is how long the body of a request may take to arrive; what the request then holds
	// open is not bounded by it, nor by a ReadTimeout of the http.Server. 0 means 30 seconds and a
	// negative value no bound. Later bytes are answered with 408. A shorter ReadTimeout of the
	// http.Server stays in force for the body.
	ReadTimeout time.Duration
	// WriteTimeout is how long one batch of frames may take to reach a client before its stream
	// is cut; 0 means 30 seconds. See PUSH-7.
	WriteTimeout time.Duration
	// SessionTimeout ends a legacy session that has had no open request for so long: no stream, no standing GET
	// and no call. 0 means Streamable.SessionTimeout or, without one, 30 minutes; a negative value means never.
	SessionTimeout time.Duration
	// Origins are those whose web pages may call the server from a browser, beside the server's own: each as
	// scheme://host or scheme://host:port, or "*" for every origin. Pages of all others are refused with 403; requests
	// without an Origin, as programs send them, are not concerned. Behind authentication use [AllowOrigins] around it.
	Origins []string
	// MaxOpen is how many requests of one principal may be open at once: streams, held polls, waits, listen
	// requests, and bodies that are on their way. 0 means 4,096 and a negative value no bound. Callers without
	// a principal have as many for each address (of IPv6 the network of 64 bits), and 16 times as many all
	// together. More are answered with 429 (CAP-7). If a proxy stands in front, all of them have its address.
	MaxOpen int
	// MaxSessions is the same for sessions of the legacy revisions; 0 means 1,024. If a new session has no place,
	// the longest idle one ends in its favour; only if all have an open request, the answer is 429.
	MaxSessions int
	// Streamable is passed on to the SDK's handlers. JSONResponse is ignored: which form an answer
	// has is decided here. Stateless makes the legacy revisions sessionless too, which costs them
	// list_changed.
	Streamable *mcp.StreamableHTTPOptions
	// Logger reports what a client cannot be told; nil means slog.Default.
	Logger *slog.Logger
}

// handler is the front before the SDK's two handlers.
type handler struct {
	srv          *mcp.Server
	es           *port.Port
	legacy       http.Handler // revisions that begin with initialize
	stateless    http.Handler // 2026-07-28 and later
	direct       *direct      // nil unless HandlerOptions.Direct
	options      *mcp.StreamableHTTPOptions
	gate         *gate
	maxBody      int64         // negative: no limit
	readTimeout  time.Duration // negative: no limit
	writeTimeout time.Duration
	calls        calls
	callers      callers // of the stateless revision
	sessions     *sessions
	open         *openCount // requests
	sessioned    bool       // legacy revisions have sessions
	log          *slog.Logger

	mu        sync.Mutex
	listeners map[*announcer]struct{} // open responses that carry list_changed
}

// NewHandler serves MCP over Streamable HTTP: the events of es and whatever else its mcp.Server has, on one URL
// for all protocol revisions: requests whose Mcp-Protocol-Version is 2026-07-28 or later are stateless, all
// others belong to legacy sessions. Authentication goes around it, as around the SDK's handler, and
// events/stream runs through the same checks and middleware as every other method (PUSH-11). See D4.
//
// All streams end when es is shut down, so a server that stops gracefully registers it:
//
//	httpServer.RegisterOnShutdown(func() { es.Shutdown(ctx) })
//
// A response writer that cannot flush is refused the method events/stream. HTTP/2 servers of the
// standard library allow 250 requests a connection; clients with more streams than that need a
// larger http.HTTP2Config.MaxConcurrentStreams.
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
	base.SessionTimeout = 0 // the SDK's would end sessions with open streams
	modern := base
	modern.Stateless = true
	modern.EventStore = nil

	get := func(*http.Request) *mcp.Server { return srv }
	h := &handler{
		srv:       srv,
		es:        inside,
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
	if o.Direct {
		h.direct = newDirect(inside, h.stateless, &h.callers)
	}
	inside.SetListChanged(!base.Stateless, true)
	inside.OnListChanged(h.announce)
	return h
}

// ServeHTTP routes by protocol revision and method.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	inbound.Deadline(w, r, h.readTimeout)
	w = &promptWriter{ResponseWriter: w}
	if !h.gate.admits(w, r) {
		return
	}
	principal, _ := h.caller(r)
	who := payerOf(principal, r)
	if !h.open.enter(w, who, "requests") {
		return
	}
	defer h.open.leave(who)
	r.Header.Del(port.TicketHeader) // only this package may hand out tickets
	r.Header.Del(port.ReplyHeader)
	modern := r.Header.Get(headerVersion) >= wire.RevisionStateless
	if id := r.Header.Get(headerSession); id != "" && !modern && h.sessioned {
		defer h.sessions.enter(id)()
	}
	switch {
	case r.Method == http.MethodPost && modern:
		h.servePOST(w, r)
	case r.Method == http.MethodPost:
		h.serveLegacyPOST(w, r)
	case modern:
		h.stateless.ServeHTTP(w, r)
	case r.Method == http.MethodGet:
		h.serveGET(w, r)
	case r.Method == http.MethodDelete && h.sessioned:
		// The SDK ends a session only when its calls are over.
		principal, _ := h.caller(r)
		defer h.es.EndSession(httpSession(r), principal)()
		h.legacy.ServeHTTP(w, r)
	default:
		h.legacy.ServeHTTP(w, r)
	}
}

// servePOST serves the stateless revision. The Mcp-Method header decides, since the SDK refuses a
// request whose body says something else.
func (h *handler) servePOST(w http.ResponseWriter, r *http.Request) {
	p, ok := h.readPOST(w, r, h.stateless, true)
	if !ok {
		return
	}
	method := r.Header.Get(headerMethod)
	if p.env.method == method {
		if deeds := h.standIns(r, "", p); deeds != nil {
			c := r.Clone(r.Context())
			c.Header.Set(headerMethod, methodCancelled)
			accepted := &acceptance{w, deeds}
			h.toSDK(h.stateless, accepted, c, p)
			accepted.judged(http.StatusOK) // with nothing written
			return
		}
	}
	switch {
	case method == methodListen:
		h.serveListen(w, r, p)
	case !strings.HasPrefix(method, wire.MethodPrefix):
		defer h.expectReply(r, "")()
		h.toSDK(h.stateless, w, r, p)
	case p.env.method != method:
		h.toSDK(h.stateless, w, r, p) // refused there, with the SDK's reason
	case method == wire.MethodStream:
		h.serveStream(w, r, h.stateless, p, nil)
	case h.direct != nil && h.direct.serve(w, r, p.env):
	case canFlush(w) && h.lonely(r, p.env):
		ticket, release := h.es.Issue(r.Context(), p.env.id, nil)
		defer release()
		c := r.Clone(r.Context())
		c.Header.Set(port.TicketHeader, ticket)
		h.serveLone(w, c, p.env)
	default:
		h.serveCall(w, r, h.stateless, p)
	}
}

// serveLegacyPOST serves revisions without the Mcp-Method header, so it has to look at the body.
func (h *handler) serveLegacyPOST(w http.ResponseWriter, r *http.Request) {
	p, ok := h.readPOST(w, r, h.legacy, false)
	if !ok {
		return
	}
	if p.modern() {
		// The body is of the stateless revision and the header is missing or differs. Only the
		// stateless handler says so.
		h.toSDK(h.stateless, w, r, p)
		return
	}
	session := ""
	if h.sessioned {
		session = httpSession(r)
	}
	defer h.expectReply(r, session)()
	accepted := &acceptance{w, h.standIns(r, session, p)}
	if accepted.deeds != nil {
		defer accepted.judged(http.StatusOK) // with nothing written
		w = accepted
	}
	principal, _ := h.caller(r)
	switch {
	case session != "" && p.batch != nil:
		h.serveBatch(w, r, p, principal, session, accepted)
		return
	case session == "" || !p.env.isCall():
		h.serveLegacy(w, r, p, nil)
		return
	}
	call := &liveCall{key: newCallKey(principal, session, p.env.id), sdk: !strings.HasPrefix(p.env.method, wire.MethodPrefix)}
	if p.env.method == methodInitialize {
		call.stays = true
	} else {
		ctx, stop := context.WithCancel(r.Context())
		defer stop()
		r, call.stop = r.WithContext(ctx), stop
	}
	live := []*liveCall{call}
	if !h.calls.begin(live) {
		refuseMalformed(w, idInUse(p.env.id), false)
		return
	}
	defer h.calls.end(live)
	if call.gone.Load() {
		unanswered(w)
		return
	}
	h.serveLegacy(w, r, p, call)
}

func idInUse(id json.RawMessage) *malformed {
	return &malformed{code: jsonrpc.CodeInvalidRequest, id: id, reason: "/id is that of a request without an answer yet"}
}

// serveLegacy serves a POST of a legacy revision; call is nil outside of a session and for notifications.
func (h *handler) serveLegacy(w http.ResponseWriter, r *http.Request, p *posted, call *liveCall) {
	switch {
	case p.env.isCall() && p.env.method == wire.MethodStream:
		h.serveStream(w, r, h.legacy, p, call)
		return
	case call != nil:
		w = &muteWriter{w, call}
	}
	if p.env.isCall() && strings.HasPrefix(p.env.method, wire.MethodPrefix) {
		h.serveCall(w, r, h.legacy, p)
		return
	}
	if h.sessioned && httpSession(r) == "" && p.initializes() {
		h.initialize(w, r, p)
		return
	}
	h.toSDK(h.legacy, w, r, p)
}

// serveCall passes a call of the extension to the SDK with a ticket, so that what it holds open
// ends when its client goes away, in revisions too in which the SDK does not see to that (POLL-9).
func (h *handler) serveCall(w http.ResponseWriter, r *http.Request, sdk http.Handler, p *posted) {
	if !canFlush(w) {
		h.toSDK(sdk, w, r, p)
		return
	}
	ticket, release := h.es.Issue(r.Context(), p.env.id, nil)
	defer release()
	h.toSDK(sdk, w, withTicket(r, ticket, p.body), p)
}
