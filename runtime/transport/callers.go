package transport

import (
	"encoding/json"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A caller is what the _meta of a stateless request says about who makes it.
type caller struct {
	version  string
	declares bool // the extension, in its capabilities (CAP-3)
}

// Bounds of the callers that are remembered.
const (
	maxCallers    = 512
	maxCallerMeta = 4 << 10
)

// callers remembers the _meta values that were found valid. A client sends the same one with every
// request, so that it is decoded once and not ten thousand times.
type callers struct {
	mu    sync.RWMutex
	known map[string]caller // by _meta as received
}

// look returns what meta says, and false unless the SDK accepts it.
func (c *callers) look(meta json.RawMessage) (caller, bool) {
	c.mu.RLock()
	who, ok := c.known[string(meta)]
	c.mu.RUnlock()
	if ok {
		return who, true
	}
	who, ok = parseCaller(meta)
	if ok && len(meta) <= maxCallerMeta {
		c.mu.Lock()
		if c.known == nil || len(c.known) >= maxCallers {
			c.known = map[string]caller{}
		}
		c.known[string(meta)] = who
		c.mu.Unlock()
	}
	return who, ok
}

// parseCaller makes the checks of the SDK: the client's info may be absent, its capabilities may
// not, and both have their types. Members twice are refused, so that the SDK decides about them.
func parseCaller(meta json.RawMessage) (caller, bool) {
	var version, info, capabilities json.RawMessage
	ok := eachMember(meta, func(name string, value json.RawMessage) bool {
		switch name {
		case mcp.MetaKeyProtocolVersion:
			version = value
		case mcp.MetaKeyClientInfo:
			info = value
		case mcp.MetaKeyClientCapabilities:
			capabilities = value
		}
		return true
	})
	if !ok || !isObject(capabilities) || info != nil && !isObject(info) {
		return caller{}, false
	}
	if info != nil && jsonv2.Unmarshal(info, new(mcp.Implementation)) != nil {
		return caller{}, false
	}
	var caps mcp.ClientCapabilities
	if jsonv2.Unmarshal(capabilities, &caps) != nil {
		return caller{}, false
	}
	_, declares := caps.Extensions[wire.ExtensionID]
	return caller{version: text(version), declares: declares}, true
}

func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }
