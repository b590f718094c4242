package netguard

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// maxAttempts is the maximum number of addresses of one host that are dialed. The limit prevents a name with many
// addresses from turning a single request into a scan.
const maxAttempts = 4

// dial opens a connection for plain http, which is only permitted for allowed origins.
func (g *Guard) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return g.connect(ctx, "http", address, nil)
}

// dialTLS opens a connection and performs the TLS handshake with the original host name. It replaces the handshake of
// http.Transport, so the stage of a failure can be determined.
func (g *Guard) dialTLS(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &Error{wire.ConnectionRefused, StageLookup, errLookup}
	}
	return g.connect(ctx, "https", address, g.tlsConfig(host))
}

func (g *Guard) tlsConfig(serverName string) *tls.Config {
	c := &tls.Config{}
	if g.o.TLS != nil {
		c = g.o.TLS.Clone()
	}
	if c.ServerName == "" {
		c.ServerName = serverName
	}
	if c.MinVersion < tls.VersionTLS12 {
		c.MinVersion = tls.VersionTLS12
	}
	if g.o.Loopback && isLoopback(serverName) {
		c.InsecureSkipVerify = true // traffic on loopback cannot be intercepted
	}
	c.NextProtos = []string{"http/1.1"}
	return c
}

// isLoopback reports whether host is localhost or a loopback address.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// connect resolves address, checks every resolved address and dials one of them. If c is not nil, it also performs the
// TLS handshake. It applies the timeout itself, because http.Transport detaches this work from the context of the
// request.
func (g *Guard) connect(ctx context.Context, scheme, address string, c *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, g.o.Timeout)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, &Error{wire.ConnectionRefused, StageLookup, errLookup}
	}
	t := target{scheme: scheme, port: port}
	if t.host, t.addr, err = parseHost(host, isIPv6(host)); err != nil {
		return nil, &Error{wire.ConnectionRefused, StageLookup, err}
	}
	conn, err := g.dialTarget(ctx, t)
	if err != nil {
		return nil, err
	}
	if c != nil {
		if conn, err = handshake(ctx, conn, c); err != nil {
			return nil, err
		}
	}
	return &quietConn{Conn: conn}, nil
}

func isIPv6(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Is6()
}

func handshake(ctx context.Context, conn net.Conn, c *tls.Config) (net.Conn, error) {
	secure := tls.Client(conn, c)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, classify(ctx, StageTLS, err)
	}
	return secure, nil
}

// dialTarget checks t and opens a connection to it, through the proxy if a proxy is configured.
func (g *Guard) dialTarget(ctx context.Context, t target) (net.Conn, error) {
	if g.o.ProxyResolves && !t.addr.IsValid() {
		if isLocalhost(t.host) && !g.isExempt(t) {
			return nil, g.blockedError(t, netip.IPv6Loopback(), Range{Name: "Loopback name", Source: "RFC 6761"})
		}
		return g.dialTunnel(ctx, t.address())
	}
	addrs, err := g.lookup(ctx, t)
	if err != nil {
		return nil, classify(ctx, StageLookup, err)
	}
	// Reject the target if at least one of its addresses is blocked. Legitimate receivers have no blocked addresses,
	// and a malicious name server could otherwise choose a different address for each request.
	for _, a := range addrs {
		if err := g.checkAddress(t, a); err != nil {
			return nil, err
		}
	}
	return g.dialFirst(ctx, addrs, t.port)
}

// lookup returns the addresses of t. It returns IPv4 addresses first, because hosts without an IPv6 route are more
// common than hosts without an IPv4 route.
func (g *Guard) lookup(ctx context.Context, t target) ([]netip.Addr, error) {
	if t.addr.IsValid() {
		return []netip.Addr{t.addr.Unmap()}, nil
	}
	if host := strings.ToLower(strings.TrimSuffix(t.host, ".")); host == "invalid" || strings.HasSuffix(host, ".invalid") {
		// Such a name does not exist (RFC 6761, section 6.4), and a resolver may take a long time to report that.
		return nil, &net.DNSError{Err: "no such host", Name: t.host, IsNotFound: true}
	}
	found, err := g.o.Resolver.LookupNetIP(ctx, "ip", t.host)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &net.DNSError{IsNotFound: true}
	}
	addrs := make([]netip.Addr, len(found))
	for i, a := range found {
		// Resolvers may report IPv4 addresses in their mapped form.
		addrs[i] = a.Unmap()
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	return addrs, nil
}

// dialFirst dials the addresses in order until one succeeds. Each attempt has an equal share of the remaining time.
func (g *Guard) dialFirst(ctx context.Context, addrs []netip.Addr, port string) (net.Conn, error) {
	if len(addrs) > maxAttempts {
		addrs = addrs[:maxAttempts]
	}
	var first error
	for i, a := range addrs {
		conn, err := g.dialShare(ctx, net.JoinHostPort(a.String(), port), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

func (g *Guard) dialShare(ctx context.Context, address string, left int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && left > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(left))
		defer cancel()
	}
	if g.o.Proxy != nil {
		return g.dialTunnel(ctx, address)
	}
	conn, err := g.o.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, classify(ctx, StageConnect, err)
	}
	return conn, nil
}

// dialTunnel connects to the proxy and requests a tunnel to address (RFC 9110, section 9.3.6).
func (g *Guard) dialTunnel(ctx context.Context, address string) (net.Conn, error) {
	conn, err := g.dialProxy(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	err = requestTunnel(conn, g.o.Proxy, address)
	if err == nil {
		return conn, nil
	}
	conn.Close()
	if refused, ok := errors.AsType[*tunnelError](err); ok && refused.status >= 500 || ctx.Err() != nil {
		// The proxy was reached, and the endpoint was not.
		return nil, classify(ctx, StageConnect, err)
	}
	return nil, classifyProxy(ctx, err)
}

// dialProxy connects to the proxy. It may take half of the time that is left, so that a proxy that does not respond is
// told apart from an endpoint.
func (g *Guard) dialProxy(ctx context.Context) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	p := g.o.Proxy
	conn, err := g.o.DialContext(ctx, "tcp", proxyAddress(p))
	if err == nil && p.Scheme == "https" {
		c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: p.Hostname()}
		if g.o.TLS != nil {
			c.RootCAs = g.o.TLS.RootCAs
		}
		conn, err = handshake(ctx, conn, c)
	}
	if err != nil {
		return nil, classifyProxy(ctx, err)
	}
	return conn, nil
}

func requestTunnel(conn net.Conn, p *url.URL, address string) error {
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: http.Header{}}
	if p.User != nil {
		password, _ := p.User.Password()
		credentials := base64.StdEncoding.EncodeToString([]byte(p.User.Username() + ":" + password))
		req.Header.Set("Proxy-Authorization", "Basic "+credentials)
	}
	if err := req.Write(conn); err != nil {
		return err
	}
	// The destination does not send data before the client does, so the reader cannot have buffered data from it.
	resp, err := http.ReadResponse(bufio.NewReader(&headReader{conn, maxHeader}), req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return &tunnelError{resp.StatusCode}
	}
	return nil
}

// A headReader limits the number of bytes that a proxy can send before its tunnel is open.
type headReader struct {
	conn net.Conn
	left int
}

func (r *headReader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, errAnswer
	}
	n, err := r.conn.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

func proxyAddress(p *url.URL) string {
	port := p.Port()
	if port == "" {
		port = "80"
		if p.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(p.Hostname(), port)
}
