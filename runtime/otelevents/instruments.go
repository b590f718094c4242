package otelevents

import (
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// The attributes of metrics and spans.
const (
	typeKey    = attribute.Key("mcp.events.type")
	outcomeKey = attribute.Key("mcp.events.outcome")
	failureKey = attribute.Key("error.type") // defined by OpenTelemetry

	// The details of series.
	frameKey        = attribute.Key("mcp.events.frame")
	operationKey    = attribute.Key("mcp.events.operation")
	stateKey        = attribute.Key("mcp.events.state")
	envelopeKey     = attribute.Key("mcp.events.envelope")
	verificationKey = attribute.Key("mcp.events.verification")
	providerKey     = attribute.Key("mcp.events.provider")
	handlerKey      = attribute.Key("mcp.events.handler")
	workKey         = attribute.Key("mcp.events.work")
	methodKey       = attribute.Key("mcp.method.name") // defined by OpenTelemetry

	// Only spans have these, because their values are unbounded.
	subscriptionKey = attribute.Key("mcp.events.subscription")
	attemptKey      = attribute.Key("mcp.events.attempt")
)

// The instrumentation scopes, below the path of the runtime. Dashboards of users depend on the names.
const (
	scopes  = "github.com/mcpe-gen/mcpe-gen/runtime/"
	server  = "server"
	webhook = "delivery"
	ingress = "ingress"
	mcpe    = "mcpe"
	client  = "client"
)

// A form is a kind of instrument or span.
type form int

const (
	producer form = iota
	consumer
	counter
	seconds // a histogram
	total   // an observed counter
	present // an observed value that can be added up across processes
	gauge   // an observed value that cannot be added up
	age     // an observed duration in seconds
)

// A row describes the instrument or the spans of a kind.
type row struct {
	scope             string
	form              form
	name, unit, about string
	detail            attribute.Key
}

var rows = [...]row{
	telemetry.Delivery: {webhook, producer, "deliver ", "", "", envelopeKey},
	telemetry.Handling: {client, consumer, "handle ", "", "", ""},

	telemetry.Emits:             {server, counter, "emit.calls", "{call}", "Calls of Emit.", ""},
	telemetry.Polls:             {server, counter, "poll.answers", "{poll}", "Answered polls, including polls of read tools.", ""},
	telemetry.Frames:            {server, counter, "stream.frames", "{frame}", "Frames written to streams.", frameKey},
	telemetry.StoreDuration:     {server, seconds, "store.duration", "s", "Duration of operations of a durable store.", operationKey},
	telemetry.OutboxRejected:    {server, counter, "outbox.rejected", "{occurrence}", "Rejected outbox entries.", ""},
	telemetry.Deliveries:        {webhook, counter, "webhook.deliveries", "{occurrence}", "Occurrences that were settled, by outcome.", ""},
	telemetry.DeliveryAttempts:  {webhook, counter, "webhook.attempts", "{attempt}", "Requests to endpoints.", envelopeKey},
	telemetry.DeliveryDuration:  {webhook, seconds, "webhook.attempt.duration", "s", "Time from the signature of a request to its answer or failure.", ""},
	telemetry.Verifications:     {server, counter, "webhook.verifications", "{verification}", "Verifications of callbacks.", verificationKey},
	telemetry.IngressDeliveries: {ingress, counter, "ingress.deliveries", "{delivery}", "Webhooks of services that arrived.", providerKey},
	telemetry.MCPENotifications: {mcpe, counter, "mcpe.notifications", "{notification}", "MCPE notifications handed to a connection.", methodKey},
	telemetry.MCPEDropped:       {mcpe, counter, "mcpe.dropped", "{event}", "Events that an MCPE subscription did not get.", ""},
	telemetry.MCPEHandlers:      {mcpe, counter, "mcpe.handlers", "{run}", "Runs of handlers of MCPE subscriptions.", handlerKey},
	telemetry.HandlingAttempts:  {client, counter, "consume.tries", "{try}", "Attempts of handlers, by outcome.", ""},
	telemetry.ConsumeProblems:   {client, counter, "consume.problems", "{problem}", "Problems outside the handlers.", ""},

	telemetry.LogAppended:          {server, total, "log.appended", "{occurrence}", "Occurrences that became visible in this process, from any emitter.", ""},
	telemetry.PollsHeld:            {server, present, "poll.held", "{poll}", "Polls waiting for an occurrence.", ""},
	telemetry.PollLeases:           {server, present, "poll.leases", "{lease}", "Pollers with an unexpired lease.", ""},
	telemetry.StreamsOpen:          {server, present, "stream.open", "{stream}", "Open streams, and subscriptions of MCPE.", ""},
	telemetry.StreamLag:            {server, gauge, "stream.lag", "{occurrence}", "Entries by which the slowest stream of an event type lags its log.", ""},
	telemetry.TailDelay:            {server, age, "tail.delay", "s", "Time since this process last checked the log of an event type for appends of other processes.", ""},
	telemetry.ShardsOwned:          {server, present, "shard.owned", "{shard}", "Shards of a shared store that this process owns.", workKey},
	telemetry.LeaseHeld:            {server, present, "lease.held", "{lease}", "1 while this process holds its lease on a shared store, otherwise 0.", ""},
	telemetry.OutboxAge:            {server, age, "outbox.age", "s", "Age of the oldest occurrence in the outbox, as reported by the process that relays it.", ""},
	telemetry.ControlDelay:         {server, age, "control.delay", "s", "Time since this process last read the operators' orders from other processes.", ""},
	telemetry.StoreGeneration:      {server, gauge, "store.generation", "{generation}", "Number of new epochs of a shared store's logs.", ""},
	telemetry.DeliveriesInFlight:   {webhook, present, "webhook.attempt.in_flight", "{attempt}", "Requests to endpoints in flight.", ""},
	telemetry.WebhookSubscriptions: {webhook, present, "webhook.subscriptions", "{subscription}", "Webhook subscriptions, by whether they are delivered to.", stateKey},
	telemetry.WebhookLag:           {webhook, gauge, "webhook.lag", "{occurrence}", "Entries by which the slowest webhook subscription of an event type lags its log.", ""},
	telemetry.HandlingInFlight:     {client, present, "consume.in_flight", "{event}", "Received events that are not settled, including events that wait for a retry.", ""},
	telemetry.HandlingLag:          {client, age, "consume.lag", "s", "Age of the oldest received event that is not settled.", ""},
}

// An instrument is what OpenTelemetry provides for a row. It has the meter or tracer of its scope.
type instrument struct {
	meter    metric.Meter
	tracer   trace.Tracer
	counter  metric.Int64Counter
	seconds  metric.Float64Histogram
	observed metric.Observable
}

// newInstrument creates the instrument of a row.
func (r *row) newInstrument(meter metric.Meter, tracers trace.TracerProvider) (i instrument) {
	i.meter = meter
	name, unit, about := "mcp.events."+r.name, metric.WithUnit(r.unit), metric.WithDescription(r.about)
	var err error
	switch r.form {
	case producer, consumer:
		i.tracer = tracers.Tracer(scopes + r.scope)
	case counter:
		i.counter, err = meter.Int64Counter(name, unit, about)
	case seconds:
		i.seconds, err = meter.Float64Histogram(name, unit, about,
			metric.WithExplicitBucketBoundaries(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10))
	case total:
		i.observed, err = meter.Int64ObservableCounter(name, unit, about)
	case present:
		i.observed, err = meter.Int64ObservableUpDownCounter(name, unit, about)
	case gauge:
		i.observed, err = meter.Int64ObservableGauge(name, unit, about)
	case age:
		i.observed, err = meter.Float64ObservableGauge(name, unit, about)
	}
	if err != nil {
		otel.Handle(err)
	}
	return i
}
