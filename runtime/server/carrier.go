package server

import (
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/frame"
)

// A Request is one events/* request as a carrier hands it over. For carriers.
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

// A Carrier writes the notifications of one stream. For carriers.
type Carrier interface {
	// Write sends all frames in order: one write, one flush. It blocks until they are handed to
	// the connection; an error ends the stream. The frames' bytes are shared and must not be
	// changed; the slice is reused after Write returns.
	Write(frames []Frame) error
}

// A Frame is one notification. For carriers.
type Frame = frame.Frame
