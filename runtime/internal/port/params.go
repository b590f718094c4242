package port

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Params are the params of a custom method as received. They contain the original bytes, so that the method can report
// errors in them, and the _meta decoded by the SDK.
type Params struct {
	mcp.ParamsBase
	// Raw is nil if params are absent.
	Raw json.RawMessage
	// Carried is the call as passed by its carrier. It is nil if the call was received by one of the SDK's transports.
	Carried *Carried
}

// A Carried is a call to an extension method. A carrier passes it through the receiving middleware to the method's
// handler.
type Carried struct {
	Request // without Principal and Expires, which the handler derives
	// Stream is the accepted stream of an events/stream request. Its carrier must run it.
	Stream Stream
}

// UnmarshalJSON keeps the bytes. The method must reject params that are not an object.
func (p *Params) UnmarshalJSON(b []byte) error {
	p.Raw = bytes.Clone(b)
	var head struct {
		Meta map[string]any `json:"_meta"`
	}
	if json.Unmarshal(b, &head) == nil {
		p.Meta = head.Meta
	}
	return nil
}

// MarshalJSON returns the bytes.
func (p *Params) MarshalJSON() ([]byte, error) {
	if p == nil || p.Raw == nil {
		return []byte("null"), nil
	}
	return p.Raw, nil
}
