package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/telemetry"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// Codes chooses the family of error codes on the wire. See D2.
type Codes int

const (
	// CodesSketch uses the codes of the design sketch for every caller.
	CodesSketch Codes = iota
	// CodesSEP uses the provisional codes of SEP-3415 for every caller.
	CodesSEP
	// CodesAuto uses the SEP's codes for callers that declared the extension, and the sketch's codes for others.
	CodesAuto
)

// Retention bounds the replay log of an event type. A zero field means the default.
type Retention struct {
	// MaxAge is the time that an occurrence is kept; default 1 h, negative for no bound.
	MaxAge time.Duration
	// MaxCount is the number of occurrences that are kept; default 10,000, negative for no bound.
	MaxCount int
	// MaxBytes bounds the memory of a log in memory; default 64 MiB, negative for no bound. The newest occurrence is
	// kept whatever its size. MaxBytes is an error with a durable store.
	MaxBytes int
}

// A Quota sets a bound for each principal and a total bound. Zero means the default, a negative number no bound.
// The option that uses it documents the unit and the defaults.
type Quota struct {
	// PerPrincipal bounds the usage of one principal.
	PerPrincipal int
	// Total bounds the usage of all principals together.
	Total int
}

// Options configures a [Server]. The zero value configures a server without principals that keeps its logs in
// memory.
type Options struct {
	// Store keeps the logs of emitted occurrences; default a new memory store. The server does not
	// close it.
	Store store.Store
	// Outbox holds the events that the author emits within transactions. One of the servers moves them to the logs
	// of Store, which must be shared. The default is Store if it keeps its tables in the author's database, as
	// PostgreSQL can; for any other store use the result of pgoutbox.Outbox.Relay. See REP-20.
	Outbox engine.Outbox
	// Codes chooses the family of error codes; default [CodesSketch].
	Codes Codes
	// PageSize is the number of descriptors on one page of events/list; 0 means 100. A page with more than one
	// descriptor has at most about 1 MiB, whatever PageSize says. See LIST-1.
	PageSize int
	// Heartbeat is the interval of heartbeats on streams; default 15 s, at most 30 s. Other HTTP responses that stay
	// open get comments at the same interval. See PUSH-4.
	Heartbeat time.Duration
	// NextPoll is the default nextPollMs and the interval of check loops; default 5 s. See
	// POLL-5.
	NextPoll time.Duration
	// MaxEvents is the default batch size of a poll (default 100), and MaxEventsCap the largest (default 1,000).
	// Larger requests are clamped. See POLL-4.
	MaxEvents, MaxEventsCap int
	// DefaultWait is the time that a poll without timeoutMs is held (default 0). MaxWait is the longest time
	// (default 30 s; negative: polls are never held). See POLL-9.
	DefaultWait, MaxWait time.Duration
	// MaxToolWait is the longest time that a read tool or the wait tool waits for an occurrence. The default and
	// maximum is 55 s, because clients commonly abandon a call after a minute. If it is negative, tools never wait.
	MaxToolWait time.Duration
	// Retention bounds each event type's log.
	Retention Retention
	// ReplayCeiling is the largest age of a replayed occurrence; 0 means no bound. See CUR-6.
	ReplayCeiling time.Duration
	// PollLease is the time that a poller counts as subscribed after its last poll. The default is the larger of
	// three times nextPollMs and 5 min. See POLL-8.
	PollLease time.Duration
	// Principal returns the principal of a request, or "" for an anonymous caller. It may be called more than once
	// for a request. The default is the user id of the SDK's token info, or "". See AUTH-3.
	Principal func(ctx context.Context, extra *mcp.RequestExtra) string
	// Visible reports whether the principal may see the event type. By default all types are visible. See LIST-4.
	Visible func(ctx context.Context, principal, event string) bool
	// Authorize decides whether the principal may have the event with these arguments, canonical
	// JSON. An *events.Error goes to the caller; any other error is Forbidden without a reason
	// (AUTH-1, ERR-4).
	Authorize func(ctx context.Context, principal, event string, args json.RawMessage) error
	// Reauthorize is the interval at which live streams and webhook subscriptions are reauthorized; default 5 min,
	// negative for never. See AUTH-2.
	Reauthorize time.Duration
	// MaxStreams and MaxStreamsPerType cap the live streams of a principal, in all and per event
	// type; 0 means no cap. See PUSH-10.
	MaxStreams, MaxStreamsPerType int
	// Checks bounds the calls of authors' checks.
	Checks Checks
	// ScanLimit bounds how many entries one poll looks at; default 4,096. See POLL-7.
	ScanLimit int
	// MaxPayload bounds an encoded payload in bytes. The default is 1 MiB (HOOK-1).
	MaxPayload int
	// MaxArguments bounds a subscription's arguments, in bytes of JSON. The default is 64 KiB. Subscriptions that
	// are already stored are exempt (CAP-5).
	MaxArguments int
	// MaxParams bounds the params of an events/* request, in bytes of JSON. The server refuses larger params before
	// it parses them. The default is 256 KiB; the minimum is 64 KiB more than MaxArguments (CAP-5).
	MaxParams int
	// MaxPage bounds the result of one poll in bytes. A single larger occurrence is still returned. The default is 8
	// MiB (CAP-5).
	MaxPage int
	// MemoryQuota bounds the memory, in bytes, of pollers between polls and of webhook subscriptions. Above it the
	// server refuses both with ResourceExhausted and the limit "bytes". The default is 1 MiB per principal and 256
	// MiB in total. All callers without a principal share a quarter of the total. See CAP-5.
	MemoryQuota Quota
	// SkipPayloadValidation disables the validation of payloads against payloadSchema.
	SkipPayloadValidation bool
	// EchoFingerprint adds the fingerprint of the schemas to the _meta of every occurrence. See EVOL-4.
	EchoFingerprint bool
	// PropagateTrace adds the trace context of Emit's ctx to the _meta of the occurrence. Clients and endpoints see
	// it as traceparent and tracestate; baggage is never sent. Values set with events.WithMeta take precedence. An
	// occurrence that would become too large is sent without a trace context.
	PropagateTrace bool
	// Replica configures this process if several processes share Store, such as a store of package postgres.
	Replica Replica
	// Webhook enables webhook delivery for callers with a principal; nil disables it. See LIST-3.
	Webhook *WebhookOptions
	// Logger receives internal errors and warnings, which are never sent to callers; default slog.Default().
	Logger *slog.Logger
	// Meter and Tracer default to OpenTelemetry's global providers.
	Meter  metric.Meter
	Tracer trace.Tracer

	emitOnly bool // see NewEmitOnly
}

// Checks limits how often each event type's check is called, so that one principal cannot exhaust the upstream's limits.
// Zero means the default and a negative value no bound. See CAP-5.
type Checks struct {
	// Calls is the number of concurrent calls; default 32. Further calls wait; principals take turns.
	Calls int
	// CallsPerPrincipal is the number of concurrent calls of one principal; default 8. All callers without a
	// principal count as one principal.
	CallsPerPrincipal int
	// PerPrincipal bounds the distinct arguments with which one principal's subscriptions call the check; default
	// 100. It counts streams, held polls and webhook subscriptions. All callers without a principal share 16 times
	// as many. Further arguments are refused with ResourceExhausted and the limit "checks".
	PerPrincipal int
}

func (o *Options) meter() metric.Meter {
	return telemetry.Meter(o.Meter, "github.com/mcpe-gen/mcpe-gen/runtime/server")
}

// Bounds and defaults of Options.
const (
	maxHeartbeat    = 30 * time.Second
	minLease        = 5 * time.Minute
	leaseMultiple   = 3
	defaultCount    = 10_000
	defaultBytes    = 64 << 20
	defaultAge      = time.Hour
	defaultMaxBytes = 1 << 20
	// Defaults of Checks.
	defaultCalls, defaultCallsEach, defaultChecks = 32, 8, 100

	defaultMaxArguments = 64 << 10
	defaultMaxParams    = 256 << 10
	besideArguments     = 64 << 10 // in params
	defaultMaxPage      = 8 << 20
	defaultShare        = 1 << 20
	defaultTotal        = 256 << 20
)

func (o Options) withDefaults() Options {
	if o.Store == nil {
		o.Store = memory.New()
	}
	if o.Outbox == nil {
		o.Outbox, _ = o.Store.(engine.Outbox)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	setDefault(&o.PageSize, 100)
	setDefault(&o.Heartbeat, 15*time.Second)
	o.Heartbeat = min(o.Heartbeat, maxHeartbeat)
	setDefault(&o.NextPoll, 5*time.Second)
	setDefault(&o.MaxEventsCap, 1000)
	setDefault(&o.MaxEvents, min(100, o.MaxEventsCap))
	o.MaxEvents = min(o.MaxEvents, o.MaxEventsCap)
	o.MaxWait = cmp.Or(o.MaxWait, 30*time.Second)
	o.MaxToolWait = cmp.Or(o.MaxToolWait, readtool.MaxWaitSeconds*time.Second)
	o.Reauthorize = cmp.Or(o.Reauthorize, 5*time.Minute)
	o.Checks.Calls = cmp.Or(o.Checks.Calls, defaultCalls)
	o.Checks.CallsPerPrincipal = cmp.Or(o.Checks.CallsPerPrincipal, defaultCallsEach)
	o.Checks.PerPrincipal = cmp.Or(o.Checks.PerPrincipal, defaultChecks)
	setDefault(&o.ScanLimit, 4096)
	setDefault(&o.MaxPayload, defaultMaxBytes)
	setDefault(&o.MaxArguments, defaultMaxArguments)
	setDefault(&o.MaxParams, defaultMaxParams)
	o.MaxParams = max(o.MaxParams, o.MaxArguments+besideArguments)
	setDefault(&o.MaxPage, defaultMaxPage)
	o.MemoryQuota.PerPrincipal = cmp.Or(o.MemoryQuota.PerPrincipal, defaultShare)
	o.MemoryQuota.Total = cmp.Or(o.MemoryQuota.Total, defaultTotal)
	o.Retention.MaxAge = cmp.Or(o.Retention.MaxAge, defaultAge)
	o.Retention.MaxCount = cmp.Or(o.Retention.MaxCount, defaultCount)
	return o
}

// setDefault replaces a value that is zero or negative with the default.
func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// logOptions converts r to the options of a log, which is in memory or durable.
func (r Retention) logOptions(durable bool) (store.LogOptions, error) {
	o := store.LogOptions{MaxAge: max(r.MaxAge, 0), MaxCount: max(r.MaxCount, 0)}
	switch {
	case !durable && r.MaxBytes == 0:
		o.MaxBytes = defaultBytes
	case !durable:
		o.MaxBytes = max(r.MaxBytes, 0)
	case r.MaxBytes > 0:
		return o, fmt.Errorf("Retention.MaxBytes is %d: a durable store has no bound in bytes", r.MaxBytes)
	}
	return o, nil
}

// A TypeOption sets a detail of one event type at registration.
type TypeOption func(*typeOptions)

type typeOptions struct {
	nextPoll      time.Duration
	maxStreams    int
	pollNoReplay  bool
	sharedCheck   bool
	retention     Retention
	replayCeiling time.Duration
	lease         time.Duration
	maxPayload    int
	maxArguments  int
	noPoll        bool
	noPush        bool
	noWebhook     bool
}

// WithNextPoll sets the type's nextPollMs and the interval of its check loops. See POLL-5.
func WithNextPoll(d time.Duration) TypeOption { return func(o *typeOptions) { o.nextPoll = d } }

// WithMaxStreams caps the live streams of one principal to the type; 0 lifts the server's cap.
// See PUSH-10.
func WithMaxStreams(n int) TypeOption { return func(o *typeOptions) { o.maxStreams = n } }

// WithPollWithoutReplay offers poll for a type without replay. Only a held poll of such a type can return events.
// See LIST-3.
func WithPollWithoutReplay() TypeOption { return func(o *typeOptions) { o.pollNoReplay = true } }

// WithSharedCheck declares that the check's result does not depend on the principal. Subscriptions with equal
// arguments then share one check loop. See SRV-5.
func WithSharedCheck() TypeOption { return func(o *typeOptions) { o.sharedCheck = true } }

// WithRetention bounds the type's log. A zero field means the server's bound.
func WithRetention(r Retention) TypeOption { return func(o *typeOptions) { o.retention = r } }

// WithReplayCeiling sets the largest age of a replayed occurrence. See CUR-6.
func WithReplayCeiling(d time.Duration) TypeOption {
	return func(o *typeOptions) { o.replayCeiling = d }
}

// WithPollLease sets the time that a poller of the type counts as subscribed after its last poll. See POLL-8.
func WithPollLease(d time.Duration) TypeOption { return func(o *typeOptions) { o.lease = d } }

// WithoutPoll disables poll for the type. See LIST-3.
func WithoutPoll() TypeOption { return func(o *typeOptions) { o.noPoll = true } }

// WithoutPush disables push for the type. See LIST-3.
func WithoutPush() TypeOption { return func(o *typeOptions) { o.noPush = true } }

// WithoutWebhook disables webhook delivery for the type. See LIST-3.
func WithoutWebhook() TypeOption { return func(o *typeOptions) { o.noWebhook = true } }

func (o Options) forType(opts []TypeOption) typeOptions {
	t := typeOptions{nextPoll: o.NextPoll, maxStreams: o.MaxStreamsPerType, retention: o.Retention,
		replayCeiling: o.ReplayCeiling, lease: o.PollLease, maxPayload: o.MaxPayload, maxArguments: o.MaxArguments}
	for _, opt := range opts {
		opt(&t)
	}
	setDefault(&t.nextPoll, o.NextPoll)
	t.retention.MaxAge = cmp.Or(t.retention.MaxAge, o.Retention.MaxAge)
	t.retention.MaxCount = cmp.Or(t.retention.MaxCount, o.Retention.MaxCount)
	t.retention.MaxBytes = cmp.Or(t.retention.MaxBytes, o.Retention.MaxBytes)
	if t.lease <= 0 {
		t.lease = max(leaseMultiple*t.nextPoll, minLease)
	}
	return t
}
