// Package telemetry defines what servers and clients report for metrics and traces. Package otelevents passes the
// reports to OpenTelemetry. An author who uses something else implements [Recorder].
package telemetry

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// A Recorder receives reports. Its methods are called concurrently, also while locks are held. They must not block or
// call the server or client that reports.
type Recorder interface {
	// Begin is called before an attempt. The attempt uses the returned context.
	Begin(ctx context.Context, a Attempt) context.Context
	// End is called after the attempt, with the context that Begin returned. failure is the category of the error, or
	// empty after a success.
	End(ctx context.Context, failure string)
	// Record adds a value to a series: a number of things that happened, or the seconds that one thing took.
	Record(ctx context.Context, s Series, value float64)
	// Observe registers a function that reports the current values of all series of the kinds. The returned function
	// ends the registration.
	Observe(kinds []Kind, read func(report func(s Series, value float64))) (stop func())
}

// Discard is a Recorder that ignores all reports.
var Discard Recorder = discard{}

type discard struct{}

func (discard) Begin(ctx context.Context, _ Attempt) context.Context { return ctx }
func (discard) End(context.Context, string)                          {}
func (discard) Record(context.Context, Series, float64)              {}
func (discard) Observe([]Kind, func(func(Series, float64))) func()   { return func() {} }

// A Series identifies what a value measures. Its fields have small sets of values: names of registered event types and
// fixed words, but nothing that callers or endpoints choose. A field that does not apply is empty.
type Series struct {
	Kind Kind
	// Type is the name of an event type.
	Type string
	// Outcome is the result of what happened.
	Outcome string
	// Failure is the category of the error.
	Failure string
	// Detail distinguishes series of a kind further. The kind says how.
	Detail string
}

// An Attempt is one of possibly several tries to deliver or handle an event. Kind is [Delivery] or [Handling].
type Attempt struct {
	Series
	// Number is 1 for the first attempt.
	Number int
	// Subscription is the id of the webhook subscription. It is empty for a Handling.
	Subscription string
	// Meta is the _meta of the handled event. It may contain the trace context in which the event was emitted.
	Meta json.RawMessage
}

// A Kind is a kind of [Series].
type Kind int

// The kinds of series.
const (
	// Attempts, for [Recorder.Begin].

	Delivery Kind = iota // a request to an endpoint; Detail is its envelope
	Handling             // a call of a handler of client.Consume

	// Counts and durations, for [Recorder.Record].

	Emits             // calls of Emit
	Polls             // answered polls
	Frames            // written to streams; Detail is event or control
	StoreDuration     // of an operation of a durable store; Detail is its name
	OutboxRejected    // rejected outbox entries
	Deliveries        // occurrences that were settled for webhook subscriptions
	DeliveryAttempts  // requests to endpoints; Detail is the envelope
	DeliveryDuration  // of a request to an endpoint
	Verifications     // of callbacks; Detail is the method
	IngressDeliveries // webhooks that arrived; Detail is the service
	MCPENotifications // handed to a connection; Detail is the MCP method
	MCPEDropped       // events that an MCPE subscription did not get
	MCPEHandlers      // runs of handlers of MCPE; Detail is the kind of handler
	HandlingAttempts  // calls of handlers of client.Consume
	ConsumeProblems   // outside the handlers of client.Consume

	// Current values, for [Recorder.Observe].

	LogAppended          // occurrences that became visible in this process; the value never falls
	PollsHeld            // polls that wait for an occurrence
	PollLeases           // pollers with a lease
	StreamsOpen          // and subscriptions of MCPE
	StreamLag            // entries by which the slowest stream lags its log
	TailDelay            // seconds since this process last read a log that other processes append to
	ShardsOwned          // by this process; Detail is the work
	LeaseHeld            // 1 while this process holds its lease on a shared store, otherwise 0
	OutboxAge            // seconds that the oldest occurrence has waited in the outbox
	ControlDelay         // seconds since this process last read the operators' orders
	StoreGeneration      // number of new epochs of a shared store's logs
	DeliveriesInFlight   // requests to endpoints
	WebhookSubscriptions // Detail is the state
	WebhookLag           // entries by which the slowest webhook subscription lags its log
	HandlingInFlight     // received events that are not settled
	HandlingLag          // seconds since the oldest of them was received
)

// FailureOf returns the category of an error from a fixed list of words. It returns an empty string for nil.
func FailureOf(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, events.ErrClosed):
		return "closed"
	case errors.Is(err, events.ErrInvalidPayload):
		return "invalid_payload"
	case errors.Is(err, events.ErrTooLarge):
		return "too_large"
	case errors.Is(err, events.ErrIDReused):
		return "id_reused"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "cancelled"
	}
	if typed, ok := errors.AsType[*events.Error](err); ok {
		return typed.Kind.String()
	}
	return "_OTHER" // defined by OpenTelemetry
}
