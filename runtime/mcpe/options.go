package mcpe

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/metric"
	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Options configure an [Adapter]. The zero value serves everything but handlers, in memory.
type Options struct {
	// Name and Version are the serverInfo of the capability object; empty means the SDK server's.
	Name, Version string
	// Store keeps the subscriptions of principals, their queues and schedules; nil keeps them
	// in memory. Those of sessions without a principal end with the session. See MCPE-DEL-6.
	Store engine.Schedules

	// MaxActive is how many active subscriptions one client may have; default 100. In any state it
	// may have ten times as many. See MCPE-TOOL-5.
	MaxActive int
	// MaxFilters is how many values all fields of one filter may have together; default 100.
	// See MCPE-CAP-3.
	MaxFilters int
	// MaxQueue bounds the queue of each scheduled delivery; beyond it the oldest events are dropped
	// and counted; default 10,000. See MCPE-DEL-2.
	MaxQueue int
	// MaxBatch is the largest maxEventsPerDelivery; default 1,000.
	MaxBatch int

	// WithoutPause, WithoutExpiration, WithoutRealtime, WithoutCron and WithoutScheduled switch
	// parts off: they are not advertised and are refused. See MCPE-CAP-1.
	WithoutPause, WithoutExpiration, WithoutRealtime, WithoutCron, WithoutScheduled bool
	// Envelope wraps every notification in notifications/message, for clients that read only log
	// messages. See MCPE-NOTE-1.
	Envelope bool

	// SubscribeRate limits the subscriptions that one client creates; default 10 a second in
	// bursts of 200. See MCPE-RATE-1.
	SubscribeRate Rate
	// PublishRate limits the occurrences of one event type that are notified of and handled at
	// once; beyond it they are dropped and counted, but for queues; default 1,000 a second in
	// bursts of 5,000. See MCPE-RATE-1.
	PublishRate Rate
	// NotifyRate limits the notifications to one client: beyond it realtime ones are dropped and
	// counted, scheduled ones wait; default 100 a second in bursts of 1,000. See MCPE-RATE-1.
	NotifyRate Rate

	// Arguments gives the subscription arguments with which a principal's subscriptions read an
	// event type; nil means none.
	Arguments func(principal, event string) json.RawMessage

	// Bash, Webhook and Agent allow the handlers of their kind; nil refuses them. See MCPE-HAN-1 to
	// 3.
	Bash    *BashOptions
	Webhook *WebhookOptions
	Agent   *AgentOptions
	// MaxHandlers and MaxHandlersPerClient are how many handlers run at a time; default 16 and 4.
	MaxHandlers, MaxHandlersPerClient int
	// MaxHandlerQueue is how many events wait for the handler of one subscription; beyond it they
	// are dropped and counted; default 100.
	MaxHandlerQueue int

	// Logger receives what clients are not told; default slog.Default().
	Logger *slog.Logger
	// Meter makes the metrics; default the global one.
	Meter metric.Meter
}

// A Rate is so many in a second, in bursts of at most Burst. The zero value means the default, a
// negative PerSecond no limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

func (r Rate) or(perSecond float64, burst int) Rate {
	r.PerSecond = cmp.Or(r.PerSecond, perSecond)
	if r.Burst <= 0 {
		r.Burst = burst
	}
	return r
}

func (r Rate) limiter() *rate.Limiter {
	if r.PerSecond < 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
}

// limits are the limiters of one client.
type limits struct {
	subscribe, notify *rate.Limiter
}

func (o *Options) newLimits() limits {
	return limits{subscribe: o.SubscribeRate.limiter(), notify: o.NotifyRate.limiter()}
}

// anyStatus is how many subscriptions a client may have for each active one.
const anyStatus = 10

func (o *Options) setDefaults() {
	set := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&o.MaxActive, 100)
	set(&o.MaxFilters, 100)
	set(&o.MaxQueue, 10_000)
	set(&o.MaxBatch, 1000)
	set(&o.MaxHandlers, 16)
	set(&o.MaxHandlersPerClient, 4)
	set(&o.MaxHandlerQueue, 100)
	o.SubscribeRate = o.SubscribeRate.or(10, 200)
	o.PublishRate = o.PublishRate.or(1000, 5000)
	o.NotifyRate = o.NotifyRate.or(100, 1000)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// channels are those that are switched on.
func (o *Options) channels() []string {
	all := []string{}
	for _, c := range []struct {
		name string
		off  bool
	}{{wire.MCPERealtime, o.WithoutRealtime}, {wire.MCPECron, o.WithoutCron}, {wire.MCPEScheduled, o.WithoutScheduled}} {
		if !c.off {
			all = append(all, c.name)
		}
	}
	return all
}

// priorities are the four of the protocol, in order.
var priorities = []string{wire.MCPELow, wire.MCPENormal, wire.MCPEHigh, wire.MCPECritical}

// Defaults of the schedules (specification, section 8).
const (
	defaultBatch   = 100
	defaultZone    = "UTC"
	retryDelivery  = time.Second
	maxTimer       = time.Hour // then the wall clock is looked at again
	storeTimeout   = 30 * time.Second
	maxEarlyEvents = 1000
)
