// Package wire defines the protocol of the MCP Events extension. It contains method and notification names, capability
// keys, error codes of both dialects, headers, limits, the types of params and results, cursors, canonical JSON and
// subscription IDs.
//
// It is stateless and independent of the transport, so every other package of the runtime can import it. Start with
// [Descriptor] and [Occurrence] for the types, [Kind] for the errors and [Cursor] for positions.
package wire

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Methods of the extension (Sketch and SEP-3415, sections "Methods").
const (
	MethodList        = "events/list"
	MethodPoll        = "events/poll"
	MethodStream      = "events/stream"
	MethodSubscribe   = "events/subscribe"
	MethodUnsubscribe = "events/unsubscribe"

	// MethodPrefix is the prefix of all methods of the extension.
	MethodPrefix = "events/"
)

// Notifications of the extension.
const (
	NotificationPrefix      = "notifications/events/"
	NotificationActive      = NotificationPrefix + "active"
	NotificationEvent       = NotificationPrefix + "event"
	NotificationHeartbeat   = NotificationPrefix + "heartbeat"
	NotificationError       = NotificationPrefix + "error"
	NotificationTerminated  = NotificationPrefix + "terminated"
	NotificationListChanged = NotificationPrefix + "list_changed"
)

// Keys of capabilities and of _meta.
const (
	// CapabilityKey is the top-level capability in the sketch and the guide (D1).
	CapabilityKey = "events"
	// ExtensionID is the key in capabilities.extensions in SEP-3415 (D1, CAP-3).
	ExtensionID = "io.modelcontextprotocol/events"
	// MetaSubscriptionID is the key for the JSON-RPC id of the events/stream request (PUSH-2).
	MetaSubscriptionID = "io.modelcontextprotocol/subscriptionId"
	// MetaFingerprint is the key for the fingerprint of an event type's schemas (EVOL-4).
	MetaFingerprint = "io.github.mcpe-gen/fingerprint"
	// MetaCoalesce is the key for the [Coalesce] of an event type in its descriptor's _meta (COAL-1).
	MetaCoalesce = "io.github.mcpe-gen/coalesce"
	// MetaActor is the key in a descriptor's _meta for the location of the actor in payloads (ACTOR-1).
	MetaActor = "io.github.mcpe-gen/actor"
	// MetaTest is the key that is true in the _meta of a test occurrence sent by an operator (SRV-8).
	MetaTest = "io.github.mcpe-gen/test"
	// MetaTraceParent and MetaTraceState are the keys for a trace context in _meta (W3C Trace Context, SEP-414).
	MetaTraceParent = "traceparent"
	MetaTraceState  = "tracestate"
	// ListenFilter is the filter of subscriptions/listen for list_changed (D8).
	ListenFilter = "eventsListChanged"
)

// Protocol revisions of MCP with different wire forms (D3, D4, D9).
const (
	// RevisionStateless is the first revision without an initialize handshake.
	RevisionStateless = "2026-07-28"
	// RevisionLegacy is the last revision with an initialize handshake.
	RevisionLegacy = "2025-11-25"
)

// Headers of Streamable HTTP in Go's canonical form, and the _meta member with the same revision (D3).
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderSessionID       = "Mcp-Session-Id"
	MetaProtocolVersion   = "io.modelcontextprotocol/protocolVersion"
)

// ResultComplete is the resultType of every result in RevisionStateless and later (D3).
const ResultComplete = "complete"

// Delivery modes, as named in events/list.
const (
	ModePoll    = events.ModePoll
	ModePush    = events.ModePush
	ModeWebhook = events.ModeWebhook
)

// Limits of the extension.
const (
	// MaxEventName is the maximum length of an event name in characters.
	MaxEventName = 128
	// MaxEventID is the maximum length of an eventId in bytes. An eventId must fit in a header (OCC-2).
	MaxEventID = 256
	// MaxBody is the maximum size of a webhook body in bytes (HOOK-1).
	MaxBody = 256 << 10
	// MaxPayload is the maximum size in bytes of a payload of a type that offers webhook (HOOK-1).
	MaxPayload = MaxBody - 4<<10
)

// A Descriptor is an entry of events/list (LIST-2).
type Descriptor struct {
	Name          string          `json:"name"`
	Description   string          `json:"description"`
	Delivery      []string        `json:"delivery"`
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
	Meta          map[string]any  `json:"_meta,omitempty"`
}

// ListParams are the params of events/list (LIST-1).
type ListParams struct {
	Cursor string `json:"cursor,omitempty"`
}

// A ListResult is the result of events/list (LIST-1).
type ListResult struct {
	ResultType string         `json:"resultType,omitempty"`
	Events     []Descriptor   `json:"events"`
	NextCursor string         `json:"nextCursor,omitempty"`
	Meta       map[string]any `json:"_meta,omitempty"`
}

// PollParams are the params of events/poll (POLL-1). A nil Cursor requests events from now on (CUR-2).
type PollParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Cursor    *string         `json:"cursor"`
	MaxAgeMs  *int64          `json:"maxAgeMs,omitempty"`
	MaxEvents *int64          `json:"maxEvents,omitempty"`
	TimeoutMs *int64          `json:"timeoutMs,omitempty"`
}

// A PollResult is the result of events/poll (POLL-2).
type PollResult struct {
	ResultType string         `json:"resultType,omitempty"`
	Events     []Occurrence   `json:"events"`
	Cursor     *string        `json:"cursor"`
	Truncated  bool           `json:"truncated"`
	HasMore    bool           `json:"hasMore"`
	NextPollMs int64          `json:"nextPollMs"`
	Meta       map[string]any `json:"_meta,omitempty"`
}

// StreamParams are the params of events/stream (PUSH-1).
type StreamParams struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Cursor    *string         `json:"cursor"`
	MaxAgeMs  *int64          `json:"maxAgeMs,omitempty"`
}

// An Occurrence is one event on the wire (OCC-1). Cursor is absent in poll results (OCC-3). In push frames of a type
// without replay, the code that writes frames sets it to null.
type Occurrence struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
	Cursor    *string         `json:"cursor,omitempty"`
	Meta      json.RawMessage `json:"_meta,omitempty"`
}

// ActiveParams are the params of notifications/events/active (PUSH-1).
type ActiveParams struct {
	Cursor    *string `json:"cursor"`
	Truncated bool    `json:"truncated"`
}

// HeartbeatParams are the params of notifications/events/heartbeat (PUSH-4).
type HeartbeatParams struct {
	Cursor *string `json:"cursor"`
}

// An ErrorObject is a JSON-RPC error as it appears in results, notifications and envelopes.
type ErrorObject struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// ErrorParams are the params of notifications/events/error and /terminated (PUSH-5, PUSH-6).
type ErrorParams struct {
	Error ErrorObject `json:"error"`
}
