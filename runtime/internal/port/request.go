package port

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
)

// A Request is an events/* request as passed by a carrier.
type Request struct {
	// Method is the JSON-RPC method.
	Method string
	// Params are the request's params as received, or nil if absent.
	Params json.RawMessage
	// ID is the JSON-RPC ID as received, a number or a string. The digits of a number are unchanged (PUSH-2).
	ID json.RawMessage
	// Principal is the authenticated caller, or "" if unauthenticated (AUTH-3).
	Principal string
	// Stateless reports whether the request follows revision 2026-07-28 or later (D3, D9).
	Stateless bool
	// DeclaresExtension reports whether the caller has declared the extension (D2, CAP-3).
	DeclaresExtension bool
	// CanStream reports whether the carrier supports events/stream (LIST-3).
	CanStream bool
	// AfterReply, if set, calls f once the response has been written or can no longer be written. If that has already
	// happened, it returns false and does not call f. If AfterReply is nil, webhook deliveries wait for a fixed time.
	AfterReply func(f func()) bool
	// Expires is when the caller's token expires. The zero time means never (AUTH-4).
	Expires time.Time
	// Until limits the grant of a webhook subscription, as in [Guest].
	Until time.Time
}

// A Carrier writes the notifications of one stream.
type Carrier interface {
	// Write sends all frames in order, with one write and one flush. It blocks until they have been passed to the
	// connection. An error ends the stream. The frames' bytes are shared and must not be modified. The slice is reused
	// after Write returns.
	Write(frames []frame.Frame) error
}

// A Stream is an accepted events/stream request. Its carrier must call Run, or Close if it cannot run the stream.
type Stream interface {
	// Run writes the stream to c until it ends, in the caller's goroutine. It writes active first (PUSH-1), then events
	// in order and a heartbeat at each interval (PUSH-3, PUSH-4).
	//
	// When the server ends the stream, Run returns the JSON-RPC result that closes the request (D9), after a terminated
	// notification if there is a reason (PUSH-6). When ctx ends, Run returns its error and writes nothing more
	// (PUSH-8). When Write fails, Run returns that error. The stream's resources are released when Run returns.
	Run(ctx context.Context, c Carrier) (final json.RawMessage, err error)
	// End ends the stream gracefully: Run finishes its current write and returns the final result, without terminated
	// (PUSH-8). It may be called at any time and more than once.
	End()
	// Close releases a stream that was opened but never run. After Run it does nothing.
	Close()
}

// A FollowRequest selects the events that an adapter wants to read.
type FollowRequest struct {
	// Event is the event type's name.
	Event string
	// Principal is the principal on whose behalf the adapter reads. Visibility, authorization, checks and hooks apply
	// to this principal.
	Principal string
	// Mode is the adapter's name. Hooks receive it in Subscription.Mode.
	Mode string
	// Arguments are the subscription arguments, or nil for none.
	Arguments json.RawMessage
	// Cursor is the start position. If it is nil, the follower starts with events after the call.
	Cursor *string
}

// Followed is the result of [Follower.Next].
type Followed struct {
	// Occurrences are the occurrences in order, after the author's Match and Transform have been applied. Their Cursor
	// is empty.
	Occurrences []events.Occurrence
	// Gap reports whether occurrences before these were lost (PUSH-7).
	Gap bool
	// Cursor is the position after Occurrences, or "" for a type without cursors.
	Cursor string
}

// A Follower reads one event type for an adapter, as a push subscription does for a client. The server treats it as a
// subscription: it calls hooks for it and ends it under the same conditions as a stream (AUTH-2, EVOL-1). All methods
// except Close must be called from one goroutine.
type Follower interface {
	// Next waits for occurrences or a gap. It returns ctx's error when ctx ends, and the reason when the subscription
	// ends: an [events.Error], or [events.ErrClosed] after a shutdown of the server or Close. Upstream failures and
	// failures of single occurrences are logged.
	Next(ctx context.Context) (Followed, error)
	// Passed returns the cursor after everything that Next has returned, at first the start position. It is "" for a
	// type without cursors. It may be called while Next runs.
	Passed() string
	// Close ends the subscription. It may be called more than once, also while Next runs.
	Close()
}
