// Package overlay adds events to an MCP server that already has an HTTP handler. The server may create an mcp.Server for
// each request, use another SDK, or run in another language behind httputil.ReverseProxy.
//
// The event server uses a separate mcp.Server, which serves nothing else:
//
//	es, err := server.New(mcp.NewServer(implementation, nil), server.Options{})
//	// Register event types, and add tools with es.AddReadTools and es.AddWaitTool.
//	mux.Handle("/mcp", overlay.NewHandler(es, next, overlay.Options{}))
//
// Clients see one server. [NewHandler] answers the events methods and calls to the event server's tools. It adds the
// events capability and these tools to the responses of next. All other traffic passes through unchanged and unbuffered.
//
// # Authorization
//
// Next decides who may call the event server. Before each such call, the handler sends next a ping with the caller's
// headers, or server/discover in the stateless revision. If next refuses it, the caller receives the refusal: for
// example 401, or 404 for a session that has ended. The handler repeats the question while a stream is open. After next
// has revoked a token, streams end within server.Options.Reauthorize. Webhook subscriptions expire within the same time,
// because they can only be refreshed by a caller that next accepts.
//
// The principal of a caller comes from the event server. If authentication such as package oauth wraps the handler, it is
// the UserID of the auth.TokenInfo. If next authenticates its callers itself, set server.Options.Principal to a function
// that derives the principal from the same headers. Use the sub of a verified or introspected token. A hash of the token
// changes when the client refreshes the token, and the caller then loses its webhook subscriptions.
//
// # Limits
//
// HTTP+SSE (revision 2024-11-05) and answers that a client resumes with Last-Event-ID pass through without events.
// Packages mcpe, mcpc and conversation are not supported, because sessions belong to next. The handler does not announce
// tools that are added to the event server later.
package overlay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

const (
	methodCall       = "tools/call"
	methodCancelled  = "notifications/cancelled"
	methodDiscover   = "server/discover"
	methodInitialize = "initialize"
	methodListen     = "subscriptions/listen"
	methodPing       = "ping"
	methodToolsList  = "tools/list"

	contentTypeJSON   = "application/json"
	headerLastEventID = "Last-Event-Id"

	// envelopeSize is the room for the members around the params of a call, in bytes.
	envelopeSize = 16 << 10
	// defaultMaxAnswer is the default for Options.MaxAnswer.
	defaultMaxAnswer = 4 << 20
	// defaultReadTimeout is the default for the ReadTimeout of Options.Handler.
	defaultReadTimeout = 30 * time.Second
	// toolNamesAge is how long the names of the event server's tools are cached.
	toolNamesAge = time.Second
)

// An Ask selects the request by which the handler checks a caller.
type Ask int

const (
	// AskPing sends ping in legacy revisions and server/discover in the stateless revision.
	AskPing Ask = iota
	// AskToolsList sends tools/list. It is for servers that authenticate the callers of tools only and answer ping to
	// everybody.
	AskToolsList
)

// Options configures a handler created by [NewHandler]. The zero value is ready to use.
type Options struct {
	// Handler configures how the event server's methods and tools are served. Sessions are next's, so SessionTimeout,
	// MaxSessions and the members of Streamable that concern sessions have no effect.
	Handler transport.HandlerOptions
	// Ask selects the request that next must accept before each call to the event server.
	Ask Ask
	// Trusted disables the question: all requests that reach the handler may call the event server. Open streams then do
	// not keep a session of next alive, and they end with the session only if the client ends it.
	Trusted bool
	// NoTools leaves the tools of the event server out of next's tools.
	NoTools bool
	// MaxAnswer is the maximum size in bytes of a response of next that the handler changes. 0 means 4 MiB. Larger
	// responses pass through unchanged and are logged.
	MaxAnswer int
}

// A handler is the handler of [NewHandler].
type handler struct {
	own       port.Front // stateless in all revisions
	es        *port.Port
	next      http.Handler
	ask       Ask
	trusted   bool
	noTools   bool
	maxAnswer int
	peek      int64         // the size of the largest call of the event server
	timeout   time.Duration // for reading as much of a body; negative means no limit
	log       *slog.Logger
	sessions  sessions

	logged sync.Map // subjects of warnings

	mu      sync.Mutex
	tools   map[string]bool // names of the event server's tools
	toolsAt time.Time
}

// NewHandler returns a handler that serves the events of es and all features of next on one URL.
//
//   - The handler passes the events methods and calls to the tools of es to es, in all protocol revisions.
//   - It adds the events capability to next's results of initialize and server/discover.
//   - It adds the tools of es that the caller may see to the first page of next's tools/list. They hide tools of next
//     with the same names.
//   - It adds list_changed of the event types to next's notification streams.
//
// The mcp.Server of es should have the same Implementation as next. The handler logs to Options.Handler.Logger.
//
// Set ReadTimeout of the http.Server, because next reads request bodies without the limits of package transport.
// Middleware around the handler must support http.Flusher.
func NewHandler(es *server.Server, next http.Handler, o Options) http.Handler {
	log := cmp.Or(o.Handler.Logger, slog.Default())
	var streamable mcp.StreamableHTTPOptions
	if o.Handler.Streamable != nil {
		streamable = *o.Handler.Streamable
	}
	streamable.Stateless = true
	o.Handler.Streamable = &streamable
	own, ok := transport.NewHandler(es, o.Handler).(port.Front)
	if !ok {
		log.Error("overlay: the event server was made with NewEmitOnly: no events are served")
		return next
	}
	h := &handler{own: own, es: port.Of(es), next: next, ask: o.Ask, trusted: o.Trusted, noTools: o.NoTools, log: log,
		maxAnswer: cmp.Or(o.MaxAnswer, defaultMaxAnswer), timeout: cmp.Or(o.Handler.ReadTimeout, defaultReadTimeout)}
	h.peek = int64(h.es.MaxParams() + envelopeSize)
	h.es.SetListChanged(true, true)
	return h
}

// ServeHTTP routes a request to the event server or to next.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	inSession := !isModern(r) && r.Header.Get(wire.HeaderSessionID) != ""
	switch {
	case r.Method == http.MethodPost:
		h.servePOST(w, r)
	case r.Method == http.MethodGet && inSession:
		h.serveGET(w, r)
	case r.Method == http.MethodDelete && inSession:
		h.serveDELETE(w, r)
	default:
		h.next.ServeHTTP(w, r)
	}
}

// isModern reports whether a request follows the stateless revision.
func isModern(r *http.Request) bool {
	return r.Header.Get(wire.HeaderProtocolVersion) >= wire.RevisionStateless
}

// servePOST routes by the method in the header and in the body. If only one of them is an events method, the event
// server refuses the request, and next does not receive it.
func (h *handler) servePOST(w http.ResponseWriter, r *http.Request) {
	named := strings.HasPrefix(r.Header.Get(wire.HeaderMethod), wire.MethodPrefix)
	if !named && (mediaType(r.Header) != contentTypeJSON || r.Header.Get("Content-Encoding") != "") {
		h.next.ServeHTTP(w, r)
		return
	}
	inbound.Deadline(w, r, h.timeout)
	body, ok := h.readStart(w, r)
	if !ok {
		return
	}
	m, ok := parse(body)
	switch {
	case named || ok && h.isOwn(m):
		h.reserve(w, r, func() { h.serveOwn(w, r, &m) })
	case !ok && h.hasOwn(body):
		refuseBatch(w)
	case m.Method == methodCancelled:
		h.serveCancel(w, r, m)
	case m.isCall() && m.Method == methodListen && isModern(r) && m.asksForOwn():
		h.reserve(w, r, func() { h.own.ServeListen(w, uncompressed(r), h.next) })
	case m.isCall() && (m.Method == methodInitialize || m.Method == methodDiscover):
		h.reserve(w, r, func() { h.serveMerged(w, r, m, h.mergeCapability) })
	case m.isCall() && m.Method == methodToolsList && !h.noTools:
		h.reserve(w, r, func() { h.serveMerged(w, r, m, h.mergeTools) })
	default:
		h.next.ServeHTTP(w, r)
	}
}

// reserve calls serve if the caller may have another open request (CAP-7).
func (h *handler) reserve(w http.ResponseWriter, r *http.Request, serve func()) {
	if leave, ok := h.own.Reserve(w, r); ok {
		defer leave()
		serve()
	}
}

// readStart returns the body and restores it in r. It returns nil if the body is longer than any call to the event server.
// If ok is false, the request has been answered.
func (h *handler) readStart(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	start, err := io.ReadAll(io.LimitReader(r.Body, h.peek+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		w.Header().Set("Connection", "close")
		http.Error(w, "the request body did not arrive within "+h.timeout.String(), http.StatusRequestTimeout)
		return nil, false
	}
	isWhole := err == nil && int64(len(start)) <= h.peek
	rest := io.Reader(r.Body)
	if err != nil {
		rest = failedReader{err}
	}
	if inbound.Lift(w); !isWhole { // next reads the rest within the server's timeout
		if srv, _ := r.Context().Value(http.ServerContextKey).(*http.Server); srv != nil && srv.ReadTimeout > 0 {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(srv.ReadTimeout))
		}
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), rest), r.Body}
	if !isWhole {
		return nil, true
	}
	return start, true
}

// A failedReader returns an error that reading the body has returned before.
type failedReader struct{ err error }

func (f failedReader) Read([]byte) (int, error) { return 0, f.err }

// isOwn reports whether the event server answers a message.
func (h *handler) isOwn(m message) bool {
	switch {
	case strings.HasPrefix(m.Method, wire.MethodPrefix):
		return true
	case m.Method == methodCall:
		return !h.noTools && h.toolNames()[m.toolName()]
	case m.Method == methodListen:
		return m.asksForOwn() && !m.asksForOthers()
	}
	return false
}

// hasOwn reports whether a body is a batch with a message that the event server answers.
func (h *handler) hasOwn(body []byte) bool {
	return slices.ContainsFunc(parseBatch(body), h.isOwn)
}

// serveOwn passes a request to the event server if next accepts the caller.
func (h *handler) serveOwn(w http.ResponseWriter, r *http.Request, m *message) {
	c, q := h.callerOf(r), h.whetherAccepted(*m, isModern(r))
	if !h.trusted && !h.accepts(w, r, q, m.ID) {
		return
	}
	if c.principal == "" && c.token != "" {
		h.warnOnce(r.Context(), "principal", "overlay: a call with a token does not have a principal, so it cannot use webhooks: "+
			"set server.Options.Principal, or wrap the handler in authentication")
	}
	g := port.Guest{Session: c.key(), DeclaresExtension: h.sessions.declares(c.session)}
	if every := h.es.RecheckInterval(); every > 0 && !h.trusted {
		g.Until = time.Now().Add(every)
	}
	var leave func()
	g.Context, leave = h.watch(r, q, c)
	defer leave()
	*m = message{} // do not keep the params during a stream
	h.own.ServeGuest(w, ownRequest(r), g)
}

// A caller is the sender of a request to the event server.
type caller struct {
	principal string
	session   string // ID of next's session
	token     string // Authorization header
}

func (h *handler) callerOf(r *http.Request) caller {
	c := caller{token: r.Header.Get("Authorization")}
	if !isModern(r) {
		c.session = r.Header.Get(wire.HeaderSessionID)
	}
	c.principal, _ = h.es.Authenticate(r.Context(), &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header})
	return c
}

// key returns the key of the caller's session at the event server, or "" for none. Callers that name the same session
// have different keys. The key of a caller with a principal remains the same when its token is refreshed.
func (c caller) key() string {
	switch {
	case c.session == "":
		return ""
	case c.principal != "":
		return "next " + c.session
	}
	return "next " + c.session + " " + c.token
}

// ownRequest returns a copy of r for the event server, without next's session.
func ownRequest(r *http.Request) *http.Request {
	own := r.Clone(r.Context())
	own.Header.Del(wire.HeaderSessionID)
	own.Header.Del(headerLastEventID)
	return own
}

// uncompressed returns a copy of r that does not accept a compressed response.
func uncompressed(r *http.Request) *http.Request {
	c := r.Clone(r.Context())
	c.Header.Del("Accept-Encoding")
	return c
}

// serveCancel passes a cancel to next. If next accepts it, it also cancels a call of the event server (D14).
func (h *handler) serveCancel(w http.ResponseWriter, r *http.Request, m message) {
	c := h.callerOf(r)
	status := &statusWriter{ResponseWriter: w}
	h.next.ServeHTTP(status, r)
	if status.isAccepted() && c.session != "" {
		h.own.CancelGuest(r, c.key(), m.requestID())
	}
}

// serveDELETE passes the request to end a session to next. If next accepts it, the session's calls end.
func (h *handler) serveDELETE(w http.ResponseWriter, r *http.Request) {
	status := &statusWriter{ResponseWriter: w}
	h.next.ServeHTTP(status, r)
	if status.isAccepted() {
		h.sessions.end(r.Header.Get(wire.HeaderSessionID))
	}
}

// serveGET inserts list_changed of the event types into a stream of next.
func (h *handler) serveGET(w http.ResponseWriter, r *http.Request) {
	h.reserve(w, r, func() { h.own.ServeSessionGET(w, uncompressed(r), h.next) })
}

// toolNames returns the names of all tools of the event server.
func (h *handler) toolNames() map[string]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tools == nil || time.Since(h.toolsAt) >= toolNamesAge {
		h.tools, h.toolsAt = map[string]bool{}, time.Now()
		for _, name := range h.own.ToolNames() {
			h.tools[name] = true
		}
	}
	return h.tools
}

// warnOnce logs a warning unless one about the subject was logged before. The subjects must be few.
func (h *handler) warnOnce(ctx context.Context, subject, text string, args ...any) {
	if _, known := h.logged.LoadOrStore(subject, true); !known {
		h.log.WarnContext(ctx, text, args...)
	}
}

// mediaType returns the media type in a header, without its parameters.
func mediaType(header http.Header) string {
	t, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// A statusWriter records the status of a response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// Unwrap gives response controllers access to flushing and deadlines.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush implements [http.Flusher], which some servers require.
func (w *statusWriter) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// WriteHeader records the first final status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *statusWriter) isAccepted() bool { return w.status < http.StatusMultipleChoices }
