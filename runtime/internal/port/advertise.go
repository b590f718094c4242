package port

import (
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// advertised holds the capabilities that adapters advertise.
type advertised struct {
	mu           sync.Mutex
	experimental []experimental
	topLevel     map[string]any
}

type experimental struct {
	name  string
	value func(info *mcp.Implementation) any
}

// Advertise puts a value under capabilities.experimental in the results of initialize and server/discover (MCPE-CAP-1).
// value is called for each result; info is the server's.
func (h *Hub) Advertise(name string, value func(info *mcp.Implementation) any) {
	h.advertised.mu.Lock()
	defer h.advertised.mu.Unlock()
	h.advertised.experimental = append(h.advertised.experimental, experimental{name, value})
}

// WithExperimental returns capabilities with the values that adapters advertise.
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

// AdvertiseTopLevel puts a value under capabilities and a copy under capabilities.experimental. The SDK's clients keep
// only the copy (CONV-1).
func (h *Hub) AdvertiseTopLevel(name string, value any) {
	h.advertised.mu.Lock()
	if h.advertised.topLevel == nil {
		h.advertised.topLevel = map[string]any{}
	}
	h.advertised.topLevel[name] = value
	h.advertised.mu.Unlock()
	h.Advertise(name, func(*mcp.Implementation) any { return value })
}

// TopLevel returns the values given to AdvertiseTopLevel, as JSON by name.
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
