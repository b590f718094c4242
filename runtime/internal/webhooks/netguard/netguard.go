// Package netguard makes outbound requests to destinations that are chosen by untrusted callers. These requests are
// endpoint verifications, fetches of well-known documents, and webhook deliveries (SSRF-3). The package only connects
// to public addresses, unless the operator allows others.
//
// Start with [New]. [Guard.CheckURL] checks a callback URL when it is registered. [Guard.Send] and [Guard.Fetch] make
// requests. Each resolved address is checked again before it is dialed, so a name cannot bypass the check by changing
// between two lookups (SSRF-1). The package does not follow redirects, does not use the environment's proxy, and reads
// up to [MaxAnswer] bytes of a response (SSRF-2). Errors contain the [wire.Category] of a failure, but no data from the
// endpoint (ERR-1).
//
// [Blocked] looks up an address in the table of blocked ranges.
package netguard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Options configures a [Guard]. The fields are documented in webhooks.Callbacks. The zero value allows public addresses
// over https.
type Options struct {
	AllowHosts, AllowOrigins    []string
	AllowPrefixes, DenyPrefixes []netip.Prefix
	Ports                       []uint16
	Loopback                    bool

	Proxy         *url.URL
	ProxyResolves bool

	Timeout time.Duration
	// HostConnections should equal the caller's limit on concurrent requests to one host.
	HostConnections int
	IdleTimeout     time.Duration
	TLS             *tls.Config

	Resolver interface {
		LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	}
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	UserAgent string
}

// loopback lists the loopback ranges.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// maxIdle is the maximum total number of idle connections to all hosts.
const maxIdle = 4096

// A Guard makes outbound requests. It is safe for concurrent use. It must be closed with [Guard.Close].
type Guard struct {
	o         Options
	hosts     map[string]bool
	transport *http.Transport

	mu      sync.RWMutex
	origins map[string]int // how many times each origin is allowed
}

// Timeout returns the timeout of a request.
func (g *Guard) Timeout() time.Duration { return g.o.Timeout }

// New returns a Guard. If an option is invalid, the error names it.
func New(o Options) (*Guard, error) {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Second
	}
	if o.HostConnections <= 0 {
		o.HostConnections = 8
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 90 * time.Second
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.DialContext == nil {
		o.DialContext = (&net.Dialer{KeepAlive: 30 * time.Second}).DialContext
	}
	if o.UserAgent == "" {
		o.UserAgent = useragent.Default()
	}
	if strings.ContainsFunc(o.UserAgent, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, fmt.Errorf("netguard: user agent %q must be printable ASCII", o.UserAgent)
	}
	if p := o.Proxy; p != nil && (p.Scheme != "http" && p.Scheme != "https" || p.Hostname() == "") {
		return nil, fmt.Errorf("netguard: proxy %q must be an http or https URL with a host", p.Scheme+"://"+p.Host) // without credentials
	}
	if o.ProxyResolves && o.Proxy == nil {
		return nil, errors.New("netguard: ProxyResolves is set without Proxy")
	}
	for _, p := range append(append([]netip.Prefix(nil), o.AllowPrefixes...), o.DenyPrefixes...) {
		if !p.IsValid() {
			return nil, errors.New("netguard: invalid allowed or denied prefix")
		}
	}
	if o.Loopback {
		o.AllowPrefixes = append(slices.Clone(o.AllowPrefixes), loopback...)
	}
	g := &Guard{o: o, hosts: map[string]bool{}, origins: map[string]int{}}
	for _, h := range o.AllowHosts {
		name, _, err := parseHost(strings.Trim(h, "[]"), strings.Contains(h, ":"))
		if err != nil {
			return nil, fmt.Errorf("netguard: allowed host %q is not a host name or address", h)
		}
		g.hosts[name] = true
	}
	for _, origin := range o.AllowOrigins {
		if _, err := g.AllowOrigin(origin); err != nil {
			return nil, err
		}
	}
	g.transport = &http.Transport{
		// Proxy stays nil, so that the environment is ignored (SSRF-2). Only HTTP/1.1, because a stalled HTTP/2
		// connection would stall every delivery to its host.
		DialContext:            g.dial,
		DialTLSContext:         g.dialTLS,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    o.HostConnections,
		MaxConnsPerHost:        o.HostConnections,
		IdleConnTimeout:        o.IdleTimeout,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
		ReadBufferSize:         readBuffer,
	}
	return g, nil
}

// Close closes idle connections. It does not affect requests in flight.
func (g *Guard) Close() { g.transport.CloseIdleConnections() }

// AllowOrigin allows an exact origin, such as https://receiver.test:8443 or http://127.0.0.1:9000, until revoke is
// called. The address of the origin is not checked, and the origin can use http (SRV-8). The limits on redirects, sizes
// and times still apply. AllowOrigin returns a [*URLError] if the origin does not consist of exactly a scheme, a host
// and an optional port.
func (g *Guard) AllowOrigin(origin string) (revoke func(), err error) {
	u, err := url.Parse(origin)
	if err != nil || u.User != nil || u.Host == "" || u.Path != "" || strings.ContainsAny(origin, "?#") {
		return nil, &URLError{"an origin is scheme, host and port, nothing more"}
	}
	if u.Scheme != "https" && u.Scheme != "http" {
		return nil, &URLError{"an origin is https or http"}
	}
	t, err := targetOf(u)
	if err != nil {
		return nil, err
	}
	key := t.origin()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.origins[key]++
	return sync.OnceFunc(func() {
		g.mu.Lock()
		if g.origins[key]--; g.origins[key] == 0 {
			delete(g.origins, key)
		}
		g.mu.Unlock()
		// A connection that was made under the permission must not outlive it.
		g.transport.CloseIdleConnections()
	}), nil
}

// isOriginAllowed reports whether the exact origin of t is allowed.
func (g *Guard) isOriginAllowed(t target) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.origins[t.origin()] > 0
}

// isPortAllowed reports whether callbacks may use the port of t.
func (g *Guard) isPortAllowed(t target) bool {
	port, _ := strconv.ParseUint(t.port, 10, 16) // checked by targetOf
	return len(g.o.Ports) == 0 || slices.Contains(g.o.Ports, uint16(port)) || g.isOriginAllowed(t)
}

// isExempt reports whether the address of t does not need to be checked.
func (g *Guard) isExempt(t target) bool {
	return len(g.o.DenyPrefixes) == 0 && (g.hosts[t.host] || g.isOriginAllowed(t))
}

// checkAddress returns an error if requests to t must not use the address a.
func (g *Guard) checkAddress(t target, a netip.Addr) error {
	a = a.Unmap()
	for _, p := range g.o.DenyPrefixes {
		if p.Contains(a) {
			return g.blockedError(t, a, Range{Prefix: p, Name: "Denied by configuration", Source: "Options.DenyPrefixes"})
		}
	}
	if g.hosts[t.host] || g.isOriginAllowed(t) {
		return nil
	}
	r, blocked := Blocked(a)
	if !blocked {
		return nil
	}
	for _, p := range g.o.AllowPrefixes {
		if p.Contains(a) {
			return nil
		}
	}
	return g.blockedError(t, a, r)
}

func (g *Guard) blockedError(t target, a netip.Addr, r Range) error {
	return &Error{wire.ConnectionRefused, StageConnect, &BlockedError{Host: t.host, Addr: a, Range: r}}
}
