package port

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An advertisement holds the capabilities that adapters advertise.
type advertisement struct {
	mu           sync.Mutex
	experimental []experimental
	topLevel     map[string]any
}

type experimental struct {
	name  string
	value func(info *mcp.Implementation) any
}

// Advertise adds a value to capabilities.experimental in the results of initialize and server/discover (MCPE-CAP-1). It
// calls value for each result, with the server's info.
func (h *Hub) Advertise(name string, value func(info *mcp.Implementation) any) {
	h.advertised.mu.Lock()
	defer h.advertised.mu.Unlock()
	h.advertised.experimental = append(h.advertised.experimental, experimental{name, value})
}

// WithExperimental returns capabilities extended with the values that adapters advertise.
func (h *Hub) WithExperimental(c *mcp.ServerCapabilities, info *mcp.Implementation) *mcp.ServerCapabilities {
	h.advertised.mu.Lock()
	all := slices.Clone(h.advertised.experimental)
	h.advertised.mu.Unlock()
	if len(all) == 0 {
		return c
	}
	made := mcp.ServerCapabilities{}
	if c != nil {
		made = *c
	}
	made.Experimental = maps.Clone(made.Experimental)
	if made.Experimental == nil {
		made.Experimental = map[string]any{}
	}
	for _, e := range all {
		made.Experimental[e.name] = e.value(info)
	}
	return &made
}

// AdvertiseTopLevel adds a value to capabilities and a copy to capabilities.experimental. The SDK's clients decode only
// the copy (CONV-1).
func (h *Hub) AdvertiseTopLevel(name string, value any) {
	h.advertised.mu.Lock()
	if h.advertised.topLevel == nil {
		h.advertised.topLevel = map[string]any{}
	}
	h.advertised.topLevel[name] = value
	h.advertised.mu.Unlock()
	h.Advertise(name, func(*mcp.Implementation) any { return value })
}

// TopLevel returns the JSON encodings of the values passed to AdvertiseTopLevel, by name.
func (h *Hub) TopLevel() (map[string]json.RawMessage, error) {
	h.advertised.mu.Lock()
	defer h.advertised.mu.Unlock()
	members := map[string]json.RawMessage{}
	for name, v := range h.advertised.topLevel {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		members[name] = b
	}
	return members, nil
}
