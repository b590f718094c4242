package webhooks

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
)

// Retry configures when deliveries are attempted, how many run concurrently, and when they are abandoned or suspended.
// Zero fields mean the defaults.
type Retry struct {
	// Schedule lists the delay before each attempt. The first delay starts when the occurrence is read. Each later
	// delay starts at the previous attempt. The default is 0, 5 s, 30 s, 2 min, 10 min. See HOOK-3.
	Schedule []time.Duration
	// Jitter is the fraction by which each delay is randomly increased or decreased; default 0.2, negative for none.
	Jitter float64
	// Window limits the time between the first and the last attempt to deliver an occurrence; default 15 min.
	Window time.Duration

	// Workers limits the attempts in flight; default 512. At most half of them are used for endpoints that hang or are
	// unreachable.
	Workers int
	// PerHost limits the attempts in flight to one host and port; default 16. At most half of them are used for
	// endpoints that hang or are unreachable.
	PerHost int
	// PerSubscription limits the attempts in flight for one subscription; default 8. If it is 1, an occurrence is sent
	// only after all earlier occurrences are settled.
	PerSubscription int
	// SubscriptionLimit and HostLimit limit the rate of attempts. Pending occurrences stay in the log. If the log
	// evicts them before they are sent, the server signals a gap. See HOOK-9.
	SubscriptionLimit, HostLimit RateLimit

	// Suspend configures when deliveries to a failing endpoint are suspended.
	Suspend Suspension
	// NoExpiryRemoval is how long a subscription without expiry can fail before it is ended; default 72 h. See HOOK-5.
	NoExpiryRemoval time.Duration
	// MaxUnsettled limits the unsettled occurrences of one subscription. At the limit, the server pauses reading the
	// log. It also limits the spans in the subscription's stored progress. The default is 1,024.
	MaxUnsettled int
	// FlushInterval is the maximum time until progress is written to the store; default 200 ms.
	FlushInterval time.Duration
	// Headers adds retry headers to each retried request. X-MCP-Retry-Number is 1 in the second attempt, as counted by
	// this process. X-MCP-Retry-Reason is the category of the previous failure. The signature does not cover these
	// headers, so use them only for logging.
	Headers bool
}

// A RateLimit limits attempts per second. The zero RateLimit means no limit.
type RateLimit struct {
	Rate rate.Limit
	// Burst is the number of attempts that can start simultaneously; default 1.
	Burst int
}

// Suspension configures when failed attempts suspend a subscription's deliveries. See HOOK-5.
type Suspension struct {
	// Rate is the fraction of failed attempts above which deliveries are suspended; default 0.95.
	Rate float64
	// Window is the period over which attempts are counted; default 60 min.
	Window time.Duration
	// Min is the minimum number of attempts in the window; default 100.
	Min int
	// Span is the minimum time from the first failure in the window to the last one. A shorter outage does not suspend
	// deliveries. The default is 5 min, or a twelfth of Window if that is less. The maximum is half of Window. A
	// negative Span means no minimum.
	Span time.Duration
}

// part converts r to the options of the delivery engine.
func (r Retry) part() delivery.Options {
	return delivery.Options{
		Schedule: r.Schedule, Jitter: r.Jitter, RetryWindow: r.Window,
		Workers: r.Workers, PerHost: r.PerHost, PerSubscription: r.PerSubscription,
		SubscriptionLimit: delivery.Limit(r.SubscriptionLimit), HostLimit: delivery.Limit(r.HostLimit),
		Suspend: delivery.Suspension(r.Suspend), NoExpiryRemoval: r.NoExpiryRemoval, MaxUnsettled: r.MaxUnsettled,
		FlushInterval: r.FlushInterval, RetryHeaders: r.Headers,
	}
}
