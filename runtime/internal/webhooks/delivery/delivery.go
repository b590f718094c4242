// Package delivery sends occurrences from logs to webhook subscriptions. It signs and retries deliveries, and limits
// the attempts in flight per subscription and destination. It stores progress in an order in which a crash can cause
// duplicates but no losses.
//
// An [Engine] holds the live subscriptions as [Handle] values. Each handle reads its log through a [Reader], which the
// caller implements. The engine keeps positions, not payloads, and reads the occurrence for each attempt. A
// [Watermark] tracks the position up to which all occurrences are settled. Request bodies and subscribe responses
// contain its cursor (HOOK-6). An idle subscription has no goroutine and no timer.
//
// Start with [New], [Engine.NewShard], [Engine.Add] and [Reader]. The file job.go schedules turns, attempt.go makes one
// attempt, persist.go stores progress, and shard.go divides the subscriptions by owner.
package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A Reader reads the matching occurrences of one subscription from its log, transformed and encoded. A reader can
// number occurrences freely if the positions ascend and stay valid until Close.
//
// The engine calls Read, Passed and Cursor concurrently with all methods, but serializes Park, Unpark and Close. It
// does not hold locks during a call, so a Reader can acquire the lock under which [Handle.Wake] is called.
type Reader interface {
	// Read examines a bounded number of entries after the given position and returns up to limit matching ones in
	// order. It has no side effects: the same call returns the same result while the log contains the entries. A retry
	// reads its entry with Read(ctx, position-1, 1).
	Read(ctx context.Context, after store.Position, limit int) (Found, error)
	// Park requests a Wake for the first matching entry after the given position. It returns false and requests nothing
	// if the log has new entries that must be read first.
	Park(after store.Position) bool
	// Unpark cancels the request of Park, even after a Wake, and returns the result of Passed.
	Unpark() store.Position
	// Passed returns the position up to which a parked reader knows that no entry matches: the head of the log or,
	// once woken, the position before the first match. A parked reader never falls behind retention. If the reader
	// is not parked, Passed returns 0.
	Passed() store.Position
	// Cursor returns the wire cursor of a position that was read or passed, or of the start; nil for a type without
	// replay.
	Cursor(p store.Position) *string
	// Close releases the reader's resources. Only Passed and Cursor may be called after it.
	Close()
}

// Found is the result of [Reader.Read].
type Found struct {
	Items []Item
	// Upto is the last position that Read has examined. All matching entries up to it are in Items. Upto is never less
	// than the start position.
	Upto store.Position
	// More reports whether the log might contain entries after Upto.
	More bool
	// Gap reports whether entries after the start position have been lost. If so, Upto is the last lost position and
	// Items is empty. The engine signals the gap before it continues to read (HOOK-7).
	Gap bool
}

// An Item is an occurrence for one subscription.
type Item struct {
	Position store.Position
	EventID  string
	// Body encodes the delivery with the given cursor, like [webhook.Occurrence]. The engine calls it for each attempt.
	// If Body is nil or returns an error, the occurrence can never be sent, and the engine signals a gap (OCC-4).
	Body func(cursor *string) ([]byte, error)
}

// A Sender sends a request and returns the response. [netguard.Guard] implements it.
type Sender interface {
	Send(context.Context, netguard.Request) (*netguard.Answer, error)
}

// An End is the reason why the engine ended a subscription.
type End int

const (
	// Expired indicates that the subscription was not refreshed in time. No further attempts start. Options.Ended calls
	// Remove, or Extend if another process refreshed the record.
	Expired End = iota + 1
	// Failed indicates that a subscription without expiry failed for too long (HOOK-5). Its terminated envelope is
	// queued.
	Failed
)

// Suspension is webhooks.Suspension (HOOK-5).
type Suspension struct {
	Rate   float64
	Window time.Duration
	Min    int
	Span   time.Duration
}

// A Limit is webhooks.RateLimit (HOOK-9).
type Limit struct {
	Rate  rate.Limit
	Burst int
}

// Options configures an [Engine]. Zero values mean the defaults.
type Options struct {
	// Sender makes the requests; required.
	Sender Sender
	// Timeout limits the time of an attempt. By default, only the Sender limits it.
	Timeout time.Duration
	// Attempts is the store that trims attempts, which the stores of the shards write with SaveAttempts. If it is nil,
	// no attempts are stored.
	Attempts engine.Attempts
	// AttemptBounds limits the stored attempts. The defaults are 100 attempts per subscription, 7 days, and 1,000,000
	// attempts in total.
	AttemptBounds engine.AttemptBounds
	// Identity adds the server's signature (HOOK-10). If it is nil, requests have no server signature.
	Identity *webhook.Identity

	// webhooks.Retry documents these options and their defaults (HOOK-3, HOOK-5, HOOK-9). RetryWindow is its Window. The
	// Sender should keep up to PerHost idle connections to each host.
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

	// Ended is called after a subscription has expired or the engine has ended it, but not after Remove or Terminate.
	// If Ended is nil, the engine removes expired subscriptions.
	Ended func(h *Handle, why End)
	// Gapped is called before progress moves past a gap. The caller can then store the gap for the next subscribe
	// response (D7). The engine calls Ended and Gapped from its goroutines, without holding its locks.
	Gapped func(h *Handle)

	// Owner is the name of this process in stored reports. It is "" if no other process delivers.
	Owner string
	// Now returns the current time, which is stored, signed and compared with stored times. The default is time.Now.
	// Now must not call the engine.
	Now func() time.Time
	// Log messages contain ids and categories, but no secrets, payloads or responses. The default is slog.Default.
	Logger *slog.Logger
	// Telemetry receives reports of attempts and their results. The default is telemetry.Discard.
	Telemetry telemetry.Recorder
}

// ErrClosed is returned after the engine has been shut down.
var ErrClosed = errors.New("delivery: engine is shut down")

// setDefaults replaces zero fields with their defaults.
func (o *Options) setDefaults() error {
	if o.Sender == nil {
		return errors.New("delivery: Options.Sender is missing")
	}
	o.Telemetry = cmp.Or(o.Telemetry, telemetry.Discard)
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
	orDefault(&o.Timeout, farFuture)
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
	if o.Suspend.Span == 0 {
		o.Suspend.Span = min(5*time.Minute, o.Suspend.Window/windowSlices)
	}
	if o.Suspend.Span > o.Suspend.Window/2 {
		return fmt.Errorf("delivery: Options.Suspend.Span is %v, must be at most half of Window, which is %v", o.Suspend.Span, o.Suspend.Window)
	}
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

// An Engine delivers occurrences to webhook subscriptions. It is safe for concurrent use. The caller can hold locks
// while it calls methods of the engine and its handles. However, the Reader's methods, Ended and Gapped must not
// acquire these locks. Methods with a context parameter can wait for the store.
type Engine struct {
	o       Options
	born    time.Time // when the engine's clock began
	perHost bounds
	inAll   bounds
	base    context.Context // for all attempts
	abort   context.CancelFunc
	// stopObserving ends the reports of current values to o.Telemetry.
	stopObserving func()

	mu        sync.Mutex
	closing   bool
	whole     *Shard              // the last envelopes of shards that were given away
	shards    map[*Shard]struct{} // whole is one of them
	hosts     map[string]*host
	tenants   map[string]*tenant
	guests    map[visit]*guest
	rings     [classes]queue[*host] // hosts with ready handles and a free place
	class     class                 // of the last turn
	active    turnCounts
	workers   int
	flying    int // attempts in flight
	due       timerQueue
	saver     saver
	trimmer   periodicTask
	lines     []logLine
	resending map[resendKey]struct{} // occurrences being sent by an operator
	idle      chan struct{}          // closed when the last worker of a closing engine exits
}

// New returns an Engine. If an option is invalid, the error names it.
func New(o Options) (*Engine, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	e := &Engine{o: o, born: time.Now(), perHost: boundsOf(o.PerHost), inAll: boundsOf(o.Workers), shards: map[*Shard]struct{}{}, hosts: map[string]*host{}, tenants: map[string]*tenant{}, guests: map[visit]*guest{}, resending: map[resendKey]struct{}{}, idle: make(chan struct{})}
	e.whole = e.NewShard(ShardOptions{})
	e.due.now = e.clock
	e.due.fire, e.saver.batch = e.handleTimer, maxBatch
	e.base, e.abort = context.WithCancel(context.Background())
	e.stopObserving = o.Telemetry.Observe(observedKinds, e.observe)
	if o.Attempts != nil {
		e.trimmer.begin(e, trimDelay, e.trimAttempts) // an earlier process may have left some
	}
	return e, nil
}

// Len returns the number of subscriptions.
func (e *Engine) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for s := range e.shards {
		n += len(s.handles)
	}
	return n
}

// now returns the current time, which is stored, signed and compared with stored times.
func (e *Engine) now() time.Time { return e.o.Now() }

// allHandles returns an iterator over the handles of all shards. e.mu must be held.
func (e *Engine) allHandles() iter.Seq[*Handle] {
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

// visitStep is the number of handles that walk visits before it briefly releases the engine's lock.
const visitStep = 256

// visitHandles calls f for all handles under the engine's lock. It releases the lock briefly after every visitStep
// handles, so other goroutines do not wait long. It can miss handles that are added during the call.
func (e *Engine) visitHandles(f func(*Handle)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for h := range e.allHandles() { // a map may change during a range
		f(h)
		if n++; n%visitStep == 0 {
			e.mu.Unlock()
			runtime.Gosched()
			e.mu.Lock()
		}
	}
}
