package wire

// Headers of everything a server posts to a callback (HOOK-2). The first three are those of the
// Standard Webhooks specification, the last one is the extension's own.
const (
	HeaderWebhookID        = "webhook-id"
	HeaderWebhookTimestamp = "webhook-timestamp"
	HeaderWebhookSignature = "webhook-signature"
	HeaderSubscriptionID   = "X-MCP-Subscription-Id"
)

// Headers that tell of a retry where an author wants it. They are not signed: the second attempt has number 1, and the
// category of what the attempt before it came to.
const (
	HeaderRetryNumber = "X-MCP-Retry-Number"
	HeaderRetryReason = "X-MCP-Retry-Reason"
)

// Schemes of a signature in HeaderWebhookSignature: HMAC-SHA256 with the subscription's secret,
// and ed25519 with the server's own key (HOOK-2, HOOK-10).
const (
	SignatureHMAC    = "v1"
	SignatureEd25519 = "v1a"
)

// Documents at well-known places: on the callback's origin the paths that consent to be called
// (VER-1), on the server's origin the public keys of its v1a signatures (HOOK-10).
const (
	PathReceivers = "/.well-known/mcp-webhook-receiver.json"
	PathKeySet    = "/.well-known/mcp-webhook-jwks.json"
)

// Types of control envelopes (VER-2, HOOK-7).
const (
	EnvelopeVerification = "verification"
	EnvelopeGap          = "gap"
	EnvelopeTerminated   = "terminated"
)

// MessagePrefix begins the webhook-id of a control envelope; the envelope's type, an underscore
// and random characters follow (HOOK-7).
const MessagePrefix = "msg_"

// Secrets of webhook subscriptions (SUB-3).
const (
	// SecretPrefix begins a secret's text; standard base64 follows.
	SecretPrefix = "whsec_"
	// MinSecret and MaxSecret bound the decoded secret in bytes.
	MinSecret = 24
	MaxSecret = 64
)

// A Category says what was wrong with a callback endpoint, without repeating anything that the
// endpoint said; it is the reason of a CallbackEndpointError (ERR-1).
type Category string

// The categories. A failed lookup and a blocked address are ConnectionRefused.
const (
	ConnectionRefused Category = "connection_refused"
	Timeout           Category = "timeout"
	TLSError          Category = "tls_error"
	HTTP4xx           Category = "http_4xx"
	HTTP5xx           Category = "http_5xx"
	ChallengeFailed   Category = "challenge_failed"
)

// CategoryOfStatus returns the category of an answer's status, or "" for success. A redirect is
// HTTP4xx, because none is followed (ERR-1, SSRF-2).
func CategoryOfStatus(status int) Category {
	switch {
	case status >= 200 && status < 300:
		return ""
	case status >= 500:
		return HTTP5xx
	default:
		return HTTP4xx
	}
}

// A ChallengeAnswer is what a callback answers to a verification (VER-2).
type ChallengeAnswer struct {
	Challenge string `json:"challenge"`
}

// Receivers is the document at PathReceivers: prefixes of paths on that origin that consent to
// be called (VER-1).
type Receivers struct {
	Receivers []string `json:"receivers"`
}
