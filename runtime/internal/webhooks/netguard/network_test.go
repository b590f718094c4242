package netguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const public = "93.184.216.34"

// names is a resolver with fixed answers.
type names map[string][]string

func (n names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, ok := n[host]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	addrs := make([]netip.Addr, len(found))
	for i, a := range found {
		addrs[i] = netip.MustParseAddr(a)
	}
	return addrs, nil
}

// A network is an in-memory one: it works in a bubble and remembers every connection asked for.
type network struct {
	mu     sync.Mutex
	dialed []string
	// listeners by address; "" takes every other one. None refuses.
	listeners map[string]*memnet.Network
}

func (n *network) dial(ctx context.Context, on, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	l := n.listeners[address]
	if l == nil {
		l = n.listeners[""]
	}
	n.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Err: io.ErrClosedPipe}
	}
	return l.DialContext(ctx, on, address)
}

func (n *network) count() int { return len(n.all()) }

func (n *network) all() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.dialed...)
}

func (n *network) listen(address string) *memnet.Network {
	l := memnet.New()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners == nil {
		n.listeners = map[string]*memnet.Network{}
	}
	n.listeners[address] = l
	return l
}

// serveTLS runs a TLS server for example.com on l and returns a client configuration that trusts it.
func serveTLS(t *testing.T, l net.Listener, h http.HandlerFunc) *tls.Config {
	t.Helper()
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ErrorLog: log.New(io.Discard, "", 0)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{RootCAs: roots}
}

func newGuard(t *testing.T, o Options) *Guard {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

// guarded is a guard in front of h, which serves https://example.com at a public address.
func guarded(t *testing.T, o Options, h http.HandlerFunc) (*Guard, *network) {
	t.Helper()
	n := &network{}
	o.TLS = serveTLS(t, n.listen(""), h)
	o.DialContext = n.dial
	if o.Resolver == nil {
		o.Resolver = names{"example.com": {public}, "other.test": {public}}
	}
	return newGuard(t, o), n
}

func get(t *testing.T, url string) (context.Context, Request) { return t.Context(), Request{URL: url} }
