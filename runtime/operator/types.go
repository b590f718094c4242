package operator

import (
	"context"
	"encoding/json"
	"net/url"
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
	StateSuspended State = "suspended" // until it is refreshed or resumed
	StatePaused    State = "paused"    // by an operator, until an operator unpauses it
	StateAbsent    State = "absent"
	// StateUnreadable means that the subscription's record cannot be read. Nobody delivers to it, see
	// [WebhookInfo.Unreadable].
	StateUnreadable State = "unreadable"
)

// A SubscriptionKey identifies a webhook subscription. See SUB-4.
type SubscriptionKey struct {
	Principal, URL, Event string
	// Arguments are JSON; nil means {}.
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
	// ExpiresAt is zero for a subscription without expiry.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// Cursor is the watermark. It is nil for a type without replay, and until the subscription is restored after a
	// start. If the subscription lives in another process, it is the stored watermark, and nil in a list.
	Cursor         *string   `json:"cursor"`
	LastDeliveryAt time.Time `json:"lastDeliveryAt,omitzero"`
	// LastError is the category of the last failed attempt, however old. LastErrorAt is the time of that attempt if it
	// is still kept; zero in a list.
	LastError   string    `json:"lastError,omitempty"`
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`
	FailedSince time.Time `json:"failedSince,omitzero"`
	Throttled   bool      `json:"throttled,omitempty"`
	// Behind counts the entries of the type's log after the watermark. It is nil for a check, and until the
	// subscription is restored after a start.
	Behind *int64 `json:"behind,omitempty"`
	// WaitingSince is the timestamp of the first entry after the watermark. It is zero if Behind is nil or 0.
	WaitingSince time.Time `json:"waitingSince,omitzero"`
	// Replay is the replay under way, or nil. If the subscription lives in another process, it reflects the stored
	// progress.
	Replay *Replay `json:"replay,omitempty"`
	// Actions are the latest operator actions on the subscription, up to 16, the oldest first.
	Actions []Action `json:"actions,omitempty"`
	// Truncated reports a gap that no subscribe response has reported so far.
	Truncated bool `json:"truncated,omitempty"`
	// Unreadable explains why the subscription's record cannot be read; "" if it can. A process that had already loaded
	// it continues to deliver until it ends.
	Unreadable string `json:"unreadable,omitempty"`
}

// An Action is an operator's request to change one subscription. It comes from [Admin.Resume], [Admin.Replay],
// [Admin.EndReplay], [Admin.SendAgain], [Admin.End], or [Admin.RaiseGap] with an id.
type Action struct {
	Number uint64 `json:"number"`
	// Kind is "resume", "replay", "endReplay", "sendAgain", "end" or "gap".
	Kind    string    `json:"kind"`
	AskedBy string    `json:"askedBy"`
	At      time.Time `json:"at"`
	// Done is when the delivering process completed the action; zero while it is pending.
	Done time.Time `json:"done,omitzero"`
	// Failure explains why the action failed; "" if it succeeded or is pending.
	Failure string `json:"failure,omitempty"`
}

// A Replay is the progress of a replay of one webhook subscription.
type Replay struct {
	AskedBy string `json:"askedBy"`
	// Left counts the log entries that remain.
	Left int64 `json:"left"`
}

// Failing reports whether the last attempt failed, or the record cannot be read. After a failure the subscription
// retries or is suspended.
func (i *WebhookInfo) Failing() bool {
	return !i.FailedSince.IsZero() || i.State == StateSuspended || i.Unreadable != ""
}

// A Filter picks webhook subscriptions. Empty fields match all.
type Filter struct {
	Principal, Event string
	State            State
	// Host is the lower-case host of a callback, with the port if its URL has one. URL is a substring of a callback's
	// URL in the form of [ShownURL].
	Host, URL string
	// MinBehind picks subscriptions of this process that are behind by at least that many entries.
	MinBehind int64
	// Failing picks subscriptions whose last attempt failed, suspended or not, and unreadable ones. An action on one
	// may change its place in the list: read the whole list before you act.
	Failing bool
	// Late picks subscriptions of this process with an entry after the watermark that is older than this.
	Late time.Duration
}

// ShownURL returns a callback's URL without its userinfo, query and fragment, which may be secret.
func ShownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// HostOf returns the host of a callback's URL in the form of [Filter].Host.
func HostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// An Endpoint summarizes the webhook subscriptions to a host or to a URL.
type Endpoint struct {
	Host string `json:"host"`
	// URL has the form of [ShownURL]; empty for a whole host.
	URL string `json:"url,omitempty"`
	// Subscriptions counts all; Active, Suspended and Paused count them by state. Failing counts the ones whose last
	// attempt failed.
	Subscriptions int `json:"subscriptions"`
	Active        int `json:"active"`
	Suspended     int `json:"suspended"`
	Paused        int `json:"paused"`
	Failing       int `json:"failing"`
	// FailedSince is the earliest, and LastDeliveryAt the latest, of the subscriptions. Behind is the largest.
	// WaitingSince is the earliest of the subscriptions that are the furthest behind in their event type. Behind and
	// WaitingSince cover this process only.
	FailedSince    time.Time `json:"failedSince,omitzero"`
	LastDeliveryAt time.Time `json:"lastDeliveryAt,omitzero"`
	Behind         int64     `json:"behind"`
	WaitingSince   time.Time `json:"waitingSince,omitzero"`
}

// A SubscribeRequest describes a webhook subscription that an operator creates for a principal.
type SubscribeRequest struct {
	SubscriptionKey
	// Secret signs the deliveries, in its text form whsec_…. If it is empty, the server generates a secret that nobody
	// knows; the subscriber replaces it with a refresh.
	Secret string
	// TTL is the time until the subscription must be refreshed, within the server's bounds. 0 means the default, and a
	// negative TTL requests no expiry.
	TTL time.Duration
	// Cursor is where the subscription starts; nil means now.
	Cursor *string
}

// A Target selects the subscriptions that an operator's signal is for. These are all live subscriptions to an event
// type, or the ones with an id, which may be several streams.
type Target struct {
	// Event names the type; used when ID is empty.
	Event string
	// ID is a subscription's id.
	ID string
}

// A Connection is a stream, or a poller between its polls.
type Connection struct {
	// ID identifies the connection to [Admin.EndConnection] as long as it lasts.
	ID           string `json:"id"`
	Subscription string `json:"subscription"`
	Principal    string `json:"principal"`
	Event        string `json:"event"`
	// Mode is "push" or "poll".
	Mode  string    `json:"mode"`
	Since time.Time `json:"since"`
	// Behind counts the log entries that the connection has not passed so far. For a poller it dates from the last
	// poll. It is nil for checks.
	Behind *int64 `json:"behind,omitempty"`
}

// An EventType describes a registered event type.
type EventType struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	// Delivery lists the delivery modes that it offers.
	Delivery []string `json:"delivery"`
	// Replay reports whether past occurrences can be redelivered.
	Replay bool `json:"replay"`
	// Oldest is the first retained position of its log. Head is the last position, which is the number of occurrences
	// so far. Both are 0 without a log.
	Oldest store.Position `json:"oldest"`
	Head   store.Position `json:"head"`
	// Damaged counts the retained log entries that this process has found to be damaged. Readers get a gap in their
	// place.
	Damaged int64 `json:"damaged,omitempty"`
	// PerMinute is the number of occurrences that became visible in this process in the last minute, to a tenth.
	PerMinute float64 `json:"perMinute"`
	// Behind is the lag, in log entries, of the slowest stream or webhook subscription of this process.
	Behind int64 `json:"behind"`
	// Streams, Pollers and Webhooks count the live subscriptions of this process.
	Streams  int `json:"streams"`
	Pollers  int `json:"pollers"`
	Webhooks int `json:"webhooks"`
}

// An EventTypeInfo is an event type with its schemas, as subscribers see them.
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
	// Position counts the occurrences of the event type.
	Position store.Position `json:"position"`
	// Bytes is the size of its payload.
	Bytes int `json:"bytes"`
	// Targeted reports whether the occurrence is only for named subscriptions.
	Targeted bool `json:"targeted,omitempty"`
	// Data is the payload before any Transform; null if it is damaged.
	Data json.RawMessage `json:"data"`
	// Cursor is the cursor after the occurrence, for [Admin.Replay]. It is empty for a type without replay, and in a
	// [Tail].
	Cursor string `json:"cursor,omitempty"`
}

// A Point is a place in an event type's log. Exactly one of Since, Position and EventID is set.
type Point struct {
	// Since selects the first entry that happened at that time or later.
	Since time.Time
	// Position selects the entry at that position. EventID selects the last entry with that id, among the latest
	// 100,000.
	Position store.Position
	EventID  string
	// Until ends the range before the first entry that happened at that time or later; zero means no end.
	Until time.Time
}

// A Beginning is the range of a replay that starts at a [Point].
type Beginning struct {
	// Cursor and Last are parameters of [Admin.Replay]. Last is the position of the last entry in the range, the head
	// if the Point has no Until.
	Cursor string         `json:"cursor"`
	Last   store.Position `json:"last"`
	// EventID, Timestamp and Position describe the first entry that is delivered again to the subscriptions it matches.
	EventID   string         `json:"eventId"`
	Timestamp events.Time    `json:"timestamp"`
	Position  store.Position `json:"position"`
	// Entries counts the entries from that one through Last.
	Entries int64 `json:"entries"`
	// Truncated reports that the log has dropped requested entries: the range begins with the oldest retained one.
	Truncated bool `json:"truncated"`
}

// An Outcome is the result of an occurrence at one webhook subscription.
type Outcome string

// The outcomes.
const (
	// OutcomeAccepted means that the endpoint accepted the occurrence.
	OutcomeAccepted Outcome = "accepted"
	// OutcomeWaiting means that the occurrence is still to be delivered.
	OutcomeWaiting Outcome = "waiting"
	// OutcomeFailed means that the occurrence was given up after its last attempt.
	OutcomeFailed Outcome = "failed"
	// OutcomePassed means that the occurrence matches but will not be delivered, and no attempt is kept. It is too old,
	// or the subscription began after it.
	OutcomePassed Outcome = "passed"
)

// A Delivery is an occurrence's outcome at one webhook subscription.
type Delivery struct {
	Subscription string  `json:"subscription"`
	Principal    string  `json:"principal"`
	URL          string  `json:"url"`
	State        State   `json:"state"`
	Outcome      Outcome `json:"outcome"`
	// Attempts are the recorded attempts, the latest first.
	Attempts []Attempt `json:"attempts"`
}

// A Tail follows occurrences as they become visible in this process, whichever process emitted them. Occurrences that
// checks find are left out. It keeps only a position for each event type, so a slow reader does not block others. It is
// not safe for concurrent use.
type Tail interface {
	// Next waits for occurrences until ctx ends or the server shuts down (events.ErrClosed). The occurrences of one
	// event type are in order. skipped counts the occurrences passed over because this tail was too slow.
	Next(ctx context.Context) (found []Occurrence, skipped int64, err error)
}

// An Attempt is the result of one request that carried an occurrence to an endpoint. It contains no body and no header,
// and only the status of the response.
type Attempt struct {
	// EventID is the occurrence's id, which is the webhook-id of all its attempts. Event is its event type.
	EventID string `json:"eventId"`
	Event   string `json:"event"`
	// Position is the occurrence's position in its log. The position in a feed is only meaningful in one process.
	Position store.Position `json:"position"`
	// Number counts the attempts to deliver the occurrence, from 1.
	Number int `json:"number"`
	// At is when the request was signed. Took is the time until its response or failure.
	At   time.Time     `json:"at"`
	Took time.Duration `json:"took"`
	// Category is the category of the failure; "" if the endpoint accepted the occurrence. See ERR-1.
	Category string `json:"category,omitempty"`
	// Status is the HTTP status, 0 without a response.
	Status int `json:"status,omitempty"`
	// NextAt is when the next attempt is due; zero if none follows.
	NextAt time.Time `json:"nextAt,omitzero"`
	// AskedBy is the actor who requested the attempt by [Admin.SendAgain] or [Admin.Replay], see [WithActor]. It is ""
	// for a scheduled attempt, such as a retry of a requested one. If a process ends during a replay, the remaining
	// attempts count as scheduled.
	AskedBy string `json:"askedBy,omitempty"`
}

// An Abandoned is an occurrence that was given up at one webhook subscription.
type Abandoned struct {
	Subscription string `json:"subscription"`
	Principal    string `json:"principal"`
	URL          string `json:"url"`
	// Attempt is the last attempt. Its At is the seen parameter of [Admin.SendAgain].
	Attempt Attempt `json:"attempt"`
}

// A Rejected is an outbox occurrence that was set aside: nobody gets it. Its fields are as the writer wrote them;
// EventID is cut to 256 bytes.
type Rejected struct {
	ID int64 `json:"id,string"`
	// At is when it was set aside, by the store's clock. Reason says why.
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
	// Log is the name of its log, cut to 256 bytes.
	Log     string `json:"log"`
	EventID string `json:"eventId"`
	// Bytes is the combined size of its payload and _meta.
	Bytes int64 `json:"bytes"`
}

// An AuditEntry records an action, its actor and its outcome. Texts are cut to 1024 bytes.
type AuditEntry struct {
	// Position is the entry's position in the audit log, from 1; 0 until it is stored.
	Position store.Position `json:"position,omitzero"`
	At       time.Time      `json:"at"`
	Actor    string         `json:"actor"`
	// Verb is the action. The following fields name its object; they are "" if they do not apply.
	Verb         string `json:"verb"`
	Subscription string `json:"subscription,omitempty"`
	Connection   string `json:"connection,omitempty"`
	Rejected     string `json:"rejected,omitempty"`
	Principal    string `json:"principal,omitempty"`
	Event        string `json:"event,omitempty"`
	EventID      string `json:"eventId,omitempty"`
	// Asked holds the other parameters of the action, such as "since 2026-11-22T14:00:00Z".
	Asked string `json:"asked,omitempty"`
	// Key is the request's idempotency key. Status is the HTTP status of the response.
	Key    string `json:"key,omitempty"`
	Status int    `json:"status,omitempty"`
	// Outcome explains why the action failed; "" if it succeeded.
	Outcome string `json:"outcome,omitempty"`
}

// An AuditFilter picks entries of the audit log whose fields equal its own. Empty fields match all.
type AuditFilter struct {
	Actor, Verb, Subscription, Principal, Event, EventID string
	// Since picks entries from a time on.
	Since time.Time
}

// Takes reports whether the filter picks e.
func (f AuditFilter) Takes(e *AuditEntry) bool {
	for _, pair := range [][2]string{{f.Actor, e.Actor}, {f.Verb, e.Verb}, {f.Subscription, e.Subscription}, {f.Principal, e.Principal}, {f.Event, e.Event},
		{f.EventID, e.EventID}} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return !e.At.Before(f.Since)
}

// A Minute sums up the webhook delivery attempts that ended in it. It counts all requests to endpoints, first attempts,
// retries and control envelopes alike, except verifications.
type Minute struct {
	At                 time.Time // when it began
	Attempts, Failures int64
	// P50, P95 and P99 are percentiles of the time until an attempt was answered or timed out. They are accurate to a
	// factor of √2; times above 65 s count as 65 s. Failed connections do not count. They are 0 without such attempts.
	P50, P95, P99 time.Duration
	// Behind is the lag, in log entries, of the slowest webhook subscription at one moment of the minute. It is nil if
	// no lag was sampled.
	Behind *int64
}

// An Activity sums up this process's webhook delivery attempts in the last hour.
type Activity struct {
	// Whole sums up the hour; its Behind is the latest known.
	Whole Minute
	// Minutes are up to 60 consecutive minutes, the oldest first; the last one is in progress. They begin when the
	// process started. For an event type or host first counted after another one was evicted, they begin at that first
	// count.
	Minutes []Minute
}

// A Cluster is the state of the processes that share a store, as seen by one of them.
type Cluster struct {
	// Replicas are the processes with a current lease, in the order in which their leases began.
	Replicas []Replica `json:"replicas"`
	// Leased reports whether this process holds its lease: without one it delivers nothing.
	Leased bool `json:"leased"`
	// Unowned counts the shards that no replica owns, by event type, "/outbox" or "/retention".
	Unowned map[string]int `json:"unowned"`
	// Generation is a number that the store's logs increment whenever they begin new epochs.
	Generation uint64 `json:"generation"`
	// HeardAt is when this process last knew every order given in other processes; zero if never.
	HeardAt time.Time `json:"heardAt,omitzero"`
	// OutboxAge is how long the oldest occurrence has waited in the outbox. While the outbox cannot be read, it is how
	// long one may have waited. It is nil in a process that does not own the outbox.
	OutboxAge *time.Duration `json:"-"`
}

// A Replica is a process of a [Cluster].
type Replica struct {
	Name string `json:"name"`
	// This marks the process that answers.
	This bool `json:"this,omitempty"`
	// Shards counts the shards that it owns, with the keys of Cluster.Unowned.
	Shards map[string]int `json:"shards"`
}
