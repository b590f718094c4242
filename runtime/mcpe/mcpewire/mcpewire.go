// Package mcpewire defines the JSON types of MCPE 2025-01-01 that its servers and clients share.
// They are a [Subscription] with its [Filter], [Delivery] and [Handler], an [Event], the
// [Capabilities] of a server, and the error codes.
package mcpewire

import "encoding/json"

// A Code is an MCPE error code in a tool result. See MCPE-TOOL-4.
type Code int64

// The codes used by servers (specification, section 10).
const (
	CodeNotFound      Code = -32001
	CodeLimitReached  Code = -32002
	CodeNoDevice      Code = -32003
	CodeUnauthorized  Code = -32004
	CodeInvalidParams Code = -32602
	CodeInternal      Code = -32603
)

var codeNames = map[Code]string{
	CodeNotFound: "SubscriptionNotFound", CodeLimitReached: "SubscriptionLimitReached", CodeNoDevice: "DeviceNotFound",
	CodeUnauthorized: "Unauthorized", CodeInvalidParams: "InvalidParams", CodeInternal: "InternalError",
}

// String returns the name of the code in the specification.
func (c Code) String() string { return codeNames[c] }

// A Refusal is the error member of the structured content of a failed tool call. See MCPE-TOOL-4.
type Refusal struct {
	Code    Code   `json:"code"`
	Name    string `json:"name"`
	Message string `json:"message"`
	// RetryAfterMs is set if Name is rate_limited.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
}

// An Event is an event in MCPE's format. See MCPE-NOTE-2.
type Event struct {
	// ID is a UUID v4.
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Data     json.RawMessage `json:"data"`
	Metadata Metadata        `json:"metadata"`
}

// Metadata is the metadata of an event.
type Metadata struct {
	// SourceEventID is the eventId in MCP Events.
	SourceEventID string   `json:"sourceEventId,omitempty"`
	Timestamp     string   `json:"timestamp"`
	Priority      string   `json:"priority"`
	Tags          []string `json:"tags,omitempty"`
}

// A Filter selects the events of a subscription. An event must match at least one value of every field. An absent or
// empty field matches every event. See MCPE-MATCH-1.
type Filter struct {
	EventTypes []string `json:"eventTypes,omitempty"`
	Tags       []string `json:"tags,omitempty"`
	Priority   []string `json:"priority,omitempty"`
}

// A Delivery describes how events are delivered. See MCPE-DEL-1.
type Delivery struct {
	Channels          []string       `json:"channels"`
	CronSchedule      *CronSchedule  `json:"cronSchedule,omitempty"`
	ScheduledDelivery *ScheduledOnce `json:"scheduledDelivery,omitempty"`
}

// A CronSchedule is a recurring schedule. See MCPE-DEL-2.
type CronSchedule struct {
	Expression           string `json:"expression"`
	Timezone             string `json:"timezone"`
	AggregateEvents      bool   `json:"aggregateEvents"`
	MaxEventsPerDelivery int    `json:"maxEventsPerDelivery"`
}

// A ScheduledOnce is a single delivery at a given time. See MCPE-DEL-3.
type ScheduledOnce struct {
	DeliverAt       string `json:"deliverAt"`
	Timezone        string `json:"timezone"`
	Description     string `json:"description,omitempty"`
	AggregateEvents bool   `json:"aggregateEvents"`
	AutoExpire      bool   `json:"autoExpire"`
}

// A Handler is an action that the server runs for a subscription's events. Type determines which
// fields apply. Timeout is in milliseconds.
type Handler struct {
	Type string `json:"type"`

	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Input   string            `json:"input,omitempty"`
	Timeout int64             `json:"timeout,omitzero"`

	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`

	SystemPrompt string   `json:"systemPrompt,omitempty"`
	Model        string   `json:"model,omitempty"`
	Instructions string   `json:"instructions,omitempty"`
	Tools        []string `json:"tools,omitempty"`
	MaxTokens    int64    `json:"maxTokens,omitzero"`
}

// A Subscription describes a subscription in tool results. See MCPE-TOOL-2.
type Subscription struct {
	// ID is a UUID v4. SubscriptionID has the same value as ID, for compatibility with the original implementation.
	ID             string   `json:"id"`
	SubscriptionID string   `json:"subscriptionId"`
	ClientID       string   `json:"clientId"`
	Filter         Filter   `json:"filter"`
	Delivery       Delivery `json:"delivery"`
	Handler        *Handler `json:"handler,omitempty"`
	Status         string   `json:"status"`
	CreatedAt      string   `json:"createdAt"`
	UpdatedAt      string   `json:"updatedAt"`
	ExpiresAt      string   `json:"expiresAt,omitempty"`
	// PendingEvents and NextRun are set in the results of events_list.
	PendingEvents *int   `json:"pendingEvents,omitempty"`
	NextRun       string `json:"nextRun,omitempty"`
	// Warnings describe valid but probably unintended settings, such as a filter for an unknown type.
	Warnings []string `json:"warnings,omitempty"`
}

// EventParams are the params of events/event.
type EventParams struct {
	SubscriptionID string `json:"subscriptionId"`
	Event          Event  `json:"event"`
}

// BatchParams are the params of events/batch.
type BatchParams struct {
	SubscriptionID string  `json:"subscriptionId"`
	Events         []Event `json:"events"`
}

// ExpiredParams are the params of events/subscription_expired.
type ExpiredParams struct {
	SubscriptionID string `json:"subscriptionId"`
	ExpiredAt      string `json:"expiredAt"`
}

// Capabilities is the capability object. See MCPE-CAP-1.
type Capabilities struct {
	ProtocolVersion string                `json:"protocolVersion"`
	ProtocolName    string                `json:"protocolName"`
	ServerInfo      ServerInfo            `json:"serverInfo"`
	Subscriptions   SubscriptionLimits    `json:"subscriptions"`
	Filters         FilterCapabilities    `json:"filters"`
	Delivery        DeliveryCapabilities  `json:"delivery"`
	Scheduling      *SchedulingCapability `json:"scheduling,omitempty"`
}

// ServerInfo names the server.
type ServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// SubscriptionLimits describes the limits and features of subscriptions.
type SubscriptionLimits struct {
	MaxActive                 int  `json:"maxActive"`
	MaxFiltersPerSubscription int  `json:"maxFiltersPerSubscription"`
	SupportsPause             bool `json:"supportsPause"`
	SupportsExpiration        bool `json:"supportsExpiration"`
	SupportsBatching          bool `json:"supportsBatching"`
}

// FilterCapabilities describes the supported filters.
type FilterCapabilities struct {
	SupportsWildcardTypes     bool `json:"supportsWildcardTypes"`
	SupportsTagFiltering      bool `json:"supportsTagFiltering"`
	SupportsPriorityFiltering bool `json:"supportsPriorityFiltering"`
}

// DeliveryCapabilities describes the supported deliveries.
type DeliveryCapabilities struct {
	SupportedChannels    []string `json:"supportedChannels"`
	SupportedPriorities  []string `json:"supportedPriorities"`
	SupportsMultiChannel bool     `json:"supportsMultiChannel"`
}

// SchedulingCapability describes the supported schedules.
type SchedulingCapability struct {
	CronEnabled           bool     `json:"cronEnabled"`
	ScheduledEnabled      bool     `json:"scheduledEnabled"`
	SupportedTimezones    []string `json:"supportedTimezones,omitempty"`
	MaxScheduledPerClient int      `json:"maxScheduledPerClient,omitempty"`
	CronPresets           []string `json:"cronPresets,omitempty"`
}
