package operator

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A State is the delivery state of a webhook subscription.
type State string

// The states.
const (
	StateActive    State = "active"
	StateSuspended State = "suspended" // until the subscription is refreshed or resumed
	StatePaused    State = "paused"    // by an operator, until an operator unpauses it
	StateAbsent    State = "absent"
	// StateUnreadable means that the subscription's record cannot be read. No process delivers to it; see
	// [WebhookInfo.Unreadable].
	StateUnreadable State = "unreadable"
)

// A SubscriptionKey identifies a webhook subscription. See SUB-4.
type SubscriptionKey struct {
	Principal, URL, Event string
	// Arguments contains the arguments as JSON; nil means {}.
	Arguments json.RawMessage
}

// A WebhookInfo describes a webhook subscription. It does not contain the secret.
type WebhookInfo struct {
	ID          string          `json:"id"`
	Principal   string          `json:"principal"`
	Event       string          `json:"event"`
	Arguments   json.RawMessage `json:"arguments"`
	URL         string          `json:"url"`
	State       State           `json:"state"`
	CreatedAt   time.Time       `json:"createdAt"`
	RefreshedAt time.Time       `json:"refreshedAt"`
	// ExpiresAt is zero if the subscription does not expire.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Owner is the name of the process that delivers to the subscription, or that last did. It is "" if only one process
	// uses the store.
	Owner string `json:"owner,omitempty"`
	// AsOf is the time of the figures Behind, WaitingSince and Throttled, or zero if only one process uses the store. If
	// they are missing, Missing explains why, and AsOf is the time when an owner last wrote them.
	AsOf    time.Time `json:"asOf,omitzero"`
	Missing string    `json:"missing,omitempty"`
	// Cursor is the stored watermark. It is nil for a type without replay.
	Cursor         *string   `json:"cursor"`
	LastDeliveryAt time.Time `json:"lastDeliveryAt,omitzero"`
	// LastError is the error category of the last failed attempt, regardless of its age. LastStatus is the HTTP status
	// of the response to it, or 0 without one; see [FailureText]. LastErrorAt is the time of that attempt.
	LastError   string    `json:"lastError,omitempty"`
	LastStatus  int       `json:"lastStatus,omitempty"`
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`
	FailedSince time.Time `json:"failedSince,omitzero"`
	Throttled   bool      `json:"throttled,omitempty"`
	// Behind is the number of log entries after the watermark. It is nil for a check, and if it is missing.
	Behind *int64 `json:"behind,omitempty"`
	// WaitingSince is the timestamp of the first entry after the watermark. It is zero if Behind is nil or 0.
	WaitingSince time.Time `json:"waitingSince,omitzero"`
	// Abandoned is the number of occurrences that were abandoned in the last hour, to the nearest ten minutes.
	Abandoned int `json:"abandoned,omitempty"`
	// Replay is the replay in progress, or nil.
	Replay *Replay `json:"replay,omitempty"`
	// Requests contains the latest operator request of each kind, sorted by kind.
	Requests []Request `json:"requests,omitempty"`
	// Truncated reports whether there is a gap that has not yet been reported in a subscribe response.
	Truncated bool `json:"truncated,omitempty"`
	// Unreadable explains why the subscription's record cannot be read. It is "" if the record can be read. A process
	// that had already loaded the record continues to deliver until the process ends.
	Unreadable string `json:"unreadable,omitempty"`
}

// A Request is the latest request of its kind for one subscription. It comes from [Admin.Resume], [Admin.Replay],
// [Admin.EndReplay], [Admin.SendAgain], [Admin.End], or [Admin.RaiseGap] with an id.
type Request struct {
	// Kind is "resume", "replay", "send", "end" or "gap". A request of kind "replay" with Ends set ends a replay.
	Kind string `json:"kind"`
	// Number counts the subscription's requests of this kind. A request replaces the earlier ones that have not begun.
	Number  uint64    `json:"number"`
	Ends    bool      `json:"ends,omitempty"`
	AskedBy string    `json:"askedBy"`
	At      time.Time `json:"at"`
	// Done is the number of the latest request of this kind that the delivering process has performed, or 0. DoneAt is
	// the time. Failure explains why that request failed, or is "".
	Done    uint64    `json:"done"`
	DoneAt  time.Time `json:"doneAt,omitzero"`
	Failure string    `json:"failure,omitempty"`
}

// Pending reports whether the request is still to be performed.
func (q *Request) Pending() bool { return q.Done < q.Number }

// A Replay describes the progress of a replay for one webhook subscription.
type Replay struct {
	AskedBy string `json:"askedBy"`
	// Left is the number of remaining log entries.
	Left int64 `json:"left"`
}

// Failing reports whether the last attempt failed or the record cannot be read. After a failure, the occurrence is
// retried or abandoned.
func (i *WebhookInfo) Failing() bool {
	return !i.FailedSince.IsZero() || i.State == StateSuspended || i.Unreadable != ""
}

// FailureText describes a failed attempt to people by its category and HTTP status, such as "HTTP 401". It returns the
// category if the status is 0. A response of the server's own proxy is described by a text such as "proxy: HTTP 502".
func FailureText(category string, status int) string {
	switch text := "HTTP " + strconv.Itoa(status); {
	case status == 0 || category == "":
		return category
	case category == "proxy":
		return "proxy: " + text
	default:
		return text
	}
}

// A Filter selects webhook subscriptions. Empty fields match all subscriptions.
type Filter struct {
	Principal, Event string
	State            State
	// Host is the lower-case host of a callback, including the port if the URL has one. URL is a substring of a
	// callback's URL in the form returned by [ShownURL].
	Host, URL string
	// MinBehind selects subscriptions that are known to be at least MinBehind log entries behind.
	MinBehind int64
	// Failing selects subscriptions that are unreadable or have a failed last attempt, whether or not they are
	// suspended. An action on a subscription can change its position in the list, so read the whole list before you
	// act.
	Failing bool
	// Late selects subscriptions that are known to have an entry older than Late after their watermark.
	Late time.Duration
}

// ShownURL returns a callback's URL without the user information, query and fragment, which may be secret.
func ShownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// HostOf returns the host of a callback's URL in the form used by [Filter].Host.
func HostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// An Endpoint summarizes the webhook subscriptions that deliver to a host or a URL.
type Endpoint struct {
	Host string `json:"host"`
	// URL has the form returned by [ShownURL]. It is empty if the Endpoint summarizes a host.
	URL string `json:"url,omitempty"`
	// Subscriptions counts all subscriptions. Active, Suspended and Paused count subscriptions by state. Failing counts
	// subscriptions whose last attempt failed.
	Subscriptions int `json:"subscriptions"`
	Active        int `json:"active"`
	Suspended     int `json:"suspended"`
	Paused        int `json:"paused"`
	Failing       int `json:"failing"`
	// Abandoned is the number of occurrences that were abandoned in the last hour.
	Abandoned int `json:"abandoned,omitempty"`
	// FailedSince is the earliest value among the subscriptions, LastDeliveryAt is the latest, and Behind is the
	// largest. WaitingSince is the earliest value among the subscriptions that are furthest behind in each event type.
	// Behind is nil and WaitingSince is zero for checks, and if figures of a subscription are missing. Missing then
	// explains why.
	FailedSince    time.Time `json:"failedSince,omitzero"`
	LastDeliveryAt time.Time `json:"lastDeliveryAt,omitzero"`
	Behind         *int64    `json:"behind,omitempty"`
	WaitingSince   time.Time `json:"waitingSince,omitzero"`
	Missing        string    `json:"missing,omitempty"`
}

// A SubscribeRequest describes a webhook subscription that an operator creates for a principal.
type SubscribeRequest struct {
	SubscriptionKey
	// Secret is the key that signs the deliveries, in the text form whsec_…. If it is empty, the server generates a
	// secret without disclosing it. The subscriber can then set its own secret with a refresh.
	Secret string
	// TTL is the time until the subscription must be refreshed, within the server's limits. 0 means the default. A
	// negative TTL requests a subscription without expiry.
	TTL time.Duration
	// Cursor is the position at which the subscription starts; nil means now.
	Cursor *string
}

// A Target selects the subscriptions that receive an operator's signal. It selects all live subscriptions to an event
// type, or the subscription with an id, which can have several streams.
type Target struct {
	// Event is the name of the event type. It is used if ID is empty.
	Event string
	// ID is a subscription's id.
	ID string
}

// A Connection is a stream or a poller. A poller is connected until its lease expires.
type Connection struct {
	// ID identifies the connection in calls to [Admin.EndConnection]. A connection of another process cannot be ended
	// here; its ID begins with the process's name and a slash.
	ID           string `json:"id"`
	Subscription string `json:"subscription"`
	Principal    string `json:"principal"`
	Event        string `json:"event"`
	// Mode is "push" or "poll".
	Mode  string    `json:"mode"`
	Since time.Time `json:"since"`
	// Behind is the number of log entries that the connection has not yet read. For a poller, it is the number at the
	// time of the last poll. It is nil for checks.
	Behind *int64 `json:"behind,omitempty"`
	// Process is the name of the process that has the connection. It is "" if only one process uses the store.
	Process string `json:"process,omitempty"`
}

// Ours reports whether this process has the connection and can end it.
func (c Connection) Ours() bool { return c.Process == "" || !strings.HasPrefix(c.ID, c.Process+"/") }

// An EventType describes a registered event type.
type EventType struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Delivery lists the delivery modes that the type offers.
	Delivery []string `json:"delivery"`
	// Replay reports whether past occurrences can be redelivered.
	Replay bool `json:"replay"`
	// Oldest is the first retained position of the type's log. Head is the last position, which is the number of
	// occurrences so far. Both are 0 if the type has no log.
	Oldest store.Position `json:"oldest"`
	Head   store.Position `json:"head"`
	// Damaged is the number of retained log entries that this process found to be damaged. Readers receive a gap in
	// place of these entries.
	Damaged int64 `json:"damaged,omitempty"`
	// PerMinute is the number of occurrences that became visible in this process in the last minute, rounded to a
	// tenth.
	PerMinute float64 `json:"perMinute"`
	// Counts contains the figures of all processes. It is nil if the figures of a process are missing.
	*Counts
	// Terminated is set while the type is closed.
	Terminated *Termination `json:"terminated,omitempty"`
}

// Counts contains the figures of an event type in all processes.
type Counts struct {
	// Behind is the lag of the slowest stream or webhook subscription, in log entries.
	Behind int64 `json:"behind"`
	// Abandoned is the number of occurrences that were abandoned in the last hour, at all webhook subscriptions.
	Abandoned int `json:"abandoned,omitempty"`
	// Streams, Pollers and Webhooks count the live subscriptions.
	Streams  int `json:"streams"`
	Pollers  int `json:"pollers"`
	Webhooks int `json:"webhooks"`
}

// Failures summarizes the webhook subscriptions that fail.
type Failures struct {
	// Longest contains the failing subscriptions that have been failing longest, those first. Total counts all failing
	// subscriptions.
	Longest []WebhookInfo
	Total   int
}

// A Termination says who has closed an event type, and when. Both are empty for a termination that an earlier version
// of the server has stored.
type Termination struct {
	By string    `json:"by"`
	At time.Time `json:"at,omitzero"`
}

// An EventTypeInfo is an event type with its schemas, as shown to subscribers.
type EventTypeInfo struct {
	EventType
	InputSchema   json.RawMessage `json:"inputSchema"`
	PayloadSchema json.RawMessage `json:"payloadSchema"`
}

// An Occurrence is an occurrence in an event type's log.
type Occurrence struct {
	Event     string      `json:"event"`
	EventID   string      `json:"eventId"`
	Timestamp events.Time `json:"timestamp"`
	// Position is the position of the occurrence in the event type's log, starting at 1.
	Position store.Position `json:"position"`
	// Bytes is the size of the payload.
	Bytes int `json:"bytes"`
	// Targeted reports whether the occurrence is only for specific subscriptions.
	Targeted bool `json:"targeted,omitempty"`
	// Data is the payload before any Transform. It is null if the payload is damaged.
	Data json.RawMessage `json:"data"`
	// Cursor is the cursor that follows the occurrence, for use with [Admin.Replay]. It is empty for a type without
	// replay, and in a [Tail].
	Cursor string `json:"cursor,omitempty"`
}

// A Point specifies where to start in an event type's log. Set exactly one of Since, Position and EventID.
type Point struct {
	// Since selects the first entry with that timestamp or a later one.
	Since time.Time
	// Position selects the entry at that position. EventID selects the last entry with that id among the latest 100,000
	// entries.
	Position store.Position
	EventID  string
	// Until ends the range before the first entry with that timestamp or a later one; zero means no end.
	Until time.Time
}

// A Beginning is the range of a replay that starts at a [Point].
type Beginning struct {
	// Cursor and Last are arguments for [Admin.Replay]. Last is the position of the last entry in the range. If Until
	// of the Point is zero, it is the head.
	Cursor string         `json:"cursor"`
	Last   store.Position `json:"last"`
	// EventID, Timestamp and Position describe the first entry that will be redelivered to matching subscriptions.
	EventID   string         `json:"eventId"`
	Timestamp events.Time    `json:"timestamp"`
	Position  store.Position `json:"position"`
	// Entries is the number of entries from Position through Last.
	Entries int64 `json:"entries"`
	// Truncated reports whether the log has evicted requested entries. In that case, the range begins with the oldest
	// retained entry.
	Truncated bool `json:"truncated"`
}

// An Outcome is the result of delivering an occurrence to one webhook subscription.
type Outcome string

// The outcomes.
const (
	// OutcomeAccepted means that the endpoint accepted the occurrence.
	OutcomeAccepted Outcome = "accepted"
	// OutcomeWaiting means that the occurrence has not yet been delivered.
	OutcomeWaiting Outcome = "waiting"
	// OutcomeFailed means that the occurrence was abandoned after its last attempt.
	OutcomeFailed Outcome = "failed"
	// OutcomePassed means that the occurrence matches but will not be delivered, and that no attempt is recorded. It is
	// too old, or the subscription started after it.
	OutcomePassed Outcome = "passed"
)

// A Delivery is the outcome of an occurrence for one webhook subscription.
type Delivery struct {
	Subscription string  `json:"subscription"`
	Principal    string  `json:"principal"`
	URL          string  `json:"url"`
	State        State   `json:"state"`
	Outcome      Outcome `json:"outcome"`
	// Attempts contains the recorded attempts, latest first.
	Attempts []Attempt `json:"attempts"`
}

// A Tail follows occurrences as they become visible in this process, including those emitted by other processes.
// Occurrences found by checks are omitted. A Tail stores only a position for each event type, so a slow reader does not
// block others. It is not safe for concurrent use.
type Tail interface {
	// Next waits for occurrences until ctx ends or the server shuts down (events.ErrClosed). The occurrences of one
	// event type are in order. skipped counts the occurrences passed over because this tail was too slow.
	Next(ctx context.Context) (found []Occurrence, skipped int64, err error)
}

// An Attempt is the result of one request to deliver an occurrence to an endpoint. It contains the status of the
// response, but no headers or bodies.
type Attempt struct {
	// EventID is the occurrence's id, which is the webhook-id of all attempts. Event is the event type.
	EventID string `json:"eventId"`
	Event   string `json:"event"`
	// Position is the occurrence's position in its log. A position in a feed is meaningful only within one process.
	Position store.Position `json:"position"`
	// Number is the number of the attempt for the occurrence, starting at 1.
	Number int `json:"number"`
	// At is the time when the request was signed. Took is the time from then until the response or failure.
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took"`
	// Category is the category of the failure, or "" if the endpoint accepted the occurrence. It is a category of
	// ERR-1, or "proxy" if the server's own proxy failed (Callbacks.Proxy), which subscribers see as connection_refused.
	Category string `json:"category,omitempty"`
	// Status is the HTTP status of the endpoint's response, or of the proxy's if Category is "proxy"; 0 without one.
	Status int `json:"status,omitempty"`
	// NextAt is the time when the next attempt is due, or zero after the last attempt.
	NextAt time.Time `json:"nextAt,omitzero"`
	// AskedBy is the actor who requested the attempt with [Admin.SendAgain] or [Admin.Replay]; see [WithActor]. It is
	// "" for a scheduled attempt, such as a retry of a requested attempt. If a process ends during a replay, the
	// remaining attempts are treated as scheduled.
	AskedBy string `json:"askedBy,omitempty"`
}

// An Abandoned is an occurrence that could not be delivered to one webhook subscription.
type Abandoned struct {
	Subscription string `json:"subscription"`
	Principal    string `json:"principal"`
	URL          string `json:"url"`
	// Attempt is the last attempt. Pass its At as the seen parameter of [Admin.SendAgain].
	Attempt Attempt `json:"attempt"`
}

// A Rejected is an invalid outbox occurrence, which is not delivered. The fields contain the values that were
// written to the outbox, but EventID is truncated to 256 bytes.
type Rejected struct {
	ID int64 `json:"id,string"`
	// At is the time when the occurrence was rejected, according to the store's clock. Reason explains why.
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	// Log is the name of the log, truncated to 256 bytes.
	Log     string `json:"log"`
	EventID string `json:"eventId"`
	// Bytes is the combined size of the payload and _meta.
	Bytes int64 `json:"bytes"`
}

// An AuditEntry records an action, its actor and its outcome. Strings are truncated to 1024 bytes.
type AuditEntry struct {
	// Position is the entry's position in the audit log, starting at 1. It is 0 until the entry is stored.
	Position store.Position `json:"position,omitzero"`
	At       time.Time      `json:"at"`
	Actor    string         `json:"actor"`
	// Verb is the action. It is "register" if a process, the Actor, has changed the schemas of an event type incompatibly.
	// The following fields identify the object of the action. A field that does not apply is "".
	Verb         string `json:"verb"`
	Subscription string `json:"subscription,omitempty"`
	Connection   string `json:"connection,omitempty"`
	Rejected     string `json:"rejected,omitempty"`
	Principal    string `json:"principal,omitempty"`
	Event        string `json:"event,omitempty"`
	EventID      string `json:"eventId,omitempty"`
	// Asked contains the remaining parameters of the action, such as "since 2026-11-22T14:00:00Z".
	Asked string `json:"asked,omitempty"`
	// Key is the request's idempotency key. Status is the HTTP status of the response.
	Key    string `json:"key,omitempty"`
	Status int    `json:"status,omitempty"`
	// Outcome explains why the action failed, or the consequences of a registration. Otherwise it is "".
	Outcome string `json:"outcome,omitempty"`
}

// An AuditFilter selects entries of the audit log with the same field values. Empty fields match all entries.
type AuditFilter struct {
	Actor, Verb, Subscription, Principal, Event, EventID string
	// Since selects entries recorded at or after that time.
	Since time.Time
}

// Takes reports whether e matches the filter.
func (f AuditFilter) Takes(e *AuditEntry) bool {
	for _, pair := range [][2]string{{f.Actor, e.Actor}, {f.Verb, e.Verb}, {f.Subscription, e.Subscription}, {f.Principal, e.Principal}, {f.Event, e.Event},
		{f.EventID, e.EventID}} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return !e.At.Before(f.Since)
}
