package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/untyped"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
)

// ConsumeOptions configures [Consume]. Store is required.
type ConsumeOptions struct {
	// Store keeps cursors and dead letters. Use a [memory.Cursors], which is lost with the process, a [file.Cursors] or
	// a [sqlite.Store]. With webhooks it is the client's Webhook.Received or its Cursors. See CON-2, CON-4.
	//
	// [memory.Cursors]: https://pkg.go.dev/github.com/mcpe-gen/mcpe-gen/runtime/store/memory#Cursors
	// [file.Cursors]: https://pkg.go.dev/github.com/mcpe-gen/mcpe-gen/runtime/store/file#Cursors
	// [sqlite.Store]: https://pkg.go.dev/github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite#Store
	Store clientstore.ConsumerStore
	// Workers is how many handlers run concurrently; 0 means 1. One worker without a Key handles all events in the
	// order of arrival, and a retried event delays the events after it. See CON-5.
	Workers int
	// Key returns an ordering key: events with equal keys are handled one after another, across all event types. The
	// key "" imposes no order. A retried event delays only the events of its key. Key is called before the middleware.
	// If it panics, the event becomes a dead letter. See CON-5.
	Key func(events.Occurrence) string
	// Middleware wraps every handler; the first is the outermost. See CON-9.
	Middleware []func(next Handler) Handler
	// MaxTries is how often an event is handed to its handler before it becomes a dead letter; 0 means 5. See CON-3.
	MaxTries int
	// Retry spaces the attempts. Zero values mean 1 s and 1 min.
	Retry Backoff
	// MaxDeadLetters is how many dead letters a subscription may have; 0 means 1,000. If another event becomes one,
	// Consume ends with an error that wraps [clientstore.ErrDeadLettersFull]. See CON-4.
	MaxDeadLetters int
	// DrainTimeout is how long handlers may keep running after ctx is done; 0 means 10 s. After that their context ends
	// as well. See CON-1.
	DrainTimeout time.Duration
	// OnProblem receives problems outside the handlers; if nil, they are logged. They are a [GapError], a
	// [RecoverableError], a [PayloadError], a [CommitError], or the reason why a subscription waits for its server.
	// OnProblem must not block, and may be called from several goroutines concurrently. See CON-8.
	OnProblem func(error)
	// Meter and Tracer replace those of OpenTelemetry's global providers. See CON-7.
	Meter  metric.Meter
	Tracer trace.Tracer
}

// A Handler handles one event; returning nil settles it. Middleware wraps the typed handlers in this form: they decode
// the payload that the occurrence has when it reaches them.
type Handler func(ctx context.Context, o events.Occurrence) error

// A Binding is a subscription with the handler of its events. [Handle] and the Handle functions of generated packages
// create bindings.
type Binding struct {
	name, fingerprint string
	args              any          // points to the arguments
	event             reflect.Type // of the events
	handle            func(ctx context.Context, ev any) error
	options           []SubscribeOption
}

// Handle binds f to the events of type t that a subscription with args receives. Up to ConsumeOptions.Workers calls of
// f run concurrently; a nil return settles the event. After an error the event is retried; see [Discard] and
// [RetryAfter]. A panic counts as an error with its stack. The context of f ends when a drain exceeds its timeout.
//
// The options are those of [Subscribe], except [WithManualAck].
func Handle[A, P any](t events.Type[A, P], args A, f func(ctx context.Context, ev *events.Event[A, P]) error, o ...SubscribeOption) Binding {
	return Binding{name: t.Name, fingerprint: t.Fingerprint, args: &args, event: reflect.TypeFor[events.Event[A, P]](),
		handle: func(ctx context.Context, ev any) error { return f(ctx, ev.(*events.Event[A, P])) }, options: o}
}

func init() { untyped.Bind = bind }

// bind is [Handle] with its types erased, so that a package with many event types does not compile it for each.
func bind(name, fingerprint string, args, f, options any) any {
	call := reflect.ValueOf(f)
	return Binding{name: name, fingerprint: fingerprint, args: args, event: call.Type().In(1).Elem(),
		handle: func(ctx context.Context, ev any) error {
			err, _ := call.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(ev)})[0].Interface().(error)
			return err
		}, options: options.([]SubscribeOption)}
}

// Consume subscribes as the bindings say and calls their handlers with the events, until ctx is done. Then it starts no
// new handler, waits for the running ones and returns nil. Unhandled events are received again after a restart, unless
// the event type has no replay. See CON-1.
//
// Consume waits for an unavailable server. If the server refuses a subscription, or ends one later, Consume returns
// that error after the same drain. It does the same after [Client.Close], and if there are more dead letters than
// allowed. See CON-6.
//
// The saved cursor is a watermark: all events before it are settled, in whatever order the workers finish. It is saved
// at most every 100 ms and at the end, with the IDs of later settled events, so that a crash repeats only events that
// were in flight or settled since the last save. At most [Options].RecentIDs/2 events are handed out after the oldest
// unsettled one: an event that waits for its retry blocks the subscription once that many have passed it. See CON-2.
//
// An event becomes a dead letter when its last attempt fails, when its handler discards it, and when it cannot be
// decoded. [clientstore.DeadLetters] lists them. See CON-3.
func Consume(ctx context.Context, c *Client, o ConsumeOptions, b ...Binding) error {
	k, err := newConsumer(ctx, c, o, b)
	if err != nil {
		return err
	}
	return k.run(ctx)
}

// Discard marks a handler's error as final: the event becomes a dead letter without further attempts. See CON-3.
func Discard(err error) error { return &discardError{err} }

type discardError struct{ err error }

func (e *discardError) Error() string { return fmt.Sprint("discarded: ", e.err) }
func (e *discardError) Unwrap() error { return e.err }

// RetryAfter marks a handler's error: the event is retried after d instead of the backoff. The attempt still counts.
// See CON-3.
func RetryAfter(d time.Duration, err error) error { return &retryError{max(d, 0), err} }

type retryError struct {
	after time.Duration
	err   error
}

func (e *retryError) Error() string {
	return fmt.Sprintf("retry in %v: %v", e.after, e.err)
}
func (e *retryError) Unwrap() error { return e.err }

// A panicError is the error of a handler that panicked.
type panicError struct {
	value any
	stack []byte
}

func recovered(v any) error { return &panicError{v, debug.Stack()} }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.value, e.stack) }

// Unwrap returns the panic's value if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// errExited reports that a handler ended its goroutine.
var errExited = errors.New("the handler called runtime.Goexit")
