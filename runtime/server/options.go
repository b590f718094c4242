package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// Codes selects the family of error codes on the wire. See D2.
type Codes int

const (
	// CodesSketch uses the codes from the design sketch for every caller.
	CodesSketch Codes = iota
	// CodesSEP uses the provisional codes of SEP-3415 for every caller.
	CodesSEP
	// CodesAuto uses the SEP's codes for callers that declared the extension, and the sketch's codes for others.
	CodesAuto
)

// Retention limits the replay log of an event type. A zero field means the default.
type Retention struct {
	// MaxAge is how long an occurrence is kept; default 1 h, negative for no limit.
	MaxAge time.Duration
	// MaxCount is the maximum number of occurrences to keep; default 10,000, negative for no limit.
	MaxCount int
	// MaxBytes limits the memory used by an in-memory log; default 64 MiB, negative for no limit. The newest occurrence
	// is always kept, regardless of its size. Setting MaxBytes with a durable store is an error.
	MaxBytes int
}

// A Quota sets a limit per principal and a total limit. A zero field means the default, and a negative field means no
// limit. The unit and the defaults are documented by the option that uses the Quota.
type Quota struct {
	// PerPrincipal limits the usage of one principal.
	PerPrincipal int
	// Total limits the combined usage of all principals.
	Total int
}

// A Part is an optional part of a server: the result of webhooks.New, replicas.New or operators.New. Programs link only
// the parts that they use. A Part belongs to one server.
type Part = part.Part

// Options configures a [Server]. The zero value configures a server that has no principals and keeps its logs in
// memory.
type Options struct {
	// Store stores the logs of emitted occurrences. The default is a new in-memory store. The server does not close it.
	Store store.Store
	// Outbox stores the events that the author emits in transactions. One of the servers moves them to the logs of
	// Store, which must be a shared store. The default is Store if its tables are in the author's database, which is
	// possible with PostgreSQL. For any other store, use the result of pgoutbox.Outbox.Relay. See REP-20.
	Outbox engine.Outbox
	// Codes selects the family of error codes; default [CodesSketch].
	Codes Codes
	// PageSize is the number of descriptors on one page of events/list; 0 means 100. A page with more than one
	// descriptor is limited to about 1 MiB, regardless of PageSize. See LIST-1.
	PageSize int
	// Heartbeat is the interval between heartbeats on streams; default 15 s. The maximum is 30 s. The server sends
	// comments at the same interval on other HTTP responses that stay open. See PUSH-4.
	Heartbeat time.Duration
	// NextPoll is the default value of nextPollMs and the interval of a check's calls; default 5 s. See POLL-5.
	NextPoll time.Duration
	// MaxEvents is the default batch size of a poll (default 100). MaxEventsCap is the maximum batch size (default
	// 1,000). Larger requests are clamped. See POLL-4.
	MaxEvents, MaxEventsCap int
	// DefaultWait is how long a poll without timeoutMs is held (default 0). MaxWait is the maximum time for which a
	// poll is held (default 30 s; if negative, polls are never held). See POLL-9.
	DefaultWait, MaxWait time.Duration
	// MaxToolWait is the maximum time that a read tool or the wait tool waits for an occurrence. The default and upper
	// limit is 55 s, because clients commonly abandon a call after a minute. If it is negative, tools never wait.
	MaxToolWait time.Duration
	// Retention limits each event type's log.
	Retention Retention
	// ReplayCeiling is the maximum age of a replayed occurrence; 0 means no limit. See CUR-6.
	ReplayCeiling time.Duration
	// PollLease is how long a poller remains subscribed after its last poll. The default is three times nextPollMs, but
	// at least 5 min. See POLL-8.
	PollLease time.Duration
	// Principal returns the principal of a request, or "" for an anonymous caller. It may be called more than once for
	// a request. The default is the UserID of the SDK's TokenInfo, or "". See AUTH-3.
	Principal func(ctx context.Context, extra *mcp.RequestExtra) string
	// Visible reports whether the principal may see the event type. By default all types are visible. See LIST-4.
	Visible func(ctx context.Context, principal, event string) bool
	// Authorize decides whether the principal may receive the event with the given arguments, which are canonical JSON.
	// An *events.Error is returned to the caller. Any other error is reported as Forbidden without a reason (AUTH-1,
	// ERR-4).
	Authorize func(ctx context.Context, principal, event string, args json.RawMessage) error
	// Reauthorize is the interval for reauthorizing live streams and webhook subscriptions; default 5 min, negative for
	// never. See AUTH-2.
	Reauthorize time.Duration
	// MaxStreams and MaxStreamsPerType limit a principal's live streams in total and per event type; 0 means no limit.
	// See PUSH-10.
	MaxStreams, MaxStreamsPerType int
	// Checks limits the calls to authors' checks.
	Checks Checks
	// ScanLimit is the maximum work of one poll, in units; default 4,096. An entry is one unit, and one more for each 4 KiB
	// of its payload and each 10 µs of the estimated time of its x-match tests. If the type has a check and also emits,
	// the limit applies to each. See POLL-7.
	ScanLimit int
	// MaxPayload is the maximum size of an encoded payload in bytes. The default is 1 MiB (HOOK-1).
	MaxPayload int
	// MaxArguments is the maximum size of a subscription's arguments in bytes of JSON. The default is 64 KiB. Stored
	// subscriptions are exempt (CAP-5).
	MaxArguments int
	// MaxParams is the maximum size, in bytes of JSON, of the params of an events/* request. The server rejects larger
	// params without parsing them. The default is 256 KiB. The minimum is MaxArguments plus 64 KiB (CAP-5).
	MaxParams int
	// MaxPage is the maximum size of a poll result in bytes. A single larger occurrence is still returned. The default
	// is 8 MiB (CAP-5).
	MaxPage int
	// MemoryQuota limits the memory used by pollers between polls and by webhook subscriptions, in bytes. Above it, the
	// server rejects new polls and subscriptions with ResourceExhausted and the limit "bytes". The default is 1 MiB per
	// principal and 256 MiB in total. All callers without a principal share a quarter of the total. See CAP-5.
	MemoryQuota Quota
	// SkipPayloadValidation disables the validation of payloads against payloadSchema.
	SkipPayloadValidation bool
	// EchoFingerprint adds the schema fingerprint to the _meta of every occurrence. See EVOL-4.
	EchoFingerprint bool
	// TraceContext returns the W3C trace context of the ctx passed to Emit, such as otelevents.TraceContext. The server
	// adds it to the _meta of the occurrence, so clients and endpoints receive traceparent and tracestate. Values set
	// with events.WithMeta take precedence. If the trace context would make the occurrence too large, it is omitted. The
	// default is not to send trace contexts.
	TraceContext func(ctx context.Context) (traceParent, traceState string)
	// Webhooks enables webhook delivery for callers with a principal: webhooks.New. See LIST-3.
	Webhooks Part
	// Replicas connects this process to the other processes on Store: replicas.New. A shared store, such as package
	// postgres, requires it.
	Replicas Part
	// Operators enables [Server.Admin]: operators.New.
	Operators Part
	// Logger logs internal errors and warnings, which are never sent to callers; default slog.Default().
	Logger *slog.Logger
	// Telemetry receives reports for metrics and traces: otelevents.New. The default is telemetry.Discard.
	Telemetry telemetry.Recorder

	emitOnly bool // see NewEmitOnly
}

// Checks limits how often each event type's check is called. A single principal therefore cannot exhaust the limits of
// the upstream service. A zero field means the default, and a negative field means no limit. See CAP-5.
type Checks struct {
	// Calls is the maximum number of concurrent calls; default 32. Additional calls wait, and principals take turns.
	Calls int
	// CallsPerPrincipal is the maximum number of concurrent calls for one principal; default 8. Its first call can use any
	// free one of Calls. Further calls start only while fewer than half of Calls run, so that principals whose checks
	// hang leave the rest to others. All callers without a principal are treated as one principal.
	CallsPerPrincipal int
	// PerPrincipal is the maximum number of distinct arguments that the check is called with for one principal; default
	// 100. The limit applies to streams, held polls and webhook subscriptions. All callers without a principal share 16
	// times that number. Additional arguments are rejected with ResourceExhausted and the limit "checks".
	PerPrincipal int
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
	o.Telemetry = cmp.Or(o.Telemetry, telemetry.Discard)
	setDefault(&o.PageSize, 100)
	setDefault(&o.Heartbeat, 15*time.Second)
	o.Heartbeat = min(o.Heartbeat, maxHeartbeat)
	setDefault(&o.NextPoll, 5*time.Second)
	setDefault(&o.MaxEventsCap, 1000)
	setDefault(&o.MaxEvents, min(100, o.MaxEventsCap))
	o.MaxEvents = min(o.MaxEvents, o.MaxEventsCap)
	o.MaxWait = cmp.Or(o.MaxWait, 30*time.Second)
	o.MaxToolWait = cmp.Or(o.MaxToolWait, toolschema.MaxWaitSeconds*time.Second)
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

// setDefault replaces a zero or negative value with the default.
func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// logOptions converts r to the options of a durable or in-memory log.
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

// A TypeOption configures an event type at registration.
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

// WithNextPoll sets the type's nextPollMs and the interval of its check's calls. See POLL-5.
func WithNextPoll(d time.Duration) TypeOption { return func(o *typeOptions) { o.nextPoll = d } }

// WithMaxStreams limits a principal's live streams of the type; 0 removes the server's limit. See PUSH-10.
func WithMaxStreams(n int) TypeOption { return func(o *typeOptions) { o.maxStreams = n } }

// WithPollWithoutReplay offers the poll mode for a type without replay. For such a type, only held polls can return
// events. See LIST-3.
func WithPollWithoutReplay() TypeOption { return func(o *typeOptions) { o.pollNoReplay = true } }

// WithSharedCheck declares that the check's result does not depend on the principal. Subscriptions with equal
// arguments then share its calls. See SRV-5.
func WithSharedCheck() TypeOption { return func(o *typeOptions) { o.sharedCheck = true } }

// WithRetention limits the type's log. For zero fields, the server's limit applies.
func WithRetention(r Retention) TypeOption { return func(o *typeOptions) { o.retention = r } }

// WithReplayCeiling sets the maximum age of a replayed occurrence. See CUR-6.
func WithReplayCeiling(d time.Duration) TypeOption {
	return func(o *typeOptions) { o.replayCeiling = d }
}

// WithPollLease sets how long a poller of the type remains subscribed after its last poll. See POLL-8.
func WithPollLease(d time.Duration) TypeOption { return func(o *typeOptions) { o.lease = d } }

// WithoutPoll disables the poll mode for the type. See LIST-3.
func WithoutPoll() TypeOption { return func(o *typeOptions) { o.noPoll = true } }

// WithoutPush disables the push mode for the type. See LIST-3.
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
