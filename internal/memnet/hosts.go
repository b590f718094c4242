package memnet

import (
	"context"
	"net"
	"sync"
)

// Hosts is a network with a listener for each host name. The zero value has no listeners. A test must create it in the
// bubble that uses it.
type Hosts struct {
	mu       sync.Mutex
	networks map[string]*Network
}

// Listen returns a listener for all ports of the host. It replaces any earlier listener of the host.
func (h *Hosts) Listen(host string) *Network {
	n := New()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.networks == nil {
		h.networks = map[string]*Network{}
	}
	h.networks[host] = n
	return n
}

// DialContext connects to the listener of the host in address. It returns an error if the host does not have a
// listener.
func (h *Hosts) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	n := h.networks[host]
	h.mu.Unlock()
	if n == nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return n.DialContext(ctx, network, address)
}
