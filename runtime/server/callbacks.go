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

// A Resolver finds the addresses of a host name; *net.Resolver is one.
type Resolver = interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Callbacks says which addresses requests to callbacks may reach, and how. The zero value reaches
// public addresses over https.
type Callbacks struct {
	// AllowHosts are host names or addresses, without port, whose address is not checked. The owner of the DNS
	// of such a name decides where requests go.
	AllowHosts []string
	// AllowOrigins are origins such as https://receiver.test:8443 whose address is not checked.
	// An http origin is allowed to be plain http as well.
	AllowOrigins []string
	// AllowPrefixes are blocks that may be reached although they are not public.
	AllowPrefixes []netip.Prefix
	// DenyPrefixes are blocks that may not be reached although they are public; they win over all
	// Allow fields.
	DenyPrefixes []netip.Prefix
	// Loopback allows callbacks to the loopback interface, there with any certificate, to try a server and a receiver on
	// one machine. Never set it for a server that others can reach: they could post to services of this machine.
	Loopback bool

	// Proxy is a forward proxy, http or https, that every connection is tunnelled through; its
	// userinfo is sent as basic authentication. The proxy's own address is not checked. The
	// destination is still resolved and checked here, and the proxy gets the address.
	Proxy *url.URL
	// ProxyResolves gives the proxy host names instead, for networks where only the proxy can
	// look them up. Then only the proxy can check what a name resolves to.
	ProxyResolves bool

	// Timeout bounds one request from lookup to the end of its answer; default 5 s. See HOOK-3.
	Timeout time.Duration
	// HostConnections is how many connections one host gets, and how many of them are kept while
	// idle; a request beyond it waits. Default [Retry].PerHost, for other callers 8.
	HostConnections int
	// IdleTimeout is how long an idle connection is kept; default 90 s.
	IdleTimeout time.Duration
	// TLS is the client configuration, for example with extra roots; nil means the defaults.
	// TLS 1.2 is the minimum.
	TLS *tls.Config

	// Resolver looks names up; nil means net.DefaultResolver.
	Resolver Resolver
	// DialContext connects to a checked address, "192.0.2.1:443", or to the proxy.
	// Nil means a net.Dialer; tests put an in-memory network here.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)

	// UserAgent names the server in every request to callbacks, such as "tickets/1.2 (+https://tickets.example.com)".
	// Default "mcpe-gen/VERSION (+https://github.com/mcpe-gen/mcpe-gen)".
	UserAgent string
}

// Retry says when deliveries are attempted, how many at a time, and when they are given up or held
// back. Zero values are defaults.
type Retry struct {
	// Schedule are the waits before each attempt, the first one counted from when the occurrence
	// was read, the others from the attempt before; default 0, 5 s, 30 s, 2 min, 10 min. See
	// HOOK-3.
	Schedule []time.Duration
	// Jitter spreads each wait by that share up and down; default 0.2, negative for none.
	Jitter float64
	// Window is how long after its first attempt an occurrence is tried; default 15 min.
	Window time.Duration

	// Workers bounds attempts under way; default 512. At most half of them serve subscriptions
	// whose endpoints hang, cannot be reached or were not tried yet.
	Workers int
	// PerHost bounds attempts under way to one host and port, again with half of them for such
	// subscriptions; default 16.
	PerHost int
	// PerSubscription bounds attempts under way for one subscription; default 8. With 1 an
	// occurrence is sent only when all before it are settled.
	PerSubscription int
	// SubscriptionLimit and HostLimit bound the rate of attempts. What has to wait stays in the
	// log; if the log forgets it meanwhile, a gap is signalled. See HOOK-9.
	SubscriptionLimit, HostLimit RateLimit

	// Suspend says when deliveries are held back.
	Suspend Suspension
	// NoExpiryRemoval is how long a subscription without expiry may fail before it is ended;
	// default 72 h. See HOOK-5.
	NoExpiryRemoval time.Duration
	// MaxUnsettled bounds the occurrences of one subscription that are read and not settled, and
	// with them the spans of its progress; then reading pauses. Default 1,024.
	MaxUnsettled int
	// FlushInterval is how soon progress is written to the store; default 200 ms.
	FlushInterval time.Duration
	// Headers tells of retries beside what is signed: X-MCP-Retry-Number is 1 in the second attempt, as this process
	// counts them, and X-MCP-Retry-Reason the category of the failure before. They are for logs; nobody vouches for them.
	Headers bool
}

// A RateLimit bounds attempts per second; the zero RateLimit does not.
type RateLimit struct {
	Rate rate.Limit
	// Burst is how many may follow each other at once; default 1.
	Burst int
}

// Suspension says when a subscription's deliveries are held back: when too many of its attempts have failed
// recently. See HOOK-5.
type Suspension struct {
	// Rate is the share of failed attempts that must be exceeded; default 0.95.
	Rate float64
	// Window is the time that is looked at; default 60 min.
	Window time.Duration
	// Min is how many attempts the window must hold; default 100.
	Min int
}

// engine are the options of the delivery engine that authors set.
func (r Retry) engine(log *slog.Logger, meter metric.Meter, tracer trace.Tracer) delivery.Options {
	return delivery.Options{
		Schedule: r.Schedule, Jitter: r.Jitter, RetryWindow: r.Window,
		Workers: r.Workers, PerHost: r.PerHost, PerSubscription: r.PerSubscription,
		SubscriptionLimit: delivery.Limit(r.SubscriptionLimit), HostLimit: delivery.Limit(r.HostLimit),
		Suspend: delivery.Suspension(r.Suspend), NoExpiryRemoval: r.NoExpiryRemoval, MaxUnsettled: r.MaxUnsettled,
		FlushInterval: r.FlushInterval, RetryHeaders: r.Headers, Logger: log, Meter: meter, Tracer: tracer,
	}
}
