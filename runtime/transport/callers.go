package transport

import (
	"encoding/json"
	"slices"
	"sync"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// A caller holds the client information from the _meta of a stateless request.
type caller struct {
	init     *mcp.InitializeParams // the equivalent of an initialize request; shared
	declares bool                  // the capabilities include the extension (CAP-3)
	meta     func() map[string]any // returns the decoded _meta, which is shared
}

// Limits for the cache of callers.
const (
	maxCallers    = 512
	maxCallerMeta = 4 << 10
)

// A callerCache is a cache of decoded _meta values. A client sends the same value with every request, so it is decoded
// only once.
type callerCache struct {
	mu    sync.RWMutex
	known map[string]caller // by _meta as received
}

// lookup returns the caller described by meta. It returns false if the SDK would reject meta.
func (c *callerCache) lookup(meta json.RawMessage) (caller, bool) {
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

// parseCaller performs the same checks as the SDK. The client info is optional, the capabilities are required, and both
// must have the correct type. If a member is repeated, parseCaller returns false, which leaves the decision about the
// request to the SDK.
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
	init := &mcp.InitializeParams{ProtocolVersion: unquote(version), Capabilities: new(mcp.ClientCapabilities)}
	if info != nil {
		init.ClientInfo = new(mcp.Implementation)
		if jsonv2.Unmarshal(info, init.ClientInfo) != nil {
			return caller{}, false
		}
	}
	if jsonv2.Unmarshal(capabilities, init.Capabilities) != nil {
		return caller{}, false
	}
	if roots := member(capabilities, "roots"); isObject(roots) { // the SDK has two fields for it
		//lint:ignore SA1019 shown for as long as the SDK shows it
		init.Capabilities.RootsV2 = &mcp.RootCapabilities{ListChanged: init.Capabilities.Roots.ListChanged}
	}
	params := slices.Concat([]byte(`{"_meta":`), meta, []byte("}"))
	return caller{init, declaresExtension(init), sync.OnceValue(func() map[string]any { return port.DecodeMeta(params) })}, true
}

// declaresExtension reports whether the client declared the extension.
func declaresExtension(init *mcp.InitializeParams) bool {
	if init == nil || init.Capabilities == nil {
		return false
	}
	_, ok := init.Capabilities.Extensions[wire.ExtensionID]
	return ok
}

func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }
