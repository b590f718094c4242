package port

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

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
	// Request is the request that has these params. The innermost middleware sets it for the method's handler, which
	// receives neither the request nor, if middleware has replaced the context, its values.
	Request *mcp.ServerRequest[*Params]
}

// A Carried is a call to an extension method. A carrier passes it through the receiving middleware to the method's
// handler.
type Carried struct {
	Request // without Principal and Expires, which the handler derives
	// Stream is the accepted stream of an events/stream request. Its carrier must run it, unless middleware returns
	// another result than Accepted.
	Stream   Stream
	Accepted mcp.Result
}

// UnmarshalJSON keeps the bytes. The method must reject params that are not an object.
func (p *Params) UnmarshalJSON(b []byte) error {
	p.Raw = bytes.Clone(b)
	p.Meta = decodeMeta(b)
	return nil
}

func decodeMeta(params json.RawMessage) map[string]any {
	var head struct {
		Meta map[string]any `json:"_meta"`
	}
	if json.Unmarshal(params, &head) != nil {
		return nil
	}
	return head.Meta
}

// MarshalJSON returns the params as [Params.Encode] does.
func (p *Params) MarshalJSON() ([]byte, error) {
	if p == nil {
		return []byte("null"), nil
	}
	b, err := p.Encode()
	if b == nil && err == nil {
		return []byte("null"), nil
	}
	return b, err
}

// Encode returns the params, or nil if they are absent. It returns the received bytes, unless middleware has changed
// _meta.
func (p *Params) Encode() (json.RawMessage, error) {
	if maps.EqualFunc(p.Meta, decodeMeta(p.Raw), func(a, b any) bool { return reflect.DeepEqual(a, b) }) {
		return p.Raw, nil
	}
	members := map[string]json.RawMessage{}
	if p.Raw != nil && json.Unmarshal(p.Raw, &members) != nil {
		return p.Raw, nil // the method rejects them
	}
	if members == nil {
		members = map[string]json.RawMessage{} // they were null
	}
	meta, err := json.Marshal(p.Meta)
	if err != nil {
		return nil, fmt.Errorf("encoding _meta of the params: %w", err)
	}
	members["_meta"] = meta
	if p.Meta == nil {
		delete(members, "_meta")
	}
	return json.Marshal(members)
}
