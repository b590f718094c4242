package port

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
)

// A Request is one events/* request as a carrier hands it over.
type Request struct {
	// Method is the JSON-RPC method.
	Method string
	// Params are the request's params as received; nil when absent.
	Params json.RawMessage
	// ID is the JSON-RPC id as received, number or string, digits unchanged (PUSH-2).
	ID json.RawMessage
	// Principal is who asks; "" for nobody (AUTH-3).
	Principal string
	// Stateless tells that the request follows revision 2026-07-28 or later (D3, D9).
	Stateless bool
	// DeclaresExtension tells that the caller declared the extension (D2, CAP-3).
	DeclaresExtension bool
	// CanStream tells that the carrier can carry events/stream (LIST-3).
	CanStream bool
	// AfterReply, when set, has f called once the answer is written or never will be; false when that
	// has happened, and f is not called. Without it webhook deliveries wait a fixed time.
	AfterReply func(f func()) bool
	// Expires is when the caller's token expires; zero for never (AUTH-4).
	Expires time.Time
}

// A Carrier writes the notifications of one stream.
type Carrier interface {
	// Write sends all frames in order: one write, one flush. It blocks until they are handed to
	// the connection; an error ends the stream. The frames' bytes are shared and must not be
	// changed; the slice is reused after Write returns.
	Write(frames []frame.Frame) error
}

// A Stream is an accepted events/stream request. Its carrier calls Run, or Close when it cannot.
type Stream interface {
	// Run writes the stream to c until it ends, in the caller's goroutine. First comes active (PUSH-1),
	// then events in order and a heartbeat at every interval (PUSH-3, PUSH-4).
	//
	// When the server ends the stream, Run returns the JSON-RPC result that closes the request (D9),
	// after a terminated notification where there is a reason to tell (PUSH-6). When ctx ends, Run
	// returns its error and writes nothing more (PUSH-8); when Write fails, that error. Everything
	// that the stream holds is free when Run returns.
	Run(ctx context.Context, c Carrier) (final json.RawMessage, err error)
	// End ends the stream gracefully: Run finishes the write it is in and returns the final result,
	// without terminated (PUSH-8). It may be called at any time and more than once.
	End()
	// Close gives back a stream that was opened and never run; after Run it does nothing.
	Close()
}

// A FollowRequest says what an adapter wants to read.
type FollowRequest struct {
	// Event is the event type's name.
	Event string
	// Principal is who the adapter reads for: visibility, authorization, checks and hooks see it.
	Principal string
	// Mode is what hooks find in Subscription.Mode: the adapter's name.
	Mode string
	// Arguments are the subscription arguments; nil stands for none.
	Arguments json.RawMessage
	// Cursor is where to begin; nil stands for the moment of the call.
	Cursor *string
}

// Followed is what [Follower.Next] found.
type Followed struct {
	// Occurrences are in order, after the author's Match and Transform. Their Cursor is empty.
	Occurrences []events.Occurrence
	// Gap tells that occurrences before these were lost (PUSH-7).
	Gap bool
	// Cursor is the position after Occurrences; "" for a type without cursors.
	Cursor string
}

// A Follower reads one event type for an adapter, as a push subscription does for a client: it is
// among the server's subscriptions, hooks hear of it, and what ends a stream ends it (AUTH-2, EVOL-1).
// Its methods are for one goroutine, but Close is for any.
type Follower interface {
	// Next waits for occurrences or a gap. It returns ctx's error when ctx ends, and the reason when
	// the subscription is over: an [events.Error], or [events.ErrClosed] when the server shuts down or
	// Close was called. What goes wrong upstream or with a single occurrence is logged.
	Next(ctx context.Context) (Followed, error)
	// Passed returns the cursor after what Next has returned so far, at first that of the beginning; ""
	// for a type without cursors. It may be called while Next runs.
	Passed() string
	// Close ends the subscription. It may be called more than once, also while Next runs.
	Close()
}
