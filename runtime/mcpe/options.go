package mcpe

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// Options configures an [Adapter]. The zero value enables everything except handlers, and keeps
// subscriptions in memory.
type Options struct {
	// Name and Version are the serverInfo in the capability object. If empty, the values of the SDK server are used.
	Name, Version string
	// Store stores the subscriptions of principals and their queues and schedules. If it is nil, they are kept in
	// memory. The subscriptions of a session without a principal end with the session. See MCPE-DEL-6.
	Store engine.Schedules

	// MaxActive limits the active subscriptions of one client; default 100. A client can have ten times as many
	// subscriptions in total, regardless of their state. See MCPE-TOOL-5.
	MaxActive int
	// MaxFilters limits the total number of values in one filter; default 100. See MCPE-CAP-3.
	MaxFilters int
	// MaxQueue limits the queue of each scheduled delivery; default 10,000. If the queue is full, the oldest events are
	// dropped and counted. See MCPE-DEL-2.
	MaxQueue int
	// MaxBatch is the maximum value of maxEventsPerDelivery; default 1,000.
	MaxBatch int

	// WithoutPause, WithoutExpiration, WithoutRealtime, WithoutCron and WithoutScheduled disable features. The adapter
	// does not advertise disabled features and rejects calls that use them. See MCPE-CAP-1.
	WithoutPause, WithoutExpiration, WithoutRealtime, WithoutCron, WithoutScheduled bool
	// Envelope wraps every notification in notifications/message, for clients that read only log messages. See
	// MCPE-NOTE-1.
	Envelope bool

	// SubscribeRate limits how often one client can subscribe; default 10 per second with bursts of 200. See
	// MCPE-RATE-1.
	SubscribeRate Rate
	// PublishRate limits the realtime notifications and handler calls for one event type. Occurrences above the limit
	// are dropped and counted, but are still added to queues. The default is 1,000 per second with bursts of 5,000. See
	// MCPE-RATE-1.
	PublishRate Rate
	// NotifyRate limits the notifications to one client. Above the limit, realtime notifications are dropped and
	// counted, and scheduled notifications are delayed. The default is 100 per second with bursts of 1,000. See
	// MCPE-RATE-1.
	NotifyRate Rate

	// Arguments returns the subscription arguments for a principal and an event type. If it is nil, there are no
	// arguments.
	Arguments func(principal, event string) json.RawMessage

	// Bash, Webhook and Agent enable handlers of the respective kind; nil disables them. See MCPE-HAN-1 to 3.
	Bash    *BashOptions
	Webhook *WebhookOptions
	Agent   *AgentOptions
	// MaxHandlers and MaxHandlersPerClient limit the concurrent handlers; default 32 and 4. A client with a running
	// handler gets another one only while fewer than half of MaxHandlers run.
	MaxHandlers, MaxHandlersPerClient int
	// MaxHandlerQueue limits the calls queued for one subscription's handler; default 100. Additional events are
	// dropped and counted.
	MaxHandlerQueue int

	// Logger logs errors, including details that are not sent to clients; default slog.Default().
	Logger *slog.Logger
	// Telemetry receives reports for metrics: otelevents.New. The default is telemetry.Discard.
	Telemetry telemetry.Recorder
}

// A Rate is a limit per second, with bursts of at most Burst. The zero value means the default, and a negative
// PerSecond means no limit.
type Rate struct {
	PerSecond float64
	Burst     int
}

func (r Rate) or(perSecond float64, burst int) Rate {
	r.PerSecond = cmp.Or(r.PerSecond, perSecond)
	r.Burst = cmp.Or(max(r.Burst, 0), burst)
	return r
}

func (r Rate) limiter() *rate.Limiter {
	if r.PerSecond < 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
}

// clientLimiters contains the rate limiters for one client.
type clientLimiters struct {
	subscribe, notify *rate.Limiter
}

func (o *Options) newLimits() clientLimiters {
	return clientLimiters{subscribe: o.SubscribeRate.limiter(), notify: o.NotifyRate.limiter()}
}

// anyStatusFactor is the factor by which the limit for all of a client's subscriptions exceeds MaxActive.
const anyStatusFactor = 10

func (o *Options) setDefaults() {
	o.Telemetry = cmp.Or(o.Telemetry, telemetry.Discard)
	o.MaxActive = cmp.Or(max(o.MaxActive, 0), 100)
	o.MaxFilters = cmp.Or(max(o.MaxFilters, 0), 100)
	o.MaxQueue = cmp.Or(max(o.MaxQueue, 0), 10_000)
	o.MaxBatch = cmp.Or(max(o.MaxBatch, 0), 1000)
	o.MaxHandlers = cmp.Or(max(o.MaxHandlers, 0), 32)
	o.MaxHandlersPerClient = cmp.Or(max(o.MaxHandlersPerClient, 0), 4)
	o.MaxHandlerQueue = cmp.Or(max(o.MaxHandlerQueue, 0), 100)
	o.SubscribeRate = o.SubscribeRate.or(10, 200)
	o.PublishRate = o.PublishRate.or(1000, 5000)
	o.NotifyRate = o.NotifyRate.or(100, 1000)
	o.Logger = cmp.Or(o.Logger, slog.Default())
}

// channels returns the enabled channels.
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

// priorities lists the protocol's priorities, lowest first.
var priorities = []string{wire.MCPELow, wire.MCPENormal, wire.MCPEHigh, wire.MCPECritical}

// Default values for schedules, and other limits (specification, section 8).
const (
	defaultBatch   = 100
	defaultZone    = "UTC"
	retryDelivery  = time.Second
	maxTimer       = time.Hour // then check the wall clock
	storeTimeout   = 30 * time.Second
	maxEarlyEvents = 1000
)
