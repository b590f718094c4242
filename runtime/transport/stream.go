package transport

import (
	"bufio"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/sse"
)

// An eventWriter writes JSON-RPC messages as server-sent events. It implements port.Carrier.
type eventWriter struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
}

// prepare removes the server's deadlines, which are intended for short requests, and sets the headers unless the
// response has started. The headers are sent with the first frame.
func (c *eventWriter) prepare(r *http.Request, begun bool) {
	_ = c.rc.SetReadDeadline(time.Time{}) // a read deadline would cancel the request's context
	_ = c.rc.SetWriteDeadline(time.Time{})
	if begun {
		return
	}
	header := c.w.Header()
	header.Set("Content-Type", sse.ContentType)
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set(headerBuffering, unbuffered)
	if r.ProtoMajor == 1 {
		header.Set("Connection", "keep-alive")
	}
	c.w.WriteHeader(http.StatusOK)
}

// This header tells proxies such as nginx not to buffer a response.
const (
	headerBuffering = "X-Accel-Buffering"
	unbuffered      = "no"
)

// An unbufferedWriter adds a header to event streams that disables buffering in proxies.
type unbufferedWriter struct {
	http.ResponseWriter
	begun bool
}

// Unwrap gives response controllers access to flushing and deadlines.
func (w *unbufferedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader writes the header. For event streams, it adds X-Accel-Buffering.
func (w *unbufferedWriter) WriteHeader(status int) {
	if w.begun = true; mediaType(w.Header().Get("Content-Type")) == sse.ContentType {
		w.Header().Set(headerBuffering, unbuffered)
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *unbufferedWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(p)
}

// bufferPool is shared by all streams, so an idle stream does not need a buffer.
var bufferPool = sync.Pool{New: func() any { return bufio.NewWriterSize(nil, 32<<10) }}

// Write writes the frames with a single flush.
func (c *eventWriter) Write(frames []frame.Frame) error {
	return c.write(func(b *bufio.Writer) {
		for i := range frames {
			_, _ = b.WriteString(sse.Head)
			for _, piece := range frames[i][:] {
				_, _ = b.Write(piece)
			}
			_, _ = b.WriteString(sse.Tail)
		}
	})
}

func (c *eventWriter) writeMessage(msg json.RawMessage) error {
	return c.Write([]frame.Frame{{msg}})
}

func (c *eventWriter) writeText(text []byte) error {
	return c.write(func(b *bufio.Writer) { _, _ = b.Write(text) })
}

// write calls f and flushes. The function f can ignore errors.
func (c *eventWriter) write(f func(b *bufio.Writer)) error {
	b := bufferPool.Get().(*bufio.Writer)
	b.Reset(c.w)
	defer func() {
		b.Reset(nil)
		bufferPool.Put(b)
	}()
	return c.withDeadline(func() error {
		f(b)
		if err := b.Flush(); err != nil {
			return err
		}
		if err := c.rc.Flush(); !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		return nil
	})
}

// withDeadline calls f with a deadline, so a stalled reader cannot block it forever (PUSH-7). It then clears the
// deadline, which would end an idle stream on HTTP/2.
func (c *eventWriter) withDeadline(f func() error) error {
	_ = c.rc.SetWriteDeadline(time.Now().Add(c.timeout))
	if err := f(); err != nil {
		return err
	}
	_ = c.rc.SetWriteDeadline(time.Time{})
	return nil
}
