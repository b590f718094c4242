package port

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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

	received map[string]any // the received _meta
}

// NewParams returns params as received. It keeps raw, which is nil if they are absent, and meta, the result of
// [DecodeMeta], which several params can share.
func NewParams(raw json.RawMessage, meta map[string]any) *Params {
	p := &Params{}
	p.receive(raw, meta)
	return p
}

func (p *Params) receive(raw json.RawMessage, meta map[string]any) {
	p.Raw, p.received, p.Meta = raw, meta, nil
	if meta != nil {
		p.Meta = cloneValue(meta).(map[string]any)
	}
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

// UnmarshalJSON keeps a copy of the bytes. The method must reject params that are not an object.
func (p *Params) UnmarshalJSON(b []byte) error {
	p.receive(bytes.Clone(b), DecodeMeta(b))
	return nil
}

// DecodeMeta returns the _meta of params, or nil if it is absent. Like the SDK, it takes the last of repeated members.
func DecodeMeta(params json.RawMessage) map[string]any {
	var head struct {
		Meta map[string]any `json:"_meta"`
	}
	if jsonv2.Unmarshal(params, &head, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return nil
	}
	return head.Meta
}

// cloneValue returns a deep copy of a decoded JSON value.
func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for name, member := range v {
			m[name] = cloneValue(member)
		}
		return m
	case []any:
		a := make([]any, len(v))
		for i, element := range v {
			a[i] = cloneValue(element)
		}
		return a
	}
	return v
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
	if maps.EqualFunc(p.Meta, p.received, func(a, b any) bool { return reflect.DeepEqual(a, b) }) {
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
