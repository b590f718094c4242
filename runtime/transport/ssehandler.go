package transport

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"mime"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// An sseHandler serves the HTTP+SSE transport of revision 2024-11-05. The SDK's transport accepts only MCP methods.
// Here, a session is a line connection that receives lines as POST requests and sends lines as events.
type sseHandler struct {
	srv     *mcp.Server
	es      *port.Port
	options mcp.SSEOptions
	gate    *gate
	begun   *openCount

	mu       sync.Mutex
	sessions map[string]*sseSession
}

// NewSSEHandler returns a handler that serves srv with the events of es over HTTP+SSE. It is for clients that do not
// support Streamable HTTP. A GET opens the stream of a session, and the client sends messages as POST requests. Clients
// can use the same methods as in a legacy session on stdio: list, poll, stream and cancel, and the methods and
// notifications of adapters. All sessions end when es is shut down. Requests from pages of other origins are refused
// unless [AllowOrigins] wraps the handler. Authentication is the responsibility of a wrapping handler. Hooks receive no
// token. See MCPE-NOTE-5.
func NewSSEHandler(srv *mcp.Server, es *server.Server, o *mcp.SSEOptions) http.Handler {
	h := &sseHandler{srv: srv, es: port.Of(es), gate: newGate("", nil, nil), sessions: map[string]*sseSession{}, begun: newOpenCount(defaultMaxSessions)}
	if o != nil {
		h.options = *o
	}
	h.es.SetListChanged(true, false)
	return h
}

// ServeHTTP performs the same checks as the SDK's handler.
func (h *sseHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	inbound.Deadline(w, r, defaultReadTimeout)
	if !h.gate.admit(w, r) {
		return
	}
	if !h.options.DisableLocalhostProtection {
		if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && addr != nil && isLoopback(addr.String()) && !isLoopback(r.Host) {
			http.Error(w, "Forbidden: invalid Host header", http.StatusForbidden)
			return
		}
	}
	switch r.Method {
	case http.MethodPost:
		h.post(w, r)
	case http.MethodGet:
		h.serveStream(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	}
}

// sseSessionID is the query parameter that contains the session's ID.
const sseSessionID = "sessionid"

func (h *sseHandler) post(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != contentTypeJSON {
		http.Error(w, "Content-Type must be 'application/json'", http.StatusUnsupportedMediaType)
		return
	}
	h.mu.Lock()
	s := h.sessions[r.URL.Query().Get(sseSessionID)]
	h.mu.Unlock()
	if s == nil {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	limit := h.options.MaxRequestBodyBytes
	if limit == 0 {
		limit = mcp.DefaultMaxRequestBodyBytes
	}
	body, ok := readBody(w, r, limit, defaultReadTimeout)
	if !ok {
		return
	}
	if _, bad := parsePostBody(body, h.es.MaxParams()); bad != nil {
		refuseMalformed(w, bad, true)
		return
	}
	extra := &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header}
	if principal, _ := h.es.Authenticate(r.Context(), extra); s.principal != "" && principal != s.principal {
		http.Error(w, "the session belongs to another principal", http.StatusForbidden)
		return
	}
	select {
	case s.lines.incoming <- line{data: body, extra: extra}:
		w.WriteHeader(http.StatusAccepted)
	case <-s.lines.closed:
		http.Error(w, "session not found", http.StatusNotFound)
	case <-r.Context().Done():
	}
}

// serveStream serves the stream of a session until the client disconnects, the session ends or es is shut down.
func (h *sseHandler) serveStream(w http.ResponseWriter, r *http.Request) {
	if !canFlush(w) {
		http.Error(w, "streaming is not supported", http.StatusInternalServerError)
		return
	}
	principal, _ := h.es.Authenticate(r.Context(), &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header})
	who := accountKeyOf(principal, r)
	if !h.begun.reserve(w, who, "sessions") {
		return
	}
	defer h.begun.release(who)
	id := rand.Text()
	endpoint, err := r.URL.Parse("?" + sseSessionID + "=" + id)
	if err != nil {
		http.Error(w, "internal error: failed to create endpoint", http.StatusInternalServerError)
		return
	}
	out := &sseWriter{to: &eventWriter{w: w, rc: http.NewResponseController(w), timeout: defaultWriteTimeout}}
	// The response must not be written after the request has ended.
	defer out.Close()
	s := &sseSession{makeLineConn(http.NoBody, out, -1, h.es.MaxParams()), principal}
	defer s.lines.Close()
	h.mu.Lock()
	h.sessions[id] = s
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.sessions, id)
		h.mu.Unlock()
	}()
	out.to.prepare(r, false)
	if out.to.writeText([]byte("event: endpoint\ndata: "+endpoint.RequestURI()+sse.Tail)) != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	beaten := make(chan struct{})
	go func() {
		defer close(beaten)
		defer cancel()
		out.writeHeartbeats(ctx, h.es.Heartbeat())
	}()
	defer func() {
		cancel()
		out.Close()
		<-beaten
	}()
	_ = run(ctx, h.srv, h.es, s)
}

// An sseSession is the transport of one session.
type sseSession struct {
	lines     *lineConn
	principal string // of the GET
}

// Connect implements [mcp.Transport].
func (s *sseSession) Connect(context.Context) (mcp.Connection, error) { return s.lines, nil }

// SupportsProtocolVersion returns false for the stateless revision, which does not have this transport.
func (s *sseSession) SupportsProtocolVersion(version string) bool {
	return version < wire.RevisionStateless
}

// An sseWriter writes lines as events.
type sseWriter struct {
	to *eventWriter

	mu     sync.Mutex // held during writes
	closed bool
}

// Write writes each of the given lines as an event.
func (w *sseWriter) Write(lines []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, mcp.ErrConnectionClosed
	}
	err := w.to.write(func(b *bufio.Writer) {
		for l := range bytes.Lines(lines) {
			_, _ = b.WriteString("event: message\n" + sse.Head)
			_, _ = b.Write(bytes.TrimRight(l, "\n"))
			_, _ = b.WriteString(sse.Tail)
		}
	})
	if err != nil {
		return 0, err
	}
	return len(lines), nil
}

// writeHeartbeats writes a comment at each interval, which prevents proxies from closing an idle connection. It returns
// when ctx is done or the client has disconnected.
func (w *sseWriter) writeHeartbeats(ctx context.Context, every time.Duration) {
	beats := time.NewTicker(every)
	defer beats.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beats.C:
		}
		w.mu.Lock()
		gone := w.closed || w.to.writeText([]byte(sse.Comment)) != nil
		w.mu.Unlock()
		if gone {
			return
		}
	}
}

// Close aborts a write in progress and returns once the write has ended.
func (w *sseWriter) Close() error {
	if !w.mu.TryLock() {
		_ = w.to.rc.SetWriteDeadline(time.Now())
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	w.closed = true
	return nil
}
