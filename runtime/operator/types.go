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

// A State is what becomes of the deliveries of a webhook subscription.
type State string

// The states.
const (
	StateActive    State = "active"
	StateSuspended State = "suspended" // until it is refreshed or resumed
	StatePaused    State = "paused"    // by an operator, until an operator lets it go on
	StateAbsent    State = "absent"
	// StateUnreadable: its record cannot be read, and nobody delivers to it, see [WebhookInfo.Unreadable].
	StateUnreadable State = "unreadable"
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
	// WaitingSince is when the first entry after its watermark happened, by that one's timestamp; zero where
	// Behind is nil or 0.
	WaitingSince time.Time `json:"waitingSince,omitzero"`
	// Replay is the replay under way; nil for none, and for the rest of one that an earlier process began. Of one that lives in
	// another process it is as it was some seconds ago, and nil beyond the first 500 of that process.
	Replay *Replay `json:"replay,omitempty"`
	// Truncated tells of a gap that no subscribe response has reported yet.
	Truncated bool `json:"truncated,omitempty"`
	// Unreadable is why its record cannot be read; "" where it can. One that was taken up before goes on until its process ends.
	Unreadable string `json:"unreadable,omitempty"`
}

// A Replay is how far a replay of one webhook subscription is.
type Replay struct {
	AskedBy string `json:"askedBy"`
	// Left is how many entries of the log are before its end.
	Left int64 `json:"left"`
}

// Failing tells that its last attempt failed, so that it is suspended or tried again, or that its record cannot be read.
func (i *WebhookInfo) Failing() bool {
	return !i.FailedSince.IsZero() || i.State == StateSuspended || i.Unreadable != ""
}

// A Filter picks webhook subscriptions; what is empty picks all.
type Filter struct {
	Principal, Event string
	State            State
	// Host is the host of a callback in lower case, with the port where its URL has one. URL is a part of a callback's
	// URL, as [ShownURL] has it.
	Host, URL string
	// MinBehind picks those that are behind by that many entries at least, of this process only.
	MinBehind int64
	// Failing picks those whose last attempt failed, suspended or not, and those whose record cannot be read.
	Failing bool
	// Late picks those, of this process only, whose watermark has an entry after it that happened longer ago.
	Late time.Duration
}

// ShownURL is a callback's URL without what may be a secret: userinfo, query and fragment.
func ShownURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "(not a URL)"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// HostOf is the host of a callback's URL as [Filter] names it.
func HostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Host)
}

// An Endpoint sums up webhook subscriptions to one host, or to one URL of it.
type Endpoint struct {
	Host string `json:"host"`
	// URL is as [ShownURL] has it; empty for all of a host.
	URL string `json:"url,omitempty"`
	// Subscriptions counts them, Active, Suspended and Paused by their states. Failing are those whose last attempt failed.
	Subscriptions int `json:"subscriptions"`
	Active        int `json:"active"`
	Suspended     int `json:"suspended"`
	Paused        int `json:"paused"`
	Failing       int `json:"failing"`
	// FailedSince is the earliest and LastDeliveryAt the latest of theirs, Behind the largest; WaitingSince is the earliest
	// of those that are the most behind in their event type. Behind and WaitingSince are of this process only.
	FailedSince    time.Time `json:"failedSince,omitzero"`
	LastDeliveryAt time.Time `json:"lastDeliveryAt,omitzero"`
	Behind         int64     `json:"behind"`
	WaitingSince   time.Time `json:"waitingSince,omitzero"`
}

// A BulkVerb is what a [Bulk] does.
type BulkVerb string

// The verbs of a Bulk, as [Admin]'s methods of these names do it to one subscription.
const (
	BulkPause   BulkVerb = "pause"
	BulkUnpause BulkVerb = "unpause"
	BulkResume  BulkVerb = "resume"
	// BulkReplay delivers again what happened since a time, as [Admin.Locate] and [Admin.Replay] do.
	BulkReplay BulkVerb = "replay"
	// BulkEndReplay ends replays under way, as [Admin.EndReplay] does.
	BulkEndReplay BulkVerb = "endreplay"
	// BulkSend sends again each occurrence that was given up since a time, as [Admin.SendAgain] does, the oldest first: as
	// far as attempts at it are kept. One whose retry is due is left to that.
	BulkSend BulkVerb = "send"
)

// A Bulk is one action on all webhook subscriptions that a filter takes, as far as there is anything to do: what is paused
// already is not paused again and does not count.
type Bulk struct {
	Verb   BulkVerb
	Filter Filter
	// Since is from when BulkReplay and BulkSend take what happened, or failed; they need it, others have none.
	Since time.Time
	// Until, of both, leaves out what happened, or failed, then or later; the zero time leaves out nothing.
	Until time.Time
	// PerSecond bounds how many subscriptions it does in a second, of BulkSend how many occurrences; 0 is 100, else it is from 0.01 to 1000.
	PerSecond float64
}

// A Task is a [Bulk] that was begun. It ends with its process, and is forgotten after 100 later ones; on a store that one
// process has alone, with the process.
type Task struct {
	ID string
	Bulk
	// Actor is who asked for it.
	Actor   string
	BegunAt time.Time
	// EndedAt is zero while it runs.
	EndedAt time.Time
	// Total is how many subscriptions there were to do at the beginning, of BulkSend how many occurrences; Done is how many
	// are, Skipped how many are not there any more or being done by others, and Failed how many could not be done.
	Total, Done, Skipped, Failed int
	// Error is why the last of the failed ones could not, or why the task ended early.
	Error string
	// Cancelled tells that it ended by [Admin.Cancel], or with the process.
	Cancelled bool
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
	// Cursor is the one after it, which [Admin.Replay] takes; empty for a type without replay, and in a [Tail].
	Cursor string `json:"cursor,omitempty"`
}

// A Point is a place in an event type's log: one of Since, Position and EventID is set.
type Point struct {
	// Since is the first entry that happened then or later.
	Since time.Time
	// Position is the entry there, and EventID the last one of that id, among the latest 100,000.
	Position store.Position
	EventID  string
	// Until ends what is meant before the first entry that happened then or later; the zero time does not.
	Until time.Time
}

// A Beginning is where a replay from a [Point] begins, and where it ends.
type Beginning struct {
	// Cursor and Last are what [Admin.Replay] takes. Last is the position of the last entry that is meant, the head where the
	// Point has no Until.
	Cursor string         `json:"cursor"`
	Last   store.Position `json:"last"`
	// EventID, Timestamp and Position are those of the first entry that is delivered again, to whom it matches.
	EventID   string         `json:"eventId"`
	Timestamp events.Time    `json:"timestamp"`
	Position  store.Position `json:"position"`
	// Entries is how many there are from it to Last.
	Entries int64 `json:"entries"`
	// Truncated tells that the log has forgotten entries that were asked for: it begins with the oldest one.
	Truncated bool `json:"truncated"`
}

// An Outcome is what became of an occurrence at one webhook subscription.
type Outcome string

// The outcomes.
const (
	// OutcomeAccepted: its endpoint has accepted it.
	OutcomeAccepted Outcome = "accepted"
	// OutcomeWaiting: it was not delivered yet.
	OutcomeWaiting Outcome = "waiting"
	// OutcomeFailed: it was given up after its last attempt.
	OutcomeFailed Outcome = "failed"
	// OutcomePassed: it matches and is not to be delivered, and no attempt is kept: that was too long ago, or the
	// subscription began after it.
	OutcomePassed Outcome = "passed"
)

// A Delivery is what became of an occurrence at one webhook subscription.
type Delivery struct {
	Subscription string  `json:"subscription"`
	Principal    string  `json:"principal"`
	URL          string  `json:"url"`
	State        State   `json:"state"`
	Outcome      Outcome `json:"outcome"`
	// Attempts are those that are kept, the latest first.
	Attempts []Attempt `json:"attempts"`
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
	// AskedBy is who asked for it by [Admin.SendAgain] or [Admin.Replay], see [WithActor]; "" for one of the schedule, such as
	// the retries of what was asked for. A replay that is under way when its process ends goes on as the schedule's.
	AskedBy string `json:"askedBy,omitempty"`
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

// An AuditEntry says who asked for what and what came of it. Texts are cut to 1024 bytes.
type AuditEntry struct {
	// Position is where it is in the audit log, from 1; 0 until it is kept.
	Position store.Position `json:"position,omitzero"`
	At       time.Time      `json:"at"`
	Actor    string         `json:"actor"`
	// Verb is what was done. What follows is what it was done to, "" where it was not about one.
	Verb         string `json:"verb"`
	Subscription string `json:"subscription,omitempty"`
	Connection   string `json:"connection,omitempty"`
	Rejected     string `json:"rejected,omitempty"`
	Task         string `json:"task,omitempty"`
	Host         string `json:"host,omitempty"`
	Principal    string `json:"principal,omitempty"`
	Event        string `json:"event,omitempty"`
	EventID      string `json:"eventId,omitempty"`
	// Asked is the rest of what was asked for, such as "perSecond 10, since 90m".
	Asked string `json:"asked,omitempty"`
	// Key is the request's idempotency key and Status the answer's HTTP status; none of the end of a task.
	Key    string `json:"key,omitempty"`
	Status int    `json:"status,omitempty"`
	// Outcome says what came of it where that is more than done: why it failed, or what a task has done.
	Outcome string `json:"outcome,omitempty"`
}

// An AuditFilter picks entries of the audit log by what is equal in them; what is empty picks all.
type AuditFilter struct {
	Actor, Verb, Subscription, Principal, Event, EventID, Task string
	// Since picks those from a time on.
	Since time.Time
}

// Takes reports whether the filter picks e.
func (f AuditFilter) Takes(e *AuditEntry) bool {
	for _, pair := range [][2]string{{f.Actor, e.Actor}, {f.Verb, e.Verb}, {f.Subscription, e.Subscription}, {f.Principal, e.Principal}, {f.Event, e.Event},
		{f.EventID, e.EventID}, {f.Task, e.Task}} {
		if pair[0] != "" && pair[0] != pair[1] {
			return false
		}
	}
	return !e.At.Before(f.Since)
}

// A Minute is what the attempts to deliver by webhook came to that ended in it: all requests to endpoints, first attempts,
// retries and control envelopes alike, without verifications.
type Minute struct {
	At                 time.Time // when it began
	Attempts, Failures int64
	// P50, P95 and P99 are the times within which that share of the attempts had its answer or failure, off by a factor of √2
	// at most; what took longer than 65 s counts as that. They are 0 without attempts.
	P50, P95, P99 time.Duration
	// Behind is by how many entries the slowest webhook subscription was behind its log at one moment of the minute; nil
	// where nobody looked.
	Behind *int64
}

// An Activity is what attempts to deliver by webhook came to in the last hour, in this process.
type Activity struct {
	// Whole is the hour in one; its Behind is the latest that is known.
	Whole Minute
	// Minutes are up to 60 of them without holes, the oldest first and the last one under way. They begin with the process,
	// or where something was counted for the first time after others had been forgotten for it.
	Minutes []Minute
}

// A Cluster is how the processes that share a store are, as one of them sees it.
type Cluster struct {
	// Replicas are those whose lease runs, in the order in which these began.
	Replicas []Replica `json:"replicas"`
	// Leased tells that this process has its lease: without one it delivers nothing.
	Leased bool `json:"leased"`
	// Unowned counts the shards of work that no replica owns, by event type, or "/outbox" and "/retention".
	Unowned map[string]int `json:"unowned"`
	// Generation is a number that the store's logs raise whenever they begin new epochs.
	Generation uint64 `json:"generation"`
	// HeardAt is when this process last knew all that was ordered in others; zero for never.
	HeardAt time.Time `json:"heardAt,omitzero"`
	// OutboxAge is for how long the oldest occurrence has waited in the outbox, or may have while it cannot be read; nil in
	// a process that does not own it.
	OutboxAge *time.Duration `json:"-"`
}

// A Replica is a process of a [Cluster].
type Replica struct {
	Name string `json:"name"`
	// This is the process that was asked.
	This bool `json:"this,omitempty"`
	// Shards counts those that it owns, as Cluster.Unowned does.
	Shards map[string]int `json:"shards"`
}
