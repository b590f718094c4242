package port

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Params are the params of a custom method as received: every byte of them, so that the method can say
// what is wrong with them, and _meta as the SDK wants it.
type Params struct {
	mcp.ParamsBase
	// Raw is nil for absent params.
	Raw json.RawMessage
}

// UnmarshalJSON keeps the bytes. Params that are no object are the method's to refuse.
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
