package transport

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// Headers that decide where a request goes.
const (
	headerVersion     = "Mcp-Protocol-Version"
	headerMethod      = "Mcp-Method"
	headerLastEventID = "Last-Event-Id"
	headerSession     = "Mcp-Session-Id"
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
	// open is not bounded by it. 0 means 30 seconds and a negative value no bound. Later bytes are
	// answered with 408. A shorter ReadTimeout of the http.Server stays in force.
	ReadTimeout time.Duration
	// WriteTimeout is how long one batch of frames may take to reach a client before its stream
	// is cut; 0 means 30 seconds. See PUSH-7.
	WriteTimeout time.Duration
	// SessionTimeout ends a legacy session that is idle for so long; 0 means never. A session
	// with an open stream is not idle. It wins over Streamable.SessionTimeout.
	SessionTimeout time.Duration
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
	maxBody      int64         // negative: no limit
	readTimeout  time.Duration // negative: no limit
	writeTimeout time.Duration
	calls        calls
	callers      callers // of the stateless revision
	sessions     *sessions
	sessioned    bool // legacy revisions have sessions
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
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
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
	if o.SessionTimeout != 0 {
		base.SessionTimeout = o.SessionTimeout
	}
	modern := base
	modern.Stateless = true
	modern.EventStore = nil
	modern.SessionTimeout = 0

	get := func(*http.Request) *mcp.Server { return srv }
	h := &handler{
		srv:          srv,
		es:           inside,
		legacy:       mcp.NewStreamableHTTPHandler(get, &base),
		stateless:    mcp.NewStreamableHTTPHandler(get, &modern),
		options:      &base,
		maxBody:      base.MaxRequestBodyBytes,
		readTimeout:  o.ReadTimeout,
		writeTimeout: o.WriteTimeout,
		log:          o.Logger,
		listeners:    map[*announcer]struct{}{},
		sessioned:    !base.Stateless,
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
	h.sessions = newSessions(h.legacy, base.SessionTimeout)
	if o.Direct {
		h.direct = newDirect(inside, h.stateless, &h.callers)
	}
	inside.SetListChanged(!base.Stateless, true)
	inside.OnListChanged(h.announce)
	return h
}

// ServeHTTP routes by protocol revision and method.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Header.Del(port.TicketHeader) // only this package may hand out tickets
	r.Header.Del(port.ReplyHeader)
	modern := r.Header.Get(headerVersion) >= wire.RevisionStateless
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
		h.es.EndSession(httpSession(r), principal)
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
	if p.batch == nil && !p.env.isCall() {
		h.serveNotification(w, r, h.legacy, session, p)
		return
	}
	var call *liveCall
	if session != "" {
		principal, _ := h.caller(r)
		keys := p.keys(principal, session)
		var stop context.CancelFunc
		if p.env.method == wire.MethodStream || p.env.method == wire.MethodPoll {
			var ctx context.Context
			ctx, stop = context.WithCancel(r.Context())
			defer stop()
			r = r.WithContext(ctx)
		}
		if call, ok = h.calls.begin(keys, stop); !ok {
			refuseMalformed(w, &malformed{code: jsonrpc.CodeInvalidRequest, id: p.env.id, reason: "/id is that of a request without an answer yet"})
			return
		}
		defer h.calls.end(keys)
		if call.gone.Load() {
			unanswered(w)
			return
		}
	}
	switch {
	case p.env.method == wire.MethodStream:
		h.serveStream(w, r, h.legacy, p, call)
	case strings.HasPrefix(p.env.method, wire.MethodPrefix):
		if call != nil {
			w = &muteWriter{w, call}
		}
		h.serveCall(w, r, h.legacy, p)
	default:
		h.toSDK(h.legacy, w, r, p)
	}
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
