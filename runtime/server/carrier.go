package server

import (
	"bytes"
	"encoding/json"
	"time"
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

// A Frame is one complete JSON-RPC notification, compact JSON: Head followed by Tail. Head is
// shared by all streams that carry the same event, Tail is the stream's own. For carriers.
type Frame struct {
	Head, Tail []byte
}

// Every head begins with these bytes and has the params' opening after the method.
const (
	framePrefix = `{"jsonrpc":"2.0","method":"`
	frameParams = `","params":`
)

// Method returns the notification's method.
func (f Frame) Method() string {
	rest := f.Head[len(framePrefix):]
	return string(rest[:bytes.IndexByte(rest, '"')])
}

// Params returns a copy of the notification's params, for connections that send messages rather
// than bytes.
func (f Frame) Params() json.RawMessage {
	rest := f.Head[len(framePrefix):]
	rest = rest[bytes.IndexByte(rest, '"')+len(frameParams):]
	p := make(json.RawMessage, 0, len(rest)+len(f.Tail)-1)
	p = append(p, rest...)
	return append(p, f.Tail[:len(f.Tail)-1]...)
}
