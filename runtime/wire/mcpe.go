package wire

import "encoding/json"

// Names of MCPE 2025-01-01 (its specification, sections 2.2, 3.2, 6 and 7).
const (
	// MCPEVersion and MCPEName are protocolVersion and protocolName of the capability object.
	MCPEVersion = "2025-01-01"
	MCPEName    = "mcpe"
	// MCPECapability is the key of that object below capabilities.experimental (MCPE-CAP-1).
	MCPECapability = "mcpe"
	// MetaMCPE in the _meta of subscriptions/listen, with the value true, asks for MCPE's
	// notifications on that request (MCPE-NOTE-4). In the _meta of an occurrence it holds the
	// priority and tags of that occurrence alone.
	MetaMCPE = "io.modelcontextprotocol/mcpe"

	MCPEToolSubscribe   = "events_subscribe"
	MCPEToolUnsubscribe = "events_unsubscribe"
	MCPEToolList        = "events_list"
	MCPEToolPause       = "events_pause"
	MCPEToolResume      = "events_resume"
	MCPEToolUpdate      = "events_update"

	MCPENotificationEvent   = "events/event"
	MCPENotificationBatch   = "events/batch"
	MCPENotificationExpired = "events/subscription_expired"
	// NotificationMessage is MCP's log message, the envelope of the protocol page (MCPE-NOTE-1).
	NotificationMessage = "notifications/message"

	// MCPEBatchType is the type of the synthetic event by which a handler gets a batch (MCPE-HAN-4).
	MCPEBatchType = "events.batch"
)

// Values of MCPE's enumerations.
const (
	MCPERealtime  = "realtime"
	MCPECron      = "cron"
	MCPEScheduled = "scheduled"

	MCPEActive  = "active"
	MCPEPaused  = "paused"
	MCPEExpired = "expired"

	MCPELow      = "low"
	MCPENormal   = "normal"
	MCPEHigh     = "high"
	MCPECritical = "critical"

	MCPEBash    = "bash"
	MCPEWebhook = "webhook"
	MCPEAgent   = "agent"
)

// MCPETimestamp is the layout of every time that an MCPE server writes, in UTC.
const MCPETimestamp = "2006-01-02T15:04:05.000Z"

// An MCPECode is an error code of MCPE; it travels in tool results (MCPE-TOOL-4).
type MCPECode int64

// The codes of the specification's section 10 that a server uses.
const (
	MCPENotFound      MCPECode = -32001
	MCPELimitReached  MCPECode = -32002
	MCPENoDevice      MCPECode = -32003
	MCPEUnauthorized  MCPECode = -32004
	MCPEInvalidParams MCPECode = -32602
	MCPEInternal      MCPECode = -32603
)

var mcpeCodes = map[MCPECode]string{
	MCPENotFound: "SubscriptionNotFound", MCPELimitReached: "SubscriptionLimitReached", MCPENoDevice: "DeviceNotFound",
	MCPEUnauthorized: "Unauthorized", MCPEInvalidParams: "InvalidParams", MCPEInternal: "InternalError",
}

// MCPERateLimited is the name, under the code of InvalidParams, of a call beyond a rate
// (MCPE-RATE-1).
const MCPERateLimited = "rate_limited"

// String is the code's name in the specification.
func (c MCPECode) String() string { return mcpeCodes[c] }

// An MCPEError is the error member of a refused tool call's structured content (MCPE-TOOL-4).
type MCPEError struct {
	Code    MCPECode `json:"code"`
	Name    string   `json:"name"`
	Message string   `json:"message"`
	// RetryAfterMs is set with MCPERateLimited.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
}

// An MCPEEvent is one event as MCPE carries it (MCPE-NOTE-2).
type MCPEEvent struct {
	// ID is a UUID v4.
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Data     json.RawMessage `json:"data"`
	Metadata MCPEMetadata    `json:"metadata"`
}

// MCPEMetadata is the metadata of an event.
type MCPEMetadata struct {
	// SourceEventID is the eventId of MCP Events.
	SourceEventID string   `json:"sourceEventId,omitempty"`
	Timestamp     string   `json:"timestamp"`
	Priority      string   `json:"priority"`
	Tags          []string `json:"tags,omitempty"`
}

// An MCPEFilter says which events a subscription is for: all fields must match, any value of a
// field may, an absent or empty field is no constraint (MCPE-MATCH-1).
type MCPEFilter struct {
	EventTypes []string `json:"eventTypes,omitempty"`
	Tags       []string `json:"tags,omitempty"`
	Priority   []string `json:"priority,omitempty"`
}

// An MCPEDelivery says how events are delivered (MCPE-DEL-1).
type MCPEDelivery struct {
	Channels          []string           `json:"channels"`
	CronSchedule      *MCPECronSchedule  `json:"cronSchedule,omitempty"`
	ScheduledDelivery *MCPEScheduledOnce `json:"scheduledDelivery,omitempty"`
}

// An MCPECronSchedule is a recurring schedule (MCPE-DEL-2).
type MCPECronSchedule struct {
	Expression           string `json:"expression"`
	Timezone             string `json:"timezone"`
	AggregateEvents      bool   `json:"aggregateEvents"`
	MaxEventsPerDelivery int    `json:"maxEventsPerDelivery"`
}

// An MCPEScheduledOnce is one delivery at a time (MCPE-DEL-3).
type MCPEScheduledOnce struct {
	DeliverAt       string `json:"deliverAt"`
	Timezone        string `json:"timezone"`
	Description     string `json:"description,omitempty"`
	AggregateEvents bool   `json:"aggregateEvents"`
	AutoExpire      bool   `json:"autoExpire"`
}

// An MCPEHandler is what the server does with a subscription's events itself; which fields count
// depends on Type. Timeout is in milliseconds.
type MCPEHandler struct {
	Type string `json:"type"`

	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Cwd     string            `json:"cwd,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Input   string            `json:"input,omitempty"`
	Timeout int64             `json:"timeout,omitempty"`

	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`

	SystemPrompt string   `json:"systemPrompt,omitempty"`
	Model        string   `json:"model,omitempty"`
	Instructions string   `json:"instructions,omitempty"`
	Tools        []string `json:"tools,omitempty"`
	MaxTokens    int64    `json:"maxTokens,omitempty"`
}

// An MCPESubscription is a subscription as results show it (MCPE-TOOL-2).
type MCPESubscription struct {
	// ID is a UUID v4; SubscriptionID is the same, as the original implementation has it.
	ID             string       `json:"id"`
	SubscriptionID string       `json:"subscriptionId"`
	ClientID       string       `json:"clientId"`
	Filter         MCPEFilter   `json:"filter"`
	Delivery       MCPEDelivery `json:"delivery"`
	Handler        *MCPEHandler `json:"handler,omitempty"`
	Status         string       `json:"status"`
	CreatedAt      string       `json:"createdAt"`
	UpdatedAt      string       `json:"updatedAt"`
	ExpiresAt      string       `json:"expiresAt,omitempty"`
	// PendingEvents and NextRun are in the results of events_list.
	PendingEvents *int   `json:"pendingEvents,omitempty"`
	NextRun       string `json:"nextRun,omitempty"`
	// Warnings tell what is allowed and probably not meant, such as a type that does not exist.
	Warnings []string `json:"warnings,omitempty"`
}

// MCPEEventParams are the params of events/event.
type MCPEEventParams struct {
	SubscriptionID string    `json:"subscriptionId"`
	Event          MCPEEvent `json:"event"`
}

// MCPEBatchParams are the params of events/batch.
type MCPEBatchParams struct {
	SubscriptionID string      `json:"subscriptionId"`
	Events         []MCPEEvent `json:"events"`
}

// MCPEExpiredParams are the params of events/subscription_expired.
type MCPEExpiredParams struct {
	SubscriptionID string `json:"subscriptionId"`
	ExpiredAt      string `json:"expiredAt"`
}

// MCPECapabilities is the capability object (MCPE-CAP-1).
type MCPECapabilities struct {
	ProtocolVersion string                    `json:"protocolVersion"`
	ProtocolName    string                    `json:"protocolName"`
	ServerInfo      MCPEServerInfo            `json:"serverInfo"`
	Subscriptions   MCPESubscriptionLimits    `json:"subscriptions"`
	Filters         MCPEFilterCapabilities    `json:"filters"`
	Delivery        MCPEDeliveryCapabilities  `json:"delivery"`
	Scheduling      *MCPESchedulingCapability `json:"scheduling,omitempty"`
}

// MCPEServerInfo names the server.
type MCPEServerInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// MCPESubscriptionLimits is what a client may do with subscriptions.
type MCPESubscriptionLimits struct {
	MaxActive                 int  `json:"maxActive"`
	MaxFiltersPerSubscription int  `json:"maxFiltersPerSubscription"`
	SupportsPause             bool `json:"supportsPause"`
	SupportsExpiration        bool `json:"supportsExpiration"`
	SupportsBatching          bool `json:"supportsBatching"`
}

// MCPEFilterCapabilities is what filters can say.
type MCPEFilterCapabilities struct {
	SupportsWildcardTypes     bool `json:"supportsWildcardTypes"`
	SupportsTagFiltering      bool `json:"supportsTagFiltering"`
	SupportsPriorityFiltering bool `json:"supportsPriorityFiltering"`
}

// MCPEDeliveryCapabilities is how events can be delivered.
type MCPEDeliveryCapabilities struct {
	SupportedChannels    []string `json:"supportedChannels"`
	SupportedPriorities  []string `json:"supportedPriorities"`
	SupportsMultiChannel bool     `json:"supportsMultiChannel"`
}

// MCPESchedulingCapability is what the scheduler can do.
type MCPESchedulingCapability struct {
	CronEnabled           bool     `json:"cronEnabled"`
	ScheduledEnabled      bool     `json:"scheduledEnabled"`
	SupportedTimezones    []string `json:"supportedTimezones,omitempty"`
	MaxScheduledPerClient int      `json:"maxScheduledPerClient,omitempty"`
	CronPresets           []string `json:"cronPresets,omitempty"`
}
