package operator

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A State is what becomes of the deliveries of a webhook subscription.
type State string

// The states.
const (
	StateActive    State = "active"
	StateSuspended State = "suspended" // until it is refreshed or resumed
	StatePaused    State = "paused"    // by an operator, until an operator lets it go on
	StateAbsent    State = "absent"
)

// A SubscriptionKey is what identifies a webhook subscription. See SUB-4.
type SubscriptionKey struct {
	Principal, URL, Event string
	// Arguments are JSON; nil is {}.
	Arguments json.RawMessage
}

// A WebhookInfo describes a webhook subscription. It holds no secret.
type WebhookInfo struct {
	ID          string          `json:"id"`
	Principal   string          `json:"principal"`
	Event       string          `json:"event"`
	Arguments   json.RawMessage `json:"arguments"`
	URL         string          `json:"url"`
	State       State           `json:"state"`
	CreatedAt   time.Time       `json:"createdAt"`
	RefreshedAt time.Time       `json:"refreshedAt"`
	// ExpiresAt is zero for a subscription without expiry.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Cursor is the watermark; nil for a type without replay, and until the subscription is
	// restored after a start. Of one that lives in another process it is what is stored, and nil in a
	// list.
	Cursor         *string   `json:"cursor"`
	LastDeliveryAt time.Time `json:"lastDeliveryAt,omitzero"`
	LastError      string    `json:"lastError,omitempty"`
	FailedSince    time.Time `json:"failedSince,omitzero"`
	Throttled      bool      `json:"throttled,omitempty"`
	// Behind is how many entries of the type's log are after its watermark; nil for a check, and until
	// the subscription is restored after a start.
	Behind *int64 `json:"behind,omitempty"`
	// Truncated tells of a gap that no subscribe response has reported yet.
	Truncated bool `json:"truncated,omitempty"`
}

// A SubscribeRequest is a webhook subscription that an operator makes for a principal.
type SubscribeRequest struct {
	SubscriptionKey
	// Secret signs the deliveries, in its text form whsec_…; when empty one is generated that
	// nobody knows, which the subscriber replaces by a refresh.
	Secret string
	// TTL is the time until it must be refreshed, within the server's bounds; 0 is the default and
	// negative asks for no expiry.
	TTL time.Duration
	// Cursor is where it starts; nil is now.
	Cursor *string
}

// A Target is whom an operator's signal is for: all live subscriptions to an event type, or the
// ones of an id, which may be several streams.
type Target struct {
	// Event names the type; used when ID is empty.
	Event string
	// ID is a subscription's id.
	ID string
}

// A Connection is a stream, or a poller that may come again.
type Connection struct {
	// ID names the connection to [Admin.EndConnection] while it lasts.
	ID           string `json:"id"`
	Subscription string `json:"subscription"`
	Principal    string `json:"principal"`
	Event        string `json:"event"`
	// Mode is "push" or "poll".
	Mode  string    `json:"mode"`
	Since time.Time `json:"since"`
	// Behind is how many entries of the type's log it has not passed yet, a poller by its last poll; nil
	// for checks.
	Behind *int64 `json:"behind,omitempty"`
}

// An EventType is one that is registered.
type EventType struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Delivery are the ways in which it is offered.
	Delivery []string `json:"delivery"`
	// Replay tells whether what is past can be delivered again.
	Replay bool `json:"replay"`
	// Oldest and Head are the first retained position of its log and the last one: how many
	// occurrences there have been. Both are 0 without a log.
	Oldest store.Position `json:"oldest"`
	Head   store.Position `json:"head"`
	// PerMinute is how many occurrences become visible in this process in a minute, to a tenth, as an average of the
	// last one.
	PerMinute float64 `json:"perMinute"`
	// Behind is by how many entries the slowest stream or webhook subscription of this process is behind
	// the log.
	Behind int64 `json:"behind"`
	// Streams, Pollers and Webhooks count live subscriptions of this process.
	Streams  int `json:"streams"`
	Pollers  int `json:"pollers"`
	Webhooks int `json:"webhooks"`
}

// An EventTypeInfo is an event type with what its subscribers know of it.
type EventTypeInfo struct {
	EventType
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
}

// An Occurrence is an occurrence that passed.
type Occurrence struct {
	Event     string      `json:"event"`
	EventID   string      `json:"eventId"`
	Timestamp events.Time `json:"timestamp"`
	// Position counts the occurrences of the event type.
	Position store.Position `json:"position"`
	// Bytes is the size of its payload.
	Bytes int `json:"bytes"`
	// Targeted tells that it is for named subscriptions only.
	Targeted bool `json:"targeted,omitempty"`
	// Data is the payload, before any Transform; null for one that somebody damaged.
	Data json.RawMessage `json:"data"`
}

// A Tail shows occurrences as they become visible in this process, whoever emitted them; what checks find
// is not among them. It keeps a position for each event type and nothing else, so that nobody waits for
// who reads it slowly. It is for one goroutine.
type Tail interface {
	// Next waits for occurrences, at most until ctx ends or the server is shut down (events.ErrClosed). Those
	// of one event type are in order. skipped is how many were passed over because this tail was too slow.
	Next(ctx context.Context) (found []Occurrence, skipped int64, err error)
}

// An Attempt is what came of one request that carried an occurrence to an endpoint. It holds no
// body, no header and nothing that the endpoint said but its status.
type Attempt struct {
	// EventID and Event are the occurrence's id, which is the webhook-id of all its attempts, and its
	// event type.
	EventID string `json:"eventId"`
	Event   string `json:"event"`
	// Position is where the occurrence is in its log; of a feed it means something in one process only.
	Position store.Position `json:"position"`
	// Number counts the attempts at the occurrence from 1.
	Number int `json:"number"`
	// At is when the request was signed, Took how long until its answer or failure.
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took"`
	// Category is that of the failure; "" when the endpoint accepted the occurrence. See ERR-1.
	Category string `json:"category,omitempty"`
	// Status is the HTTP status, 0 when there was no answer.
	Status int `json:"status,omitempty"`
	// NextAt is when the next attempt is due; zero when none follows.
	NextAt time.Time `json:"nextAt,omitzero"`
	// ByHand tells that an operator asked for it, and not the schedule.
	ByHand bool `json:"byHand"`
}

// A Rejected is an occurrence of the outbox that was put aside: nobody gets it. What it holds is as
// somebody wrote it, of EventID the first 256 bytes.
type Rejected struct {
	ID int64 `json:"id,string"`
	// At is when it was put aside, by the store's clock, and Reason why.
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	// Log is the name of the log that it is for, cut to 256 bytes.
	Log     string `json:"log"`
	EventID string `json:"eventId"`
	// Bytes is the size of its payload and _meta together.
	Bytes int64 `json:"bytes"`
}
