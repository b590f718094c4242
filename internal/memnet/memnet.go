// Package memnet is an in-memory network for tests. Unlike a socket, waiting on it lets the time of a
// testing/synctest bubble advance. The package makes no promise of compatibility.
package memnet

import (
	"context"
	"net"
	"sync"
)

// A Network has a single listener, which every address leads to.
type Network struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// New returns a network. A test creates it in the bubble that uses it.
func New() *Network { return &Network{conns: make(chan net.Conn), closed: make(chan struct{})} }

// DialContext connects to the listener for any address.
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

// Closed returns a channel that Close closes.
func (n *Network) Closed() <-chan struct{} { return n.closed }

// Close implements [net.Listener]. It is idempotent.
func (n *Network) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

// Addr implements [net.Listener].
func (n *Network) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 443} }
