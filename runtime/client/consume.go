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

// ConsumeOptions configure [Consume]. Store is required.
type ConsumeOptions struct {
	// Store keeps cursors and dead letters: a [memory.Cursors], gone with the process, a [file.Cursors] or a
	// [sqlite.Store]. With webhooks it is the client's Webhook.Received or its Cursors. See CON-2, CON-4.
	//
	// [memory.Cursors]: https://pkg.go.dev/github.com/mcpe-gen/mcpe-gen/runtime/store/memory#Cursors
	// [file.Cursors]: https://pkg.go.dev/github.com/mcpe-gen/mcpe-gen/runtime/store/file#Cursors
	// [sqlite.Store]: https://pkg.go.dev/github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite#Store
	Store clientstore.ConsumerStore
	// Workers is how many handlers run at once; 0 means 1. One worker without a Key handles all events in the order
	// in which they came, and the ones behind an event that is retried wait for it. See CON-5.
	Workers int
	// Key returns what the events have in common that are to be handled one after the other, across all event types;
	// "" orders an event with no other. An event that is retried holds those of its key, and no others. Key is called
	// before the middleware. Where it panics the event becomes a dead letter. See CON-5.
	Key func(events.Occurrence) string
	// Middleware is put around every handler, the first outermost. See CON-9.
	Middleware []func(next Handler) Handler
	// MaxTries is how often an event is handed to its handler before it becomes a dead letter; 0 means 5. See CON-3.
	MaxTries int
	// Retry spaces the tries. Zero values mean 1 s and 1 min.
	Retry Backoff
	// MaxDeadLetters is how many dead letters a subscription may have; 0 means 1,000. When another event becomes one,
	// Consume ends with an error that wraps [clientstore.ErrDeadLettersFull]. See CON-4.
	MaxDeadLetters int
	// DrainTimeout is how long handlers may go on once ctx is done; 0 means 10 s. Then their context ends too. See
	// CON-1.
	DrainTimeout time.Duration
	// OnProblem is told of what goes wrong beside the handlers: a [GapError], a [RecoverableError], a [PayloadError],
	// a [CommitError], or why a subscription has to wait for its server. nil logs them. It must not block, and may be
	// called from several goroutines at once. See CON-8.
	OnProblem func(error)
	// Meter and Tracer replace those of OpenTelemetry's global providers. See CON-7.
	Meter  metric.Meter
	Tracer trace.Tracer
}

// A Handler handles one event; nil settles it. It is what middleware sees of the typed handlers: they decode the
// payload that the occurrence has when it reaches them.
type Handler func(ctx context.Context, o events.Occurrence) error

// A Binding is a subscription and what handles its events. [Handle] and the Handle functions of generated packages
// make them.
type Binding struct {
	name, fingerprint string
	args              any          // points to the arguments
	event             reflect.Type // of the events
	handle            func(ctx context.Context, ev any) error
	options           []SubscribeOption
}

// Handle binds f to the events of type t that a subscription with args receives. f is called by as many workers at
// once as there are; a nil from it settles the event. After an error the event is retried; see [Discard] and
// [RetryAfter]. A panic is an error with its stack. The context of f ends when a drain has taken too long.
//
// The options are those of [Subscribe], except [WithManualAck].
func Handle[A, P any](t events.Type[A, P], args A, f func(ctx context.Context, ev *events.Event[A, P]) error, o ...SubscribeOption) Binding {
	return Binding{name: t.Name, fingerprint: t.Fingerprint, args: &args, event: reflect.TypeFor[events.Event[A, P]](),
		handle: func(ctx context.Context, ev any) error { return f(ctx, ev.(*events.Event[A, P])) }, options: o}
}

func init() { untyped.Bind = bind }

// bind is [Handle] with its types erased, so that a package of many event types compiles none of it for each.
func bind(name, fingerprint string, args, f, options any) any {
	call := reflect.ValueOf(f)
	return Binding{name: name, fingerprint: fingerprint, args: args, event: call.Type().In(1).Elem(),
		handle: func(ctx context.Context, ev any) error {
			err, _ := call.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(ev)})[0].Interface().(error)
			return err
		}, options: options.([]SubscribeOption)}
}

// Consume subscribes as the bindings say and hands what arrives to their handlers, until ctx is done. Then nothing new
// starts, handlers that run finish, and Consume returns nil; what was not handled is received again after a restart,
// unless the event type has no replay. See CON-1.
//
// Consume waits for a server that is away. When the server refuses a subscription, or ends one later, Consume
// returns that error after the same drain. So it does after [Client.Close], and when there are more dead letters
// than allowed. See CON-6.
//
// The saved cursor is a watermark: everything before it is settled, in whatever order the workers finish. It is saved
// at most every 100 ms and at the end, with the ids of what is settled beyond it, so that a crash repeats only what
// was in flight or settled since. At most [Options].RecentIDs/2 events are handed out beyond the oldest that is not
// settled: an event that waits for its retry holds a subscription up once so many have passed it. See CON-2.
//
// An event whose last try has failed, one that is discarded, and one that does not decode become dead letters, which
// [clientstore.DeadLetters] lists. See CON-3.
func Consume(ctx context.Context, c *Client, o ConsumeOptions, b ...Binding) error {
	k, err := newConsumer(ctx, c, o, b)
	if err != nil {
		return err
	}
	return k.run(ctx)
}

// Discard marks the error of a handler as final: the event becomes a dead letter without further tries. See CON-3.
func Discard(err error) error { return &discardError{err} }

type discardError struct{ err error }

func (e *discardError) Error() string { return fmt.Sprint("discarded: ", e.err) }
func (e *discardError) Unwrap() error { return e.err }

// RetryAfter marks the error of a handler: the event is tried again after d and not after the backoff. The try
// still counts. See CON-3.
func RetryAfter(d time.Duration, err error) error { return &retryError{max(d, 0), err} }

type retryError struct {
	after time.Duration
	err   error
}

func (e *retryError) Error() string {
	return fmt.Sprintf("to be tried again in %v: %v", e.after, e.err)
}
func (e *retryError) Unwrap() error { return e.err }

// A panicError is what a panic of a handler becomes.
type panicError struct {
	value any
	stack []byte
}

func recovered(v any) error { return &panicError{v, debug.Stack()} }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.value, e.stack) }

// Unwrap returns what the handler panicked with, where that is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// errExited says that a handler ended its goroutine.
var errExited = errors.New("the handler called runtime.Goexit")
