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
	// CodesSketch answers everybody with the codes of the design sketch.
	CodesSketch Codes = iota
	// CodesSEP answers everybody with the provisional codes of SEP-3415.
	CodesSEP
	// CodesAuto answers callers that declared the extension with the SEP's codes, others with the
	// sketch's.
	CodesAuto
)

// Retention bounds the replay log of an event type. A zero field means the default.
type Retention struct {
	// MaxAge is how long an occurrence is kept; default 1 h, negative for no bound.
	MaxAge time.Duration
	// MaxCount is how many are kept; default 10,000, negative for no bound.
	MaxCount int
	// MaxBytes is how much memory they take together, where the log is in memory; default 64 MiB,
	// negative for no bound. The last one is kept whatever its size. With a durable store it is an error.
	MaxBytes int
}

// A Quota bounds what one principal has and what all have together. Zero means the default, a negative number no
// bound. The option says what it counts and what the defaults are.
type Quota struct {
	// PerPrincipal is how much one principal may have.
	PerPrincipal int
	// Total is how much all may have.
	Total int
}

// Options configure a [Server]. The zero value is a server without principals whose logs live in
// memory.
type Options struct {
	// Store keeps the logs of emitted occurrences; default a new memory store. The server does not
	// close it.
	Store store.Store
	// Outbox has what was emitted in transactions of the author, and one of the servers moves it to the logs of Store,
	// which processes share. The default is Store where it has the author's tables beside its own, as PostgreSQL does;
	// for another one it is what pgoutbox.Outbox.Relay returns. See REP-20.
	Outbox engine.Outbox
	// Codes chooses the family of error codes; default [CodesSketch].
	Codes Codes
	// PageSize is the number of descriptors on one page of events/list; 0 means 100. A page with more than one
	// descriptor has at most about 1 MiB, whatever PageSize says. See LIST-1.
	PageSize int
	// Heartbeat is the interval of heartbeats on a stream, and of comments on other responses over HTTP that stay
	// open; default 15 s, at most 30 s. See PUSH-4.
	Heartbeat time.Duration
	// NextPoll is the default nextPollMs and the interval of check loops; default 5 s. See
	// POLL-5.
	NextPoll time.Duration
	// MaxEvents is the batch size of a poll that asks for none (default 100), MaxEventsCap the
	// largest batch size (default 1,000); larger wishes are clamped. See POLL-4.
	MaxEvents, MaxEventsCap int
	// DefaultWait is how long a poll without timeoutMs is held (default 0), MaxWait the longest time
	// (default 30 s; negative: polls are never held). See POLL-9.
	DefaultWait, MaxWait time.Duration
	// MaxToolWait is the longest time that a read tool or the wait tool waits for an occurrence; default and
	// maximum 55 s (negative: tools never wait). Clients commonly give up a call after a minute.
	MaxToolWait time.Duration
	// Retention bounds each event type's log.
	Retention Retention
	// ReplayCeiling is the largest age of an occurrence that is replayed; 0 means none. See
	// CUR-6.
	ReplayCeiling time.Duration
	// PollLease is how long after its last poll a poller counts as subscribed; default the larger of
	// three times nextPollMs and 5 min. See POLL-8.
	PollLease time.Duration
	// Principal returns the caller of a request, "" for nobody. It may be called more than once for a request. The
	// default is the user id of the SDK's token info, or "". See AUTH-3.
	Principal func(ctx context.Context, extra *mcp.RequestExtra) string
	// Visible hides event types from a principal; default all are visible. See LIST-4.
	Visible func(ctx context.Context, principal, event string) bool
	// Authorize decides whether the principal may have the event with these arguments, canonical
	// JSON. An *events.Error goes to the caller; any other error is Forbidden without a reason
	// (AUTH-1, ERR-4).
	Authorize func(ctx context.Context, principal, event string, args json.RawMessage) error
	// Reauthorize is the interval at which live streams and webhook subscriptions are authorized
	// again; default 5 min, negative: never. See AUTH-2.
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
	// MaxArguments bounds a subscription's arguments, in bytes of JSON. The default is 64 KiB;
	// what was stored before is exempt (CAP-5).
	MaxArguments int
	// MaxParams bounds the params of a request of events/*, in bytes of JSON; those beyond it are
	// refused before anything looks into them. The default is 256 KiB, and it is at least 64 KiB
	// more than MaxArguments (CAP-5).
	MaxParams int
	// MaxPage bounds the result of one poll in bytes, unless a single occurrence is larger. The
	// default is 8 MiB (CAP-5).
	MaxPage int
	// MemoryQuota bounds, in bytes, what is kept for pollers between two polls and for webhook
	// subscriptions; above it both are refused with ResourceExhausted and the limit "bytes". The default is 1 MiB
	// for one principal and 256 MiB in all. Callers without a principal may together have
	// a quarter of the total. See CAP-5.
	MemoryQuota Quota
	// SkipPayloadValidation emits and transforms without checking payloadSchema.
	SkipPayloadValidation bool
	// EchoFingerprint puts the fingerprint of the schemas into the _meta of every occurrence. See
	// EVOL-4.
	EchoFingerprint bool
	// PropagateTrace puts the trace context of Emit's context into the _meta of the occurrence, as
	// traceparent and tracestate, for clients and endpoints; never its baggage. Values that an author
	// sets by events.WithMeta stay. An occurrence that would become too large is sent without them.
	PropagateTrace bool
	// Replica configures this process when several share Store, such as one of package postgres.
	Replica Replica
	// Webhook switches on delivery by webhook for callers with a principal; nil is off. See
	// LIST-3.
	Webhook *WebhookOptions
	// Logger receives what never goes on the wire; default slog.Default().
	Logger *slog.Logger
	// Meter and Tracer default to OpenTelemetry's global providers.
	Meter  metric.Meter
	Tracer trace.Tracer

	emitOnly bool // see NewEmitOnly
}

// Checks bounds the calls of each event type's check, so that one principal does not use up what the upstream allows.
// 0 means the default and a negative value no bound. See CAP-5.
type Checks struct {
	// Calls is how many calls may run at the same time; default 32. Others wait for their turn, which passes from one principal
	// to the next.
	Calls int
	// CallsPerPrincipal is how many of these are of one principal; default 8. All callers without a principal count as one.
	CallsPerPrincipal int
	// PerPrincipal is how many different arguments the streams, held polls and webhook subscriptions of one principal
	// may have the check called with; default 100. Callers without a principal have 16 times as many, all together.
	// Further arguments are refused with ResourceExhausted and the limit "checks".
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

// setDefault also replaces negative values, which make no sense where it is used.
func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// logOptions are those of a log in memory, or of one that is durable.
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

// WithPollWithoutReplay offers poll for a type without replay, where only a held poll can return
// events. See LIST-3.
func WithPollWithoutReplay() TypeOption { return func(o *typeOptions) { o.pollNoReplay = true } }

// WithSharedCheck declares that the check's answer does not depend on the principal, so that
// subscriptions with equal arguments share one check loop. See SRV-5.
func WithSharedCheck() TypeOption { return func(o *typeOptions) { o.sharedCheck = true } }

// WithRetention bounds the type's log; zero fields mean the server's.
func WithRetention(r Retention) TypeOption { return func(o *typeOptions) { o.retention = r } }

// WithReplayCeiling sets the largest age of an occurrence that is replayed. See CUR-6.
func WithReplayCeiling(d time.Duration) TypeOption {
	return func(o *typeOptions) { o.replayCeiling = d }
}

// WithPollLease sets how long after its last poll a poller of the type counts as subscribed. See
// POLL-8.
func WithPollLease(d time.Duration) TypeOption { return func(o *typeOptions) { o.lease = d } }

// WithoutPoll switches off poll for the type. See LIST-3.
func WithoutPoll() TypeOption { return func(o *typeOptions) { o.noPoll = true } }

// WithoutPush switches off push for the type. See LIST-3.
func WithoutPush() TypeOption { return func(o *typeOptions) { o.noPush = true } }

// WithoutWebhook switches off webhook for the type. See LIST-3.
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
