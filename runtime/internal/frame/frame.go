// Package frame encodes the frames of a push stream. Each frame is one JSON-RPC notification in compact JSON.
package frame

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A Frame is a complete JSON-RPC notification in compact JSON, cut into pieces. All streams that send the same event
// share the pieces before and after its data. The last piece is the tail of the stream.
type Frame [4][]byte

// The text of every frame before and after the method.
const (
	opening = `{"jsonrpc":"2.0","method":"`
	params  = `","params":`
)

// EventOpening is the start of an event's frame, up to and including the params key.
const EventOpening = opening + wire.NotificationEvent + params

// Method returns the notification's method.
func (f Frame) Method() string {
	rest := f[0][len(opening):]
	return string(rest[:bytes.IndexByte(rest, '"')])
}

// Params returns a copy of the notification's params. It is used by connections that send messages instead of bytes.
func (f Frame) Params() json.RawMessage {
	rest := bytes.Join(f[:], nil)[len(opening):]
	return rest[bytes.IndexByte(rest, '"')+len(params) : len(rest)-1]
}

// AppendString appends the JSON encoding of s, an eventId or cursor, to b.
func AppendString(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			q, err := json.Marshal(s)
			if err != nil {
				return append(b, `""`...)
			}
			return append(b, q...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// Tail returns the common tail of all frames of a stream. The subscription ID is the last member of _meta, and _meta is
// the last member of params. The ID is copied byte for byte from the request (PUSH-2).
func Tail(id json.RawMessage) []byte {
	return fmt.Appendf(nil, `%q:%s}}}`, wire.MetaSubscriptionID, id)
}

// controlFrame returns a frame that is not an event. members contains the members of params without the enclosing
// braces.
func controlFrame(method, members string, tail []byte) Frame {
	return Frame{[]byte(opening + method + params + "{" + members + `,"_meta":{`), tail}
}

// Active returns the notification that reports a stream's start position. truncated means that earlier events have been
// lost (PUSH-1, PUSH-7).
func Active(cursor []byte, truncated bool, tail []byte) Frame {
	return controlFrame(wire.NotificationActive, fmt.Sprintf(`"cursor":%s,"truncated":%t`, cursor, truncated), tail)
}

// Heartbeat returns a heartbeat notification with the stream's current position (PUSH-4).
func Heartbeat(cursor []byte, tail []byte) Frame {
	return controlFrame(wire.NotificationHeartbeat, `"cursor":`+string(cursor), tail)
}

// Error returns an error notification or a terminated notification, depending on method (PUSH-5, PUSH-6).
func Error(method string, e *wire.ErrorObject, tail []byte) Frame {
	b, _ := json.Marshal(e) // its data is valid JSON, so this cannot fail
	return controlFrame(method, `"error":`+string(b), tail)
}

// FinalResult returns the JSON-RPC result of a stream that the server has ended (D9).
func FinalResult(id json.RawMessage, stateless bool) json.RawMessage {
	if !stateless {
		return json.RawMessage(`{"_meta":{}}`)
	}
	return fmt.Appendf(nil, `{"resultType":%q,"_meta":{%q:%s}}`, wire.ResultComplete, wire.MetaSubscriptionID, id)
}
