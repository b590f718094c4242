package transport

import (
	"context"
	"crypto/rand"
	"mime"
	"net"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// sseHandler serves the HTTP+SSE transport of revision 2024-11-05. The SDK's own handler connects
// its sessions where no carrier can stand between; this one does the same with its transport.
type sseHandler struct {
	srv     *mcp.Server
	es      *port.Port
	options mcp.SSEOptions

	mu       sync.Mutex
	sessions map[string]*mcp.SSEServerTransport
}

// NewSSEHandler serves srv with the events of es over HTTP+SSE, for clients that know nothing
// newer: a GET opens the session's stream, POSTs carry its messages. All sessions end when es is
// shut down. Callers are not authenticated beyond what is put around the handler, and hooks see no
// token. See MCPE-NOTE-5.
func NewSSEHandler(srv *mcp.Server, es *server.Server, o *mcp.SSEOptions) http.Handler {
	h := &sseHandler{srv: srv, es: port.Of(es), sessions: map[string]*mcp.SSEServerTransport{}}
	if o != nil {
		h.options = *o
	}
	h.es.SetListChanged(true, false)
	return h
}

// ServeHTTP makes the checks of the SDK's handler.
func (h *sseHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
		h.open(w, r)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
	}
}

const sseSession = "sessionid"

func (h *sseHandler) post(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != contentTypeJSON {
		http.Error(w, "Content-Type must be 'application/json'", http.StatusUnsupportedMediaType)
		return
	}
	h.mu.Lock()
	t := h.sessions[r.URL.Query().Get(sseSession)]
	h.mu.Unlock()
	if t == nil {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	limit := h.options.MaxRequestBodyBytes
	if limit == 0 {
		limit = mcp.DefaultMaxRequestBodyBytes
	}
	read := &handler{maxBody: limit, readTimeout: defaultReadTimeout}
	body, err := read.readBody(w, r)
	if err != nil {
		if isTimeout(err) {
			http.Error(w, "the request's body did not arrive within "+defaultReadTimeout.String(), http.StatusRequestTimeout)
			return
		}
		t.ServeHTTP(w, r) // says what is wrong
		return
	}
	p, bad := parsePosted(body, false)
	if bad != nil {
		refuseMalformed(w, bad)
		return
	}
	p.aliasCancel()
	aliased, _ := p.forSDK()
	setBody(r, aliased)
	t.ServeHTTP(w, r)
}

// open serves the stream of one session until the client goes, the session ends or es shuts down.
func (h *sseHandler) open(w http.ResponseWriter, r *http.Request) {
	if !canFlush(w) {
		http.Error(w, "streaming is not supported", http.StatusInternalServerError)
		return
	}
	id := rand.Text()
	endpoint, err := r.URL.Parse("?" + sseSession + "=" + id)
	if err != nil {
		http.Error(w, "internal error: failed to create endpoint", http.StatusInternalServerError)
		return
	}
	header := w.Header()
	header.Set("Content-Type", contentTypeEvents)
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no")
	t := &mcp.SSEServerTransport{Endpoint: endpoint.RequestURI(), Response: &restorer{ResponseWriter: w}, MaxRequestBodyBytes: h.options.MaxRequestBodyBytes}
	h.mu.Lock()
	h.sessions[id] = t
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		delete(h.sessions, id)
		h.mu.Unlock()
	}()
	// Nothing of the request may be written after it is over: Run has ended by then.
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	_ = run(ctx, h.srv, h.es, t)
}
