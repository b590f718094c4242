package transport

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// Limits of Run's waits at its end. Their sum bounds the shutdown of a server whose peer reads nothing and whose
// handlers ignore their contexts.
const (
	pollGrace   = 100 * time.Millisecond
	streamGrace = time.Second
	closeGrace  = 2 * time.Second
	abortGrace  = 500 * time.Millisecond
)

// Run serves MCP on one connection: stdio, in-memory or the SDK's IOTransport. It serves the events of es and
// everything else of its mcp.Server. It returns nil when the client closes the connection or es is shut down, and
// ctx.Err() when ctx ends. In the last two cases open streams get their final result first (SRV-6). It waits at most a
// few seconds for a peer or a handler that does not respond.
func Run(ctx context.Context, es *server.Server, t mcp.Transport) error {
	inside := port.Of(es)
	if inside.MCP() == nil {
		return errEmitOnly
	}
	return run(ctx, inside.MCP(), inside, t)
}

// errEmitOnly refuses to serve a server created by server.NewEmitOnly.
var errEmitOnly = errors.New("transport: an emit-only server has no clients to serve")

func run(ctx context.Context, srv *mcp.Server, es *port.Port, t mcp.Transport) error {
	w := wrap(es, t)
	w.owned = true
	ss, err := srv.Connect(ctx, w, nil)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- ss.Wait() }()
	select {
	case err := <-ended:
		c := w.connection()
		c.end()
		wait(c.drained, closeGrace) // for calls that the SDK does not see
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-es.Closing():
	}
	c := w.connection()
	c.end()
	wait(c.drained, pollGrace)
	c.interrupt()
	wait(c.drained, streamGrace)
	go ss.Close() // waits for the author's handlers
	if !wait(ended, closeGrace) {
		_ = c.Close() // cancels the handlers
		wait(ended, abortGrace)
	}
	return err
}

// wait reports whether c delivered a value or was closed within d.
func wait[T any](c <-chan T, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// Wrap makes a message-based transport carry the events of es: stdio, in-memory, or the SDK's IOTransport. Connect the
// mcp.Server of es through the result. [Run] does that and also shuts down gracefully, which a session of the SDK does
// not while a stream is open.
//
// On stdio and IOTransport, request IDs are returned byte for byte. On other transports the SDK decodes them first: a
// number keeps 53 bits.
func Wrap(es *server.Server, t mcp.Transport) mcp.Transport { return wrap(port.Of(es), t) }

func wrap(es *port.Port, t mcp.Transport) *wrapped {
	es.SetListChanged(true, true)
	return &wrapped{es: es, inner: t}
}

type wrapped struct {
	es    *port.Port
	inner mcp.Transport
	owned bool // by Run

	mu   sync.Mutex
	conn *conn
}

// Connect connects the underlying transport.
func (t *wrapped) Connect(ctx context.Context) (mcp.Connection, error) {
	inner, lines := t.inner, (*lineConn)(nil)
	if l, ok := inner.(*mcp.LoggingTransport); ok {
		if below := asLines(l.Transport, t.es.MaxParams()); below != nil {
			lines, inner, below.log = below, below, l.Writer
		}
	} else if below := asLines(inner, t.es.MaxParams()); below != nil {
		lines, inner = below, below
	}
	connected, err := inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := newConn(ctx, t.es, connected, lines)
	c.local, c.owned = isLocal(t.inner), t.owned
	t.mu.Lock()
	t.conn = c
	t.mu.Unlock()
	return c, nil
}

func (t *wrapped) connection() *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.conn
}

// SupportsProtocolVersion returns the underlying transport's answer, or true if that transport supports every version.
func (t *wrapped) SupportsProtocolVersion(version string) bool {
	if s, ok := t.inner.(mcp.ProtocolVersionSupporter); ok {
		return s.SupportsProtocolVersion(version)
	}
	return true
}

// isLocal reports whether a transport's peer is this process or its parent.
func isLocal(t mcp.Transport) bool {
	switch t := t.(type) {
	case *mcp.LoggingTransport:
		return isLocal(t.Transport)
	case *mcp.StdioTransport, *mcp.InMemoryTransport:
		return true
	}
	return false
}

// asLines returns a line connection for the SDK's transports of newline-delimited JSON, and for HTTP+SSE. Otherwise it
// returns nil.
func asLines(t mcp.Transport, maxParams int) *lineConn {
	switch t := t.(type) {
	case *mcp.StdioTransport:
		return newLineConn(os.Stdin, keepOpen{os.Stdout}, t.MaxLineLength, maxParams)
	case *mcp.IOTransport:
		return newLineConn(t.Reader, t.Writer, t.MaxLineLength, maxParams)
	case *sseSession:
		return t.lines
	}
	return nil
}

// keepOpen wraps standard output, which this package must not close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// Connect makes a line connection usable as its transport.
func (c *lineConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }
