package wire

// Headers of all requests to a callback (HOOK-2). The first three come from the Standard Webhooks specification, and
// the last from the extension.
const (
	HeaderWebhookID        = "webhook-id"
	HeaderWebhookTimestamp = "webhook-timestamp"
	HeaderWebhookSignature = "webhook-signature"
	HeaderSubscriptionID   = "X-MCP-Subscription-Id"
)

// Optional headers that describe a retry. They are not signed. The second attempt has the number 1 and the category of
// the previous attempt's result.
const (
	HeaderRetryNumber = "X-MCP-Retry-Number"
	HeaderRetryReason = "X-MCP-Retry-Reason"
)

// Signature schemes in HeaderWebhookSignature: HMAC-SHA256 with the subscription's secret, and ed25519 with the
// server's key (HOOK-2, HOOK-10).
const (
	SignatureHMAC    = "v1"
	SignatureEd25519 = "v1a"
)

// Paths of well-known documents. The callback's origin lists the paths that accept callbacks (VER-1). The server's
// origin lists the public keys for its v1a signatures (HOOK-10).
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

// MessagePrefix is the prefix of the webhook-id of a control envelope. It is followed by the envelope's type, an
// underscore and random characters (HOOK-7).
const MessagePrefix = "msg_"

// Secrets of webhook subscriptions (SUB-3).
const (
	// SecretPrefix is the prefix of a secret. It is followed by standard base64.
	SecretPrefix = "whsec_"
	// MinSecret and MaxSecret limit the decoded secret, in bytes.
	MinSecret = 24
	MaxSecret = 64
)

// A Category classifies the failure of a callback endpoint without revealing content from the endpoint. It is the
// reason of a CallbackEndpointError (ERR-1).
type Category string

// The categories. ConnectionRefused also represents a failed lookup or a blocked address.
const (
	ConnectionRefused Category = "connection_refused"
	Timeout           Category = "timeout"
	TLSError          Category = "tls_error"
	HTTP4xx           Category = "http_4xx"
	HTTP5xx           Category = "http_5xx"
	ChallengeFailed   Category = "challenge_failed"
)

// Proxy is the category of a failure of the server's own proxy. Only operators see it; see [Category.ForSubscriber].
const Proxy Category = "proxy"

// ForSubscriber returns the category that a subscriber or an endpoint may see, which is one of ERR-1.
func (c Category) ForSubscriber() Category {
	if c == Proxy {
		return ConnectionRefused
	}
	return c
}

// CategoryOfStatus returns the category of a response status, or "" for success. For a redirect, it returns HTTP4xx,
// because redirects are not followed (ERR-1, SSRF-2).
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

// A ChallengeAnswer is a callback's response to a verification (VER-2).
type ChallengeAnswer struct {
	Challenge string `json:"challenge"`
}

// Receivers is the document at PathReceivers. It lists path prefixes on that origin that accept callbacks (VER-1).
type Receivers struct {
	Receivers []string `json:"receivers"`
}
