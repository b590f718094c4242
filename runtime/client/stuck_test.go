package client

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A peer that stops reading holds up neither a call beyond its context nor Close beyond its grace.
// The SDK's writers queue on a mutex then, which a fake clock does not wait for.
func TestStuckPeer(t *testing.T) {
	f := newFake(true)
	mine, theirs := mcp.NewInMemoryTransports()
	conn, err := theirs.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stuck := &stuckConn{Connection: conn, stop: make(chan struct{}), closed: make(chan struct{})}
	f.serveConn(stuck)
	f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
	cl, err := Connect(t.Context(), mine, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cl.closeGrace = 50 * time.Millisecond
	s := subscribe(t, cl)
	close(stuck.stop)
	within := func(limit time.Duration, what string, f func()) {
		t.Helper()
		start := time.Now()
		f()
		if d := time.Since(start); d > limit {
			t.Errorf("%s took %v", what, d)
		}
	}
	for range 4 { // the server's reader takes one message more
		within(time.Minute, "List", func() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			cl.List(ctx)
		})
	}
	ended := make(chan error, 1)
	go func() {
		for _, err := range s.Events() {
			ended <- err
		}
	}()
	within(time.Minute, "Close", func() { cl.Close() })
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	stuck.Close()
	f.wg.Wait()
}

// A stuckConn stops reading when told.
type stuckConn struct {
	mcp.Connection
	stop   chan struct{}
	once   sync.Once
	closed chan struct{}
}

func (c *stuckConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case <-c.stop:
		<-c.closed
		return nil, errors.New("stuck")
	default:
		return c.Connection.Read(ctx)
	}
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Connection.Close()
}
