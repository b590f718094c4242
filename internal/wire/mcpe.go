package wire

// Names of MCPE 2025-01-01 (its specification, sections 2.2, 3.2, 6 and 7).
const (
	// MCPEVersion and MCPEName are the protocolVersion and protocolName of the capability object.
	MCPEVersion = "2025-01-01"
	MCPEName    = "mcpe"
	// MCPECapability is the key of the capability object in capabilities.experimental (MCPE-CAP-1).
	MCPECapability = "mcpe"
	// MetaMCPE, if true in the _meta of subscriptions/listen, requests MCPE notifications for that request
	// (MCPE-NOTE-4). In the _meta of an occurrence, it contains the priority and tags of that occurrence.
	MetaMCPE = "io.modelcontextprotocol/mcpe"

	MCPEToolSubscribe   = "events_subscribe"
	MCPEToolUnsubscribe = "events_unsubscribe"
	MCPEToolList        = "events_list"
	MCPEToolPause       = "events_pause"
	MCPEToolResume      = "events_resume"
	MCPEToolUpdate      = "events_update"

	// WaitTool is the tool that waits for events of several types. It is not a tool of MCPE.
	WaitTool = "events_wait"

	MCPENotificationEvent   = "events/event"
	MCPENotificationBatch   = "events/batch"
	MCPENotificationExpired = "events/subscription_expired"
	// NotificationMessage is the method of MCP's log message, which is the envelope on the protocol page (MCPE-NOTE-1).
	NotificationMessage = "notifications/message"

	// MCPEBatchType is the type of the synthetic event that delivers a batch to a handler (MCPE-HAN-4).
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

// MCPETimestamp is the layout of all times that an MCPE server writes, in UTC.
const MCPETimestamp = "2006-01-02T15:04:05.000Z"

// MCPERateLimited is the name of the InvalidParams error for a call that exceeds a rate limit (MCPE-RATE-1).
const MCPERateLimited = "rate_limited"
