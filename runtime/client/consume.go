package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/untyped"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientstore"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
)

// ConsumeOptions configures [Consume]. Store is required.
type ConsumeOptions struct {
	// Store stores cursors and dead letters. Use a [file.Cursors] or a [sqlite.Store], or a [clientmemory.Cursors] if the
	// content may be lost when the process ends. With webhooks, use the client's Webhook.Received or its Cursors. See
	// CON-2, CON-4.
	//
	// [clientmemory.Cursors]: https://pkg.go.dev/github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory#Cursors
	// [file.Cursors]: https://pkg.go.dev/github.com/mcpe-gen/mcpe-gen/runtime/store/file#Cursors
	// [sqlite.Store]: https://pkg.go.dev/github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite#Store
	Store clientstore.ConsumerStore
	// Workers is the number of handlers that run concurrently; 0 means 1. A single worker without a Key handles all
	// events in the order of arrival, and a retried event delays the events after it. See CON-5.
	Workers int
	// Key returns an ordering key. Events with equal keys are handled in sequence, across all event types. The key ""
	// imposes no order. A retried event delays only events with the same key. Key is called before the middleware. If
	// Key panics, the event becomes a dead letter. See CON-5.
	Key func(events.Occurrence) string
	// Middleware wraps every handler; the first element is the outermost. See CON-9.
	Middleware []func(next Handler) Handler
	// MaxTries is the number of failed attempts after which an event becomes a dead letter; 0 means 5. See CON-3.
	MaxTries int
	// Retry configures the waits between attempts. The default minimum is 1 s, the default maximum 1 min.
	Retry Backoff
	// MaxDeadLetters is the maximum number of dead letters per subscription; 0 means 1,000. If another event becomes a
	// dead letter, Consume returns an error that wraps [clientstore.ErrDeadLettersFull]. See CON-4.
	MaxDeadLetters int
	// DrainTimeout is how long handlers may continue to run after ctx is done; 0 means 10 s. After that, their context
	// is cancelled. See CON-1.
	DrainTimeout time.Duration
	// OnProblem is called for each problem outside the handlers; if nil, problems are logged. A problem is a
	// [GapError], a [RecoverableError], a [PayloadError], a [CommitError], or the reason a subscription is waiting for
	// its server. OnProblem must not block and must be safe for concurrent use. See CON-8.
	OnProblem func(error)
	// Telemetry receives reports for metrics and traces: otelevents.New. The default is telemetry.Discard. See CON-7.
	Telemetry telemetry.Recorder
}

// A Handler handles one event. If it returns nil, the event is settled. Middleware receives each typed handler as a
// Handler, which decodes the payload of the occurrence that it is passed.
type Handler func(ctx context.Context, o events.Occurrence) error

// A Binding is a subscription with a handler for its events. [Handle] and the Handle functions of generated packages
// create bindings.
type Binding struct {
	name, fingerprint string
	args              any          // points to the arguments
	event             reflect.Type // of the events
	handle            func(ctx context.Context, ev any) error
	options           []SubscribeOption
}

// Handle returns a binding that calls f for the events of type t that match args. Up to ConsumeOptions.Workers calls of
// f run concurrently. If f returns nil, the event is settled. If f returns an error, the event is retried; see
// [Discard] and [RetryAfter]. If f panics, the panic becomes an error that includes the stack. The context of f is
// cancelled when a drain exceeds its timeout.
//
// The options are those of [Subscribe], except [WithManualAck].
func Handle[A, P any](t events.Type[A, P], args A, f func(ctx context.Context, ev *events.Event[A, P]) error, o ...SubscribeOption) Binding {
	return Binding{name: t.Name, fingerprint: t.Fingerprint, args: &args, event: reflect.TypeFor[events.Event[A, P]](),
		handle: func(ctx context.Context, ev any) error { return f(ctx, ev.(*events.Event[A, P])) }, options: o}
}

func init() { untyped.Bind = bind }

// bind is [Handle] without type parameters, which avoids compiling it for each event type of a package.
func bind(name, fingerprint string, args, f, options any) any {
	call := reflect.ValueOf(f)
	return Binding{name: name, fingerprint: fingerprint, args: args, event: call.Type().In(1).Elem(),
		handle: func(ctx context.Context, ev any) error {
			err, _ := call.Call([]reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(ev)})[0].Interface().(error)
			return err
		}, options: options.([]SubscribeOption)}
}

// Consume subscribes for each binding and calls the handlers with the events until ctx is done. Then it waits for the
// running handlers and returns nil. After a restart, unhandled events are received again, unless the event type has no
// replay. See CON-1.
//
// Consume waits for an unavailable server. If the server refuses or ends a subscription, Consume drains in the same way
// and returns the error. It also does so after [Client.Close], and if there are too many dead letters. See CON-6.
//
// The saved cursor is a watermark: all events before it are settled, regardless of the order in which the workers
// finish. Consume saves it at most every 100 ms and before it returns, together with the IDs of later events that are
// settled. A crash causes redelivery only of events that were in flight or were settled since the last save. At most
// [Options].RecentIDs/2 events are handed out from the oldest unsettled event on. Once this limit is reached, an event
// that waits for its retry blocks the subscription. See CON-2.
//
// An event becomes a dead letter if its last attempt fails, if its handler discards it, or if it cannot be decoded.
// [clientstore.DeadLetters] lists the dead letters. See CON-3.
func Consume(ctx context.Context, c *Client, o ConsumeOptions, b ...Binding) error {
	k, err := newConsumer(ctx, c, o, b)
	if err != nil {
		return err
	}
	return k.run(ctx)
}

// Discard wraps a handler's error to make the event a dead letter without further attempts. See CON-3.
func Discard(err error) error { return &discardError{err} }

type discardError struct{ err error }

func (e *discardError) Error() string { return fmt.Sprint("discarded: ", e.err) }
func (e *discardError) Unwrap() error { return e.err }

// RetryAfter wraps a handler's error to retry the event after d instead of after the backoff delay. The attempt still
// counts. See CON-3.
func RetryAfter(d time.Duration, err error) error { return &retryError{max(d, 0), err} }

type retryError struct {
	after time.Duration
	err   error
}

func (e *retryError) Error() string {
	return fmt.Sprintf("retry in %v: %v", e.after, e.err)
}
func (e *retryError) Unwrap() error { return e.err }

// A panicError is the error for a handler that panicked.
type panicError struct {
	value any
	stack []byte
}

func recovered(v any) error { return &panicError{v, debug.Stack()} }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v\n\n%s", e.value, e.stack) }

// Unwrap returns the value of the panic if it is an error.
func (e *panicError) Unwrap() error {
	err, _ := e.value.(error)
	return err
}

// errExited is the error for a handler that called runtime.Goexit.
var errExited = errors.New("the handler called runtime.Goexit")
