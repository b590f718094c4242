package wire

import "encoding/json"

// A Message is a JSON-RPC message from a server that belongs to no call of its peer's.
type Message struct {
	// Method and Params make a notification; Params is an object.
	Method string
	Params json.RawMessage
	// Raw, when set, is a whole message that is sent as it is instead, in one line.
	Raw json.RawMessage
	// Written, when set, is called once for each way that took the message: with true when it was
	// written to that way and flushed, with false when it never will be. What was written may still be
	// lost with the peer. Written must not block.
	Written func(bool)
}

// A Notification is one that a client sent to a server outside of what the SDK knows.
type Notification struct {
	Method string
	Params json.RawMessage
	// Principal is the authenticated sender, "" for nobody.
	Principal string
	// Session is the key by which the server reaches the sender; "" where there is none.
	Session string
}
