package transport

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// A callResponse is the HTTP response to an extension call. It is JSON, or SSE if middleware sends a message before the
// result.
type callResponse struct {
	w      http.ResponseWriter
	id     json.RawMessage
	modern bool // errors set the HTTP status

	mu     sync.Mutex
	events bool
	over   bool
}

// send writes a message that precedes the result.
func (a *callResponse) send(message []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return mcp.ErrConnectionClosed
	}
	if !a.events {
		a.events = true
		header := a.w.Header()
		header.Set("Content-Type", sse.ContentType)
		header.Set("Cache-Control", "no-cache, no-transform")
		a.w.WriteHeader(http.StatusOK)
	}
	if _, err := a.w.Write(sse.Message(message)); err != nil {
		return err
	}
	return http.NewResponseController(a.w).Flush()
}

// stopMessages prevents further messages and reports whether any were sent.
func (a *callResponse) stopMessages() (events bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	return a.events
}

// finish writes the result or the error.
func (a *callResponse) finish(result json.RawMessage, err error) {
	msg := make([]byte, 0, len(result)+len(a.id)+64)
	status := http.StatusOK
	if err == nil {
		msg = appendResponse(msg, a.id, "result", result)
	} else {
		if msg = appendResponse(msg, a.id, "error", errorValue(err)); a.modern {
			status = httpStatus(err)
		}
	}
	if a.stopMessages() {
		_, _ = a.w.Write(sse.Message(msg))
		return
	}
	header := a.w.Header()
	header.Set("Content-Type", contentTypeJSON)
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("Content-Length", strconv.Itoa(len(msg)))
	a.w.WriteHeader(status)
	_, _ = a.w.Write(msg)
}

// canFlush reports whether w, or a writer wrapped by w, supports flushing. It does not call Flush, which would send the
// headers.
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
