package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// A preflight sends an events/stream request through the SDK, so that the SDK's checks, the
// session's and the author's middleware all decide before anything is written, and takes over the
// stream that the method's handler opened.
type preflight struct {
	mu     sync.Mutex
	over   bool
	stream port.Stream
	owner  *mcp.ServerSession
}

// claim is called by the method's handler. In a legacy session the handler can outlive the request
// that it belongs to; what it opens then is closed again.
func (p *preflight) claim(_ context.Context, ss *mcp.ServerSession, st port.Stream) (json.RawMessage, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		st.Close()
		return nil, context.Canceled
	}
	p.stream, p.owner = st, ss
	return json.RawMessage(`{}`), nil
}

// take ends the preflight and returns what was claimed, if anything.
func (p *preflight) take() (port.Stream, *mcp.ServerSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	return p.stream, p.owner
}

// A recorder keeps the SDK's answer to a request that was made on a client's behalf.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newRecorder() *recorder { return &recorder{header: http.Header{}} }

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(p)
}

// Flush makes the recorder a flusher, as the SDK expects of a writer of events.
func (r *recorder) Flush() {}

// message returns the JSON-RPC message of the answer: its body, or the last event of its events.
func (r *recorder) message() []byte {
	if mediaType(r.header.Get("Content-Type")) != contentTypeEvents {
		return r.body.Bytes()
	}
	var last []byte
	for line := range bytes.Lines(r.body.Bytes()) {
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
			last = bytes.TrimRight(data, "\r\n")
		}
	}
	return last
}

// refuse passes on the SDK's refusal of a preflight with the SDK's status. A JSON-RPC error is
// application/json and carries the client's own id.
func (r *recorder) refuse(w http.ResponseWriter, id json.RawMessage) {
	msg := r.message()
	if len(msg) == 0 && r.body.Len() == 0 && r.status < http.StatusBadRequest {
		// The session ended before its handler answered.
		http.Error(w, "session is closing", http.StatusNotFound)
		return
	}
	for k, v := range r.header {
		w.Header()[k] = v
	}
	w.Header().Del("Connection")
	w.Header().Del("Content-Length")
	if env, ok := parseEnvelope(msg); ok && env.method == "" {
		w.Header().Set("Content-Type", contentTypeJSON)
		switch {
		case env.id == nil || id == nil:
		case env.error != nil:
			msg = appendResponse(nil, id, "error", env.error)
		default:
			msg = appendResponse(nil, id, "result", env.result)
		}
	}
	status := r.status
	if status == 0 {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	_, _ = w.Write(msg)
}

// appendResponse appends a JSON-RPC response; kind is "result" or "error".
func appendResponse(b []byte, id json.RawMessage, kind string, value json.RawMessage) []byte {
	b = append(b, `{"jsonrpc":"2.0","id":`...)
	b = append(b, id...)
	b = append(b, `,"`...)
	b = append(b, kind...)
	b = append(b, `":`...)
	b = append(b, value...)
	return append(b, '}')
}

// canFlush reports whether w, or a writer that it wraps, can flush. Asking by flushing would send
// the headers.
func canFlush(w http.ResponseWriter) bool {
	for {
		switch v := w.(type) {
		case http.Flusher, interface{ FlushError() error }:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return false
		}
	}
}
