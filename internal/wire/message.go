package wire

import "encoding/json"

// A Message is a JSON-RPC message from a server that is not a response to a call.
type Message struct {
	// Method and Params form a notification. Params is an object.
	Method string
	Params json.RawMessage
	// Raw, if set, is a complete single-line message that is sent unchanged instead.
	Raw json.RawMessage
	// Written, if set, is called once for each connection that accepted the message. The argument is true after the
	// message was written and flushed, or false if it will never be written. A written message can still be lost if the
	// peer fails. Written must not block.
	Written func(bool)
}

// A Notification is a client notification that the SDK does not handle.
type Notification struct {
	Method string
	Params json.RawMessage
	// Principal is the authenticated sender, or "" if the sender is anonymous.
	Principal string
	// Session is the key for reaching the sender, or "" without a session.
	Session string
}
