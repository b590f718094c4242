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

// Timeouts for the shutdown in Run. Their sum limits its duration even if the peer does not read and handlers ignore
// their contexts.
const (
	pollGrace   = 100 * time.Millisecond
	streamGrace = time.Second
	closeGrace  = 2 * time.Second
	abortGrace  = 500 * time.Millisecond
)

// Run serves MCP on one connection: stdio, in-memory or the SDK's IOTransport. It serves the events of es and all other
// features of its mcp.Server. It returns nil when the client closes the connection or es is shut down, and ctx.Err()
// when ctx is done. In the last two cases, it first sends the final results of open streams (SRV-6). It waits at most a
// few seconds for a peer or handler that does not respond.
func Run(ctx context.Context, es *server.Server, t mcp.Transport) error {
	inside := port.Of(es)
	if inside.MCP() == nil {
		return errEmitOnly
	}
	return run(ctx, inside.MCP(), inside, t)
}

// errEmitOnly is returned for a server created by server.NewEmitOnly.
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
		c.endCalls()
		wait(c.drained, closeGrace) // for calls that the SDK does not see
		return err
	case <-ctx.Done():
		err = ctx.Err()
	case <-es.Closing():
	}
	c := w.connection()
	c.endCalls()
	wait(c.drained, pollGrace)
	c.cancelCalls()
	wait(c.drained, streamGrace)
	go ss.Close() // waits for the author's handlers
	if !wait(ended, closeGrace) {
		_ = c.Close() // cancels the handlers
		wait(ended, abortGrace)
	}
	return err
}

// wait waits up to d until c delivers a value or is closed, and reports whether it did.
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

// Wrap returns a transport that adds the events of es to a message-based transport: stdio, in-memory, or the SDK's
// IOTransport. Connect the mcp.Server of es to the returned transport. [Run] does so and also shuts down gracefully. A
// session of the SDK does not shut down gracefully while a stream is open.
//
// On stdio and IOTransport, responses repeat request IDs byte for byte. On other transports, the SDK decodes the IDs
// first, so numbers keep only 53 bits.
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
		if below := lineConnOf(l.Transport, t.es.MaxParams()); below != nil {
			lines, inner, below.log = below, below, l.Writer
		}
	} else if below := lineConnOf(inner, t.es.MaxParams()); below != nil {
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

// SupportsProtocolVersion reports whether the underlying transport supports a protocol version. Transports support all
// versions by default.
func (t *wrapped) SupportsProtocolVersion(version string) bool {
	if s, ok := t.inner.(mcp.ProtocolVersionSupporter); ok {
		return s.SupportsProtocolVersion(version)
	}
	return true
}

// isLocal reports whether the peer of a transport is this process or its parent.
func isLocal(t mcp.Transport) bool {
	switch t := t.(type) {
	case *mcp.LoggingTransport:
		return isLocal(t.Transport)
	case *mcp.StdioTransport, *mcp.InMemoryTransport:
		return true
	}
	return false
}

// lineConnOf returns a line connection for HTTP+SSE and for the SDK's transports with newline-delimited JSON. It
// returns nil for other transports.
func lineConnOf(t mcp.Transport, maxParams int) *lineConn {
	switch t := t.(type) {
	case *mcp.StdioTransport:
		return newLineConn(os.Stdin, nopCloser{os.Stdout}, t.MaxLineLength, maxParams)
	case *mcp.IOTransport:
		return newLineConn(t.Reader, t.Writer, t.MaxLineLength, maxParams)
	case *sseSession:
		return t.lines
	}
	return nil
}

// A nopCloser wraps standard output, which this package must not close.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Connect implements [mcp.Transport] and returns c itself.
func (c *lineConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }
