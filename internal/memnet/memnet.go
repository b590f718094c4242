// Package memnet provides an in-memory network for tests. Unlike with sockets, time in a testing/synctest bubble
// advances while goroutines wait for the network. The package makes no promise of compatibility.
package memnet

import (
	"context"
	"net"
	"sync"
)

// A Network has a single listener for all addresses.
type Network struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// New returns a network. A test must create it in the bubble that uses it.
func New() *Network { return &Network{conns: make(chan net.Conn), closed: make(chan struct{})} }

// DialContext connects to the listener. It ignores the address.
func (n *Network) DialContext(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := Pipe()
	select {
	case n.conns <- theirs:
		return ours, nil
	case <-n.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements [net.Listener].
func (n *Network) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

// Closed returns a channel that is closed by Close.
func (n *Network) Closed() <-chan struct{} { return n.closed }

// Close implements [net.Listener]. It is idempotent.
func (n *Network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr implements [net.Listener].
func (n *Network) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }
