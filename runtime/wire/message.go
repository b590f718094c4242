package wire

import "encoding/json"

// A Message is a JSON-RPC message from a server that belongs to no call of its peer's.
type Message struct {
	// Method and Params make a notification; Params is an object.
	Method string
	Params json.RawMessage
	// Raw, when set, is a whole message that is sent as it is instead, in one line.
	Raw json.RawMessage
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
