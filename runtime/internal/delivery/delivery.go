// Package delivery sends the occurrences of logs to webhook subscriptions: signed, retried, at
// most a few at a time for one subscription and one destination, and persisted, so that a crash
// can only cause duplicates.
//
// An [Engine] holds the live subscriptions as [Handle] values. Each reads its log through a
// [Reader] that the caller implements; the engine keeps positions, never payloads: what has to be
// sent again is read again. A [Watermark] says up to where everything is settled, which is the
// cursor in bodies and responses (HOOK-6). A subscription that has nothing to do costs neither a
// goroutine nor a timer.
//
// Start with [New], [Engine.NewShard], [Engine.Add] and [Reader]; turn.go decides whose turn it is, attempt.go makes one
// attempt, persist.go writes progress down, shard.go divides the subscriptions by who
// delivers.
package delivery

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"runtime"
	"sync"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/pulse"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A Reader is one subscription's view of its log: what matches it, transformed and encoded. The
// positions are the reader's own as long as they ascend and mean the same for its whole life.
//
// The engine calls Read, Passed and Cursor concurrently with all methods; Park, Unpark and Close
// one after the other. It holds none of its locks during a call, so that a Reader may take the
// lock under which [Handle.Wake] is called.
type Reader interface {
	// Read looks at the entries after the given position, at a bounded number of them, and returns
	// up to limit that match, in order. It moves nothing: the same question has the same answer as
	// long as the log holds the entries. A retry asks for its entry as Read(ctx, position-1, 1).
	Read(ctx context.Context, after store.Position, limit int) (Found, error)
	// Park asks for a Wake when the first entry after the given position arrives that concerns
	// the subscription. It returns false, and asks for nothing, when the reader has to read again
	// first because the log has moved on.
	Park(after store.Position) bool
	// Unpark ends the waiting that Park began, woken or not, and returns what Passed does.
	Unpark() store.Position
	// Passed is up to where a parked reader knows that nothing concerns the subscription: the head
	// of the log or, once it is woken, the place before the first match. A parked reader is never
	// behind, whatever retention does. Not parked it returns 0.
	Passed() store.Position
	// Cursor is the wire cursor of a position that was read, passed or begun at; nil for a type
	// without replay.
	Cursor(p store.Position) *string
	// Close gives back what the reader holds; only Passed and Cursor may be called after it.
	Close()
}

// Found is the result of [Reader.Read].
type Found struct {
	Items []Item
	// Upto is the position up to which all entries are in Items or do not concern the
	// subscription; at least the position that was asked from.
	Upto store.Position
	// More tells that the log may hold entries after Upto.
	More bool
	// Gap tells that entries after the asked position are lost. Then Upto is the last lost one and
	// Items is empty: the engine signals the gap before it reads on (HOOK-7).
	Gap bool
}

// An Item is one occurrence that a subscription is to get.
type Item struct {
	Position store.Position
	EventID  string
	// Body encodes the delivery with the given cursor, as [webhook.Occurrence] does. It is called
	// for each attempt. An error means that this occurrence can never be sent, which becomes a gap
	// (OCC-4). Nil stands for such an error.
	Body func(cursor *string) ([]byte, error)
}

// A Sender makes one request; [netguard.Guard] is the one to use.
type Sender interface {
	Send(*http.Request) (*netguard.Answer, error)
}

// An End is why the engine itself ended a subscription.
type End int

const (
	// Expired is a subscription that was not refreshed in time. No attempt of it begins any more. Options.Ended
	// calls Remove, or Extend where another process has refreshed the record.
	Expired End = iota + 1
	// Failed is one without expiry that failed for too long (HOOK-5); its terminated envelope is
	// on the way.
	Failed
)

// Suspension is server.Suspension (HOOK-5).
type Suspension struct {
	Rate   float64
	Window time.Duration
	Min    int
}

// A Limit is server.RateLimit (HOOK-9).
type Limit struct {
	Rate  rate.Limit
	Burst int
}

// Options configure an [Engine]. Zero values are defaults.
type Options struct {
	// Sender makes the requests; required.
	Sender Sender
	// Attempts keeps what came of attempts, which it gets by SaveAttempts of the stores of shards; nil keeps none.
	Attempts engine.Attempts
	// AttemptBounds say how many attempts are kept; default 100 of a subscription, 7 days and
	// 1,000,000 in all.
	AttemptBounds engine.AttemptBounds
	// Identity adds the server's own signature (HOOK-10); nil adds none.
	Identity *webhook.Identity

	// server.Retry says what these are for and has the same defaults (HOOK-3, HOOK-5, HOOK-9). RetryWindow is its Window.
	// The sender should keep PerHost idle connections to a host.
	Schedule                          []time.Duration
	Jitter                            float64
	RetryWindow                       time.Duration
	Workers, PerHost, PerSubscription int
	SubscriptionLimit, HostLimit      Limit
	Suspend                           Suspension
	NoExpiryRemoval                   time.Duration
	MaxUnsettled                      int
	FlushInterval                     time.Duration
	RetryHeaders                      bool

	// Ended is called when a subscription has expired or the engine has ended it, but not after
	// Remove or Terminate. Without Ended an expired subscription is removed. Gapped is called before anything moves
	// past a gap, so that the caller can store what the next subscribe response has to report (D7). Both are called
	// from goroutines of the engine without its locks.
	Ended  func(h *Handle, why End)
	Gapped func(h *Handle)

	// Now is the time that is stored, signed and compared with what was stored; default time.Now. It
	// may not call the engine.
	Now func() time.Time
	// Logger gets ids and categories, never secrets, payloads or what an endpoint said; default
	// slog.Default.
	Logger *slog.Logger
	// Meter and Tracer default to OpenTelemetry's global providers.
	Meter  metric.Meter
	Tracer trace.Tracer
}

// ErrClosed is returned by an engine that is shut down.
var ErrClosed = errors.New("delivery: engine is shut down")

// setDefaults fills in what o leaves open.
func (o *Options) setDefaults() error {
	if o.Sender == nil {
		return errors.New("delivery: Options.Sender is missing")
	}
	if len(o.Schedule) == 0 {
		o.Schedule = []time.Duration{0, 5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}
	}
	for _, d := range o.Schedule {
		if d < 0 {
			return errors.New("delivery: a wait in Options.Schedule is negative")
		}
	}
	switch {
	case o.Jitter == 0:
		o.Jitter = 0.2
	case o.Jitter < 0:
		o.Jitter = 0
	case o.Jitter > 1:
		return errors.New("delivery: Options.Jitter is above 1")
	}
	orDefault(&o.Workers, 512)
	orDefault(&o.PerHost, 16)
	orDefault(&o.PerSubscription, 8)
	orDefault(&o.MaxUnsettled, 1024)
	orDefault(&o.RetryWindow, 15*time.Minute)
	orDefault(&o.NoExpiryRemoval, 72*time.Hour)
	orDefault(&o.FlushInterval, 200*time.Millisecond)
	orDefault(&o.AttemptBounds.PerSubscription, 100)
	orDefault(&o.AttemptBounds.MaxAge, 7*24*time.Hour)
	orDefault(&o.AttemptBounds.Total, 1_000_000)
	orDefault(&o.Suspend.Rate, 0.95)
	orDefault(&o.Suspend.Window, time.Hour)
	orDefault(&o.Suspend.Min, 100)
	orDefault(&o.SubscriptionLimit.Burst, 1)
	orDefault(&o.HostLimit.Burst, 1)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return nil
}

func orDefault[T int | float64 | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}

// An Engine delivers to webhook subscriptions. It is safe for concurrent use. Calls of its own and
// of its handles' methods may come from under the caller's locks, as long as no Reader method,
// Ended or Gapped needs the same ones; methods with a context may wait for the store.
type Engine struct {
	o       Options
	born    time.Time // when the engine's clock began
	perHost bounds
	inAll   bounds
	metrics metrics
	pulse   *pulse.Recorder
	base    context.Context // of all attempts
	abort   context.CancelFunc

	mu      sync.Mutex
	closing bool
	whole   *Shard              // what is left of shards that were given away: the last envelopes
	shards  map[*Shard]struct{} // whole is one of them
	hosts   map[string]*host
	tenants map[string]*tenant
	guests  map[visit]*guest
	rings   [classes]queue[*host] // those with ready handles and a place for them
	class   class                 // of the last turn
	active  turns
	workers int
	flying  int // attempts under way
	due     timers
	saver   saver
	trimmer chore
	sampler chore
	lines   []line
	again   map[againKey]struct{} // what is sent by hand
	idle    chan struct{}         // closed when a closing engine has no worker left
}

// New makes an Engine, or says which option cannot be used.
func New(o Options) (*Engine, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	e := &Engine{o: o, born: time.Now(), perHost: boundsOf(o.PerHost), inAll: boundsOf(o.Workers), shards: map[*Shard]struct{}{}, hosts: map[string]*host{}, tenants: map[string]*tenant{}, guests: map[visit]*guest{}, again: map[againKey]struct{}{}, idle: make(chan struct{})}
	e.pulse = pulse.New(o.Now)
	e.whole = e.NewShard(ShardOptions{})
	e.due.now = e.clock
	e.due.fire, e.saver.batch = e.tick, maxBatch
	e.base, e.abort = context.WithCancel(context.Background())
	if err := e.metrics.init(e); err != nil {
		return nil, err
	}
	if o.Attempts != nil {
		e.trimmer.begin(e, trimSoon, e.trim) // an earlier process may have left some
	}
	e.sampling()
	return e, nil
}

// Len is how many subscriptions the engine has.
func (e *Engine) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for s := range e.shards {
		n += len(s.handles)
	}
	return n
}

// Pulse has the results of the attempts of the last hour.
func (e *Engine) Pulse() *pulse.Recorder { return e.pulse }

// now is the time that is stored, signed and compared with stored times.
func (e *Engine) now() time.Time { return e.o.Now() }

// all are the handles of all shards; e.mu is held.
func (e *Engine) all() iter.Seq[*Handle] {
	return func(yield func(*Handle) bool) {
		for s := range e.shards {
			for h := range s.handles {
				if !yield(h) {
					return
				}
			}
		}
	}
}

// walkStep is for how many handles the engine's lock is held at a time.
const walkStep = 256

// walk calls f for all handles, under the engine's lock, which it takes and gives up again and again: a look at all of them
// holds up nobody. What is added meanwhile may be left out.
func (e *Engine) walk(f func(*Handle)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for h := range e.all() { // maps may change between two steps of a range
		f(h)
		if n++; n%walkStep == 0 {
			e.mu.Unlock()
			runtime.Gosched()
			e.mu.Lock()
		}
	}
}
