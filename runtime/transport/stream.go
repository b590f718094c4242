package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
)

// serveStream opens an events/stream through sdk and then writes the response itself (PUSH-11). In a
// legacy session call is what a cancel ends; a stream that was cancelled gets no final result (D14).
func (h *handler) serveStream(w http.ResponseWriter, r *http.Request, sdk http.Handler, p *posted, call *liveCall) {
	rec := newRecorder()
	body, _ := p.forSDK()
	if p.env.id == nil || !canFlush(w) {
		// Refused for want of a ticket: nothing is opened that could not be carried.
		sdk.ServeHTTP(rec, withBody(r, body))
		rec.refuse(w, p.env.id)
		return
	}
	id := bytes.Clone(p.env.id) // it outlives the body that it is a part of
	var pre preflight
	ticket, release := h.es.Issue(r.Context(), id, pre.claim)
	sdk.ServeHTTP(rec, withTicket(r, ticket, body))
	st, ss := pre.take()
	release()
	if call != nil && call.gone.Load() {
		if st != nil {
			st.Close()
		}
		unanswered(w)
		return
	}
	if st == nil {
		rec.refuse(w, id)
		return
	}
	p.body, p.env = nil, envelope{} // nothing of the request is kept for as long as the stream lives
	r.Body = http.NoBody
	if id := ss.ID(); id != "" {
		defer h.sessions.join(id, st)()
	}
	c := &eventWriter{w: w, rc: http.NewResponseController(w), timeout: h.writeTimeout}
	c.open(r)
	final, err := st.Run(r.Context(), c)
	if err != nil {
		if r.Context().Err() == nil {
			h.log.LogAttrs(r.Context(), slog.LevelInfo, "events/stream: client cut off", slog.Any("error", err))
		}
		return
	}
	if call != nil && call.gone.Load() {
		return
	}
	_ = c.writeMessage(appendResponse(nil, id, "result", final)) // PUSH-8; nobody is left to tell
}

// An eventWriter writes JSON-RPC messages as server-sent events. It is a port.Carrier.
type eventWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
}

// open lifts the server's deadlines, which are meant for short requests, and sets the headers. The
// headers go out with the first frame.
func (c *eventWriter) open(r *http.Request) {
	_ = c.rc.SetReadDeadline(time.Time{}) // it would cancel the request's context
	_ = c.rc.SetWriteDeadline(time.Time{})
	header := c.w.Header()
	header.Set("Content-Type", contentTypeEvents)
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set(headerBuffering, unbuffered)
	if r.ProtoMajor == 1 {
		header.Set("Connection", "keep-alive")
	}
	c.w.WriteHeader(http.StatusOK)
}

// What tells proxies such as nginx not to buffer a response.
const (
	headerBuffering = "X-Accel-Buffering"
	unbuffered      = "no"
)

// A promptWriter is a response that tells proxies not to buffer it if it is a stream of events, whoever writes it.
type promptWriter struct {
	http.ResponseWriter
	begun bool
}

// Unwrap gives response controllers flushing and deadlines.
func (w *promptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header with what proxies have to know.
func (w *promptWriter) WriteHeader(status int) {
	if w.begun = true; mediaType(w.Header().Get("Content-Type")) == contentTypeEvents {
		w.Header().Set(headerBuffering, unbuffered)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *promptWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

const (
	eventHead = "data: "
	eventTail = "\n\n"
	// eventComment is a comment, which clients skip.
	eventComment = ":" + eventTail
	// keepBuffer is the largest batch whose buffer is kept for the next one.
	keepBuffer = 64 << 10
)

// buffers are shared by all streams, so that an idle stream owns none.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Write sends the frames with one write and one flush.
func (c *eventWriter) Write(frames []frame.Frame) error {
	buf := buffers.Get().(*[]byte)
	b := (*buf)[:0]
	for _, f := range frames {
		b = append(b, eventHead...)
		b = append(b, f.Head...)
		b = append(b, f.Tail...)
		b = append(b, eventTail...)
	}
	err := c.send(b)
	if cap(b) <= keepBuffer {
		*buf = b
		buffers.Put(buf)
	}
	return err
}

func (c *eventWriter) writeMessage(msg json.RawMessage) error {
	b := make([]byte, 0, len(eventHead)+len(msg)+len(eventTail))
	b = append(b, eventHead...)
	b = append(b, msg...)
	return c.send(append(b, eventTail...))
}

// send writes under a deadline of its own, which cuts a reader that has stalled. The deadline is
// lifted again: on HTTP/2 it would end an idle stream.
func (c *eventWriter) send(b []byte) error {
	_ = c.rc.SetWriteDeadline(time.Now().Add(c.timeout))
	if _, err := c.w.Write(b); err != nil {
		return err
	}
	if err := c.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	_ = c.rc.SetWriteDeadline(time.Time{})
	return nil
}
