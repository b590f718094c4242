package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
)

// A Resolver looks up the addresses of a host name. *net.Resolver implements it.
type Resolver = interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Callbacks configures which addresses webhook requests may reach, and how. The zero value allows public addresses
// over https.
type Callbacks struct {
	// AllowHosts lists host names or addresses, without port, whose address is not checked. The owner of its DNS
	// zone decides where requests go.
	AllowHosts []string
	// AllowOrigins lists origins, such as https://receiver.test:8443, whose address is not checked. An http origin
	// allows plain http.
	AllowOrigins []string
	// AllowPrefixes lists address blocks that may be reached although they are not public.
	AllowPrefixes []netip.Prefix
	// DenyPrefixes lists address blocks that may not be reached although they are public. It overrides all Allow
	// fields.
	DenyPrefixes []netip.Prefix
	// Loopback allows callbacks to the loopback interface, with any certificate. It is for trying a server and a
	// receiver on one machine. Never set it for a server that others can reach: they could post to services on this
	// machine.
	Loopback bool

	// Proxy is the http or https forward proxy that every connection is tunneled through. Its userinfo is sent as
	// basic authentication. The proxy's own address is not checked. The server still resolves and checks the
	// destination, and passes the address to the proxy.
	Proxy *url.URL
	// ProxyResolves passes host names to the proxy instead, for networks where only the proxy can resolve them. Then
	// only the proxy can check the addresses that a name resolves to.
	ProxyResolves bool

	// Timeout bounds one request from lookup to the end of its response; default 5 s. See HOOK-3.
	Timeout time.Duration
	// HostConnections limits the connections to one host, and the idle connections kept for it. Further requests
	// wait. The default is [Retry].PerHost for deliveries and 8 for other callers.
	HostConnections int
	// IdleTimeout is the time after which an idle connection is closed; default 90 s.
	IdleTimeout time.Duration
	// TLS is the TLS client configuration, for example with extra roots; nil means the defaults. TLS 1.2 is the
	// minimum.
	TLS *tls.Config

	// Resolver resolves host names; nil means net.DefaultResolver.
	Resolver Resolver
	// DialContext connects to a checked address, "192.0.2.1:443", or to the proxy. Nil means a net.Dialer; tests set
	// an in-memory network.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	// UserAgent is the User-Agent header of every callback request, such as "tickets/1.2
	// (+https://tickets.example.com)". Default "mcpe-gen/VERSION (+https://github.com/mcpe-gen/mcpe-gen)".
	UserAgent string
}

// Retry configures when deliveries are attempted, how many run at a time, and when they are abandoned or suspended.
// Zero fields mean the defaults.
type Retry struct {
	// Schedule lists the delay before each attempt. The first delay starts when the occurrence is read, each other
	// delay at the previous attempt. The default is 0, 5 s, 30 s, 2 min, 10 min. See HOOK-3.
	Schedule []time.Duration
	// Jitter is the fraction by which each delay varies randomly in both directions; default 0.2, negative for none.
	Jitter float64
	// Window bounds the time from the first attempt of an occurrence to its last; default 15 min.
	Window time.Duration

	// Workers bounds the attempts in flight; default 512. At most half of them serve subscriptions whose endpoints
	// hang, are unreachable or have not been tried.
	Workers int
	// PerHost bounds the attempts in flight to one host and port, with the same half for such subscriptions; default
	// 16.
	PerHost int
	// PerSubscription bounds the attempts in flight for one subscription; default 8. With 1, an occurrence is sent
	// only once all earlier occurrences are settled.
	PerSubscription int
	// SubscriptionLimit and HostLimit bound the rate of attempts. Waiting occurrences stay in the log; if the log
	// evicts them first, the server signals a gap. See HOOK-9.
	SubscriptionLimit, HostLimit RateLimit

	// Suspend configures when deliveries to a failing endpoint are suspended.
	Suspend Suspension
	// NoExpiryRemoval is the time after which a failing subscription without expiry is ended; default 72 h. See
	// HOOK-5.
	NoExpiryRemoval time.Duration
	// MaxUnsettled bounds the unsettled occurrences of one subscription; at the bound, reading pauses. It also
	// bounds the spans in the subscription's stored progress. The default is 1,024.
	MaxUnsettled int
	// FlushInterval is the longest time before progress is written to the store; default 200 ms.
	FlushInterval time.Duration
	// Headers adds retry headers to each retried request. X-MCP-Retry-Number is 1 in the second attempt, as counted
	// by this process; X-MCP-Retry-Reason is the category of the previous failure. The signature does not cover
	// them; use them in logs only.
	Headers bool
}

// A RateLimit bounds attempts per second. The zero RateLimit means no limit.
type RateLimit struct {
	Rate rate.Limit
	// Burst is the number of attempts that may start at the same moment; default 1.
	Burst int
}

// Suspension configures when a subscription's deliveries are suspended because too many recent attempts failed. See
// HOOK-5.
type Suspension struct {
	// Rate is the fraction of failed attempts above which deliveries are suspended; default 0.95.
	Rate float64
	// Window is the time over which attempts are counted; default 60 min.
	Window time.Duration
	// Min is the number of attempts that the window must contain; default 100.
	Min int
}

// engine converts r to the options of the delivery engine.
func (r Retry) engine(log *slog.Logger, meter metric.Meter, tracer trace.Tracer) delivery.Options {
	return delivery.Options{
		Schedule: r.Schedule, Jitter: r.Jitter, RetryWindow: r.Window,
		Workers: r.Workers, PerHost: r.PerHost, PerSubscription: r.PerSubscription,
		SubscriptionLimit: delivery.Limit(r.SubscriptionLimit), HostLimit: delivery.Limit(r.HostLimit),
		Suspend: delivery.Suspension(r.Suspend), NoExpiryRemoval: r.NoExpiryRemoval, MaxUnsettled: r.MaxUnsettled,
		FlushInterval: r.FlushInterval, RetryHeaders: r.Headers, Logger: log, Meter: meter, Tracer: tracer,
	}
}
