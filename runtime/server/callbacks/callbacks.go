// Package callbacks has the options of requests to callbacks, which package webhooks and the handlers of package mcpe send.
package callbacks

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"net/url"
	"time"
)

// A Resolver looks up the addresses of a host name. *net.Resolver implements it.
type Resolver = interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Options configures which addresses the requests of webhooks may reach, and how. The zero value allows public addresses
// over https.
type Options struct {
	// AllowHosts lists host names or addresses, without a port, that are exempt from the address check. For a host
	// name, the owner of its DNS zone decides where requests go.
	AllowHosts []string
	// AllowOrigins lists origins, such as https://receiver.test:8443, that are exempt from the address check. An http
	// origin allows plain http.
	AllowOrigins []string
	// AllowPrefixes lists non-public address blocks that requests may reach.
	AllowPrefixes []netip.Prefix
	// DenyPrefixes lists public address blocks that requests must not reach. It overrides all Allow fields.
	DenyPrefixes []netip.Prefix
	// Ports lists the ports that callbacks may use; default all. AllowOrigins are exempt.
	Ports []uint16
	// Loopback allows callbacks to the loopback interface, with any certificate. Use it to try out a server and a
	// receiver on one machine. Never set it on a server that others can reach, because they could send requests to
	// services on this machine.
	Loopback bool

	// Proxy is the http or https forward proxy that every connection is tunneled through. The user information in the
	// URL is sent as basic authentication. The proxy's own address is not checked. The server still resolves and checks
	// the destination, then passes its address to the proxy. An attempt that fails at the proxy has the category
	// "proxy" for operators, and connection_refused for subscribers.
	Proxy *url.URL
	// ProxyResolves passes host names instead of addresses to the proxy, for networks where only the proxy can resolve
	// them. In that case, only the proxy can check the addresses.
	ProxyResolves bool

	// Timeout limits one request, from the DNS lookup to the end of the response; default 5 s. See HOOK-3.
	Timeout time.Duration
	// HostConnections limits the connections to one host, including idle connections. Further requests wait. The
	// default is [Retry].PerHost for deliveries and 8 for other uses.
	HostConnections int
	// IdleTimeout is how long an idle connection is kept open; default 90 s.
	IdleTimeout time.Duration
	// TLS is the TLS client configuration, for example to add root certificates; nil means the defaults. TLS 1.2 is the
	// minimum.
	TLS *tls.Config

	// Resolver resolves host names; nil means net.DefaultResolver.
	Resolver Resolver
	// DialContext connects to a checked address, such as "192.0.2.1:443", or to the proxy. If it is nil, a net.Dialer
	// is used. Tests can set an in-memory network.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	// UserAgent is the User-Agent header of every callback request, such as "tickets/1.2
	// (+https://tickets.example.com)". Default "mcpe-gen/VERSION (+https://github.com/mcpe-gen/mcpe-gen)".
	UserAgent string
}
