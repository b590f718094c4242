package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"
)

// ErrConflict is returned by a compare-and-swap operation if the stored revision differs.
var ErrConflict = errors.New("store: changed concurrently")

// A Secret is a signing key of a subscription.
type Secret struct {
	// Key is the decoded secret, 24 to 64 bytes. See SUB-3.
	Key []byte `json:"key"`
	// NotAfter is the time after which a replaced secret is no longer used for signing. It is zero for the current
	// secret. See SUB-5.
	NotAfter time.Time `json:"notAfter,omitzero"`
}

// A Span is an inclusive range of settled positions.
type Span struct {
	From, To Position
}

// Progress is the delivery progress of a webhook subscription. All positions up to Base and in the Settled spans are
// settled. See HOOK-6.
type Progress struct {
	// Epoch is the log epoch that Base refers to.
	Epoch uint64
	Base  Position
	// Settled contains disjoint spans above Base, in ascending order.
	Settled []Span
	// Open reports whether an event above Base is pending for the subscription. If so, delivery resumes at Base after a
	// restart. Otherwise it resumes at the greater of Base and the log's mark. See REP-10.
	Open bool
	// Upstream is the cursor for Base if positions do not survive a restart. It is set for subscriptions of a check
	// source. See CUR-1.
	Upstream string
}

// Health summarizes the results of deliveries to a subscription. See HOOK-5, HOOK-8.
type Health struct {
	// Suspended reports whether deliveries are suspended until a refresh. SuspendedAfter is the RefreshedAt of the last
	// refresh that preceded the suspension: a later refresh ends the suspension.
	Suspended      bool
	SuspendedAfter time.Time
	// FailedSince is when the current series of failures began, or zero if the last attempt succeeded.
	FailedSince time.Time
	// LastDeliveryAt is when an endpoint last accepted an event, or zero if that has never happened.
	LastDeliveryAt time.Time
	// LastError is the category of the last failed attempt, or "" if no attempt has failed. It is a category of
	// ERR-1, or "proxy" for a failure of the server's own proxy.
	LastError string
	// Slow reports whether the endpoint did not answer the last attempt or challenge within a second.
	Slow bool
}

// A Report describes the deliveries to a subscription as its owner last saw them. Operators read it in any process. It
// is stored only together with progress, so later changes of the owner, NextAt, Held or Sending can be missing.
type Report struct {
	// At is when the owner stored the report. Owner is the name of that process, or "" in a store for one process.
	At    time.Time `json:"at,omitzero"`
	Owner string    `json:"owner,omitempty"`
	// LastErrorAt is the time of the last failed attempt, or zero if no attempt has failed. LastStatus is the HTTP
	// status of the response, or 0 without one. Its category is Health.LastError; for "proxy", the status is the
	// proxy's.
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`
	LastStatus  int       `json:"lastStatus,omitempty"`
	// NextAt is the time of the next attempt, if one is scheduled for a later time. LostAt is when the first occurrence
	// in retry will be abandoned. Both are zero if deliveries are suspended or paused.
	NextAt time.Time `json:"nextAt,omitzero"`
	LostAt time.Time `json:"lostAt,omitzero"`
	// Held explains why no attempt is made although an occurrence waits. It is HeldLimited, HeldQueued or "".
	Held string `json:"held,omitempty"`
	// Sending is the number of attempts in flight.
	Sending int `json:"sending,omitempty"`
	// Abandoned counts the occurrences that were abandoned after their last attempt.
	Abandoned HourCount `json:"abandoned,omitzero"`
}

// Values of [Report.Held].
const (
	HeldLimited = "limited" // by a rate limit, or by the Retry-After of the endpoint
	HeldQueued  = "queued"  // until a connection is free
)

// hourSlice is the resolution of an HourCount.
const hourSlice = 10 * time.Minute

// An HourCount counts events of the last hour, with a resolution of ten minutes. Its zero value is ready to use.
type HourCount struct {
	// Slice is the number of the latest period of ten minutes with an event, counted from the Unix epoch.
	Slice int64 `json:"slice"`
	// Counts contains the number of events in that period and the five before it, the latest first.
	Counts [6]uint32 `json:"counts"`
}

// Add counts an event at the given time.
func (c *HourCount) Add(now time.Time) {
	slice := now.UnixNano() / int64(hourSlice)
	for range min(slice-c.Slice, int64(len(c.Counts))) {
		copy(c.Counts[1:], c.Counts[:])
		c.Counts[0] = 0
	}
	c.Slice = max(c.Slice, slice)
	c.Counts[0]++
}

// LastHour returns the number of events in the 50 to 60 minutes before the given time.
func (c *HourCount) LastHour(now time.Time) (n int) {
	passed := max(now.UnixNano()/int64(hourSlice)-c.Slice, 0)
	for _, count := range c.Counts[:max(int64(len(c.Counts))-passed, 0)] {
		n += int(count)
	}
	return n
}

// A ControlPosition is a position in the sequence of requests that end subscriptions or signal gaps. A subscription has the position of the latest request before it was admitted. Times cannot order them,
// because the clocks of processes differ and can be set back. See REP-13.
type ControlPosition struct {
	// Generation is the generation of the store. It never decreases.
	Generation uint64 `json:"generation"`
	// Position is a position in the control log of a shared store. In a store for one process, it counts requests.
	Position Position `json:"position"`
}

// Next returns the position after p in the same generation.
func (p ControlPosition) Next() ControlPosition {
	return ControlPosition{p.Generation, p.Position + 1}
}

// Compare returns a negative number if p is before other, 0 if they are equal, and otherwise a positive number.
func (p ControlPosition) Compare(other ControlPosition) int {
	return cmp.Or(cmp.Compare(p.Generation, other.Generation), cmp.Compare(p.Position, other.Position))
}

// A Subscription is the record of one webhook subscription. See SUB-4, SUB-11.
type Subscription struct {
	// ID is derived from the key, which consists of principal, URL, event name and canonical arguments.
	ID, Principal, URL, Event string
	// Arguments are canonical JSON.
	Arguments json.RawMessage
	// Shard is the subscription's shard number within Event. Only shared stores store it. See REP-6.
	Shard int
	// Schema is the fingerprint of the schemas that last accepted Arguments, or "" if unknown. Only shared stores store
	// it. See REP-16.
	Schema string
	// Secrets are the signing keys, the current one first.
	Secrets []Secret
	// Codes is the family of error codes in the subscription's envelopes. 0 means the codes of the design sketch
	// (-32011 to -32015), and 1 means those of SEP-3415 (-32023 to -32027) (D2).
	Codes int
	// Generation distinguishes successive subscriptions with the same key. A late response to an earlier subscription
	// therefore does not affect its successor.
	Generation uint64
	// Revision is the number of changes; see PutSubscription.
	Revision uint64
	// Admitted orders the creation of the subscription and the requests that end subscriptions. Like CreatedAt, it does
	// not change within a generation.
	Admitted ControlPosition
	// ExpiresAt is zero if the subscription does not expire. See SUB-6. RefreshedAt increases with every refresh, even if
	// the clock is set back.
	CreatedAt, RefreshedAt, ExpiresAt time.Time
	// NotBefore is the earliest time for a delivery attempt; zero means no restriction. It ensures that the response to
	// the subscribe request is sent before the first delivery, even if another process delivers.
	NotBefore time.Time
	// PausedAt is when an operator paused deliveries, or zero if they are not paused.
	PausedAt time.Time
	// Truncated reports whether there is a gap that no subscribe response has reported. See D7.
	Truncated bool
	// Requests are the operators' latest requests, one of each kind. See SRV-8.
	Requests map[RequestKind]Request
	Progress Progress
	Health   Health
	// Report is nil if no owner has stored one, or if there was nothing to report. Its fields never change.
	Report *Report
}

// A Request is the operators' latest request of one kind to the process that delivers to a subscription. A newer request
// replaces an earlier request that has not begun. A request is pending until Done has its number.
// Stores encode requests as JSON.
type Request struct {
	// Number counts the subscription's requests of this kind, starting at 1. It is 0 without a request.
	Number uint64 `json:"number"`
	// Key identifies the operator's call, or is "" if a repeated call makes a new request.
	Key string `json:"key,omitempty"`
	// At is when the operator made the request. Actor identifies the operator, or is "" if unknown.
	At    time.Time `json:"at"`
	Actor string    `json:"actor,omitempty"`
	// Ends reports whether a RequestReplay ends the replay in progress. If not, it begins a replay after Cursor, up to
	// the position Last; 0 means no limit.
	Ends   bool     `json:"ends,omitempty"`
	Cursor string   `json:"cursor,omitempty"`
	Last   Position `json:"last,omitempty"`
	// Events are the occurrences to redeliver for a RequestSend, at most MaxResends. They include those of the pending
	// request that it has replaced.
	Events []Resend `json:"events,omitempty"`
	// Reason is the JSON-RPC error object that a RequestEnd sends when it ends the subscription.
	Reason json.RawMessage `json:"reason,omitempty"`
	// Done is the outcome of the latest request of this kind that was performed. A newer request preserves it, Replay
	// and Signaled.
	Done Outcome `json:"done,omitzero"`
	// Replay is the latest replay that has begun, of a RequestReplay. It is nil if the replay was ended.
	Replay *Replay `json:"replay,omitempty"`
	// Signaled is the position of the latest gap of the event type that was signaled, of a RequestGap. It is set even
	// without a request.
	Signaled ControlPosition `json:"signaled,omitzero"`
}

// Pending reports whether the request is still to be performed.
func (q *Request) Pending() bool { return q.Done.Number < q.Number }

// An Outcome is the result of the request with the same number.
type Outcome struct {
	Number uint64    `json:"number"`
	At     time.Time `json:"at"`
	// Failure explains why the request failed. It is "" if the request succeeded.
	Failure string `json:"failure,omitempty"`
}

// MaxResends is the maximum number of occurrences in a pending RequestSend.
const MaxResends = 64

// A Resend requests another attempt to deliver an occurrence.
type Resend struct {
	EventID string `json:"eventId"`
	// Seen is the time of the latest attempt that the operator has seen, or zero to accept any attempt.
	Seen time.Time `json:"seen,omitzero"`
}

// A Replay is a replay that has begun.
type Replay struct {
	Actor string `json:"actor,omitempty"`
	// Last is the last position that it repeats. Settled contains the positions settled before it began, in ascending
	// order.
	Last    Position `json:"last"`
	Settled []Span   `json:"settled,omitempty"`
}

// A RequestKind is the kind of a request.
type RequestKind string

// Kinds of requests.
const (
	RequestResume RequestKind = "resume"
	RequestReplay RequestKind = "replay" // or the end of a replay
	RequestSend   RequestKind = "send"
	RequestGap    RequestKind = "gap"
	RequestEnd    RequestKind = "end"
)

// An Update changes the progress, health and report of a subscription.
type Update struct {
	ID         string
	Generation uint64
	Progress   Progress
	Health     Health
	Report     *Report
}

// A Verification records that a principal's events may be sent to a URL. See VER-3.
type Verification struct {
	Principal, URL string
	// Method is the method of verification: "allow-list", "stored", "well-known" or "challenge".
	Method string
	At     time.Time
	// Until is when the verification expires; zero means never.
	Until time.Time
}

// A SubscriptionStore stores webhook subscriptions, their delivery progress and verified endpoints. Implementations
// are safe for concurrent use, and each method is atomic. A server supports webhooks if its [Store] is a
// SubscriptionStore.
type SubscriptionStore interface {
	// PutSubscription stores s if the stored revision equals s.Revision, which is 0 for a new record. It returns the
	// new revision, or ErrConflict if the revisions differ. If the generation is unchanged, the stored Progress,
	// Health and Report are preserved: only SaveProgress changes those of an existing subscription, so that a refresh
	// never undoes deliveries. The Progress of a new generation is always stored with Open set, so that a crash before the next
	// write loses nothing.
	PutSubscription(ctx context.Context, s Subscription) (revision uint64, err error)
	// Subscription returns the record with the given id and whether it exists.
	Subscription(ctx context.Context, id string) (Subscription, bool, error)
	// DeleteSubscription removes the record if the generation matches; otherwise it does nothing and returns nil.
	DeleteSubscription(ctx context.Context, id string, generation uint64) error
	// Subscriptions returns up to limit records with ids greater than after, ordered by id.
	Subscriptions(ctx context.Context, after string, limit int) ([]Subscription, error)
	// CountSubscriptions returns the number of the principal's subscriptions and of all subscriptions.
	CountSubscriptions(ctx context.Context, principal string) (own, all int, err error)
	// SaveProgress stores the updates atomically. It ignores updates for unknown ids or other generations. Revisions do
	// not change.
	SaveProgress(ctx context.Context, updates []Update) error
	// SaveMark stores the mark of the named log. The subscriptions have been offered every entry up to the mark, and
	// each subscription with a pending entry is stored as Open. A mark never decreases.
	SaveMark(ctx context.Context, log string, to Position) error
	// Mark returns the mark of the named log, or 0 if no mark was stored.
	Mark(ctx context.Context, log string) (Position, error)
	// Verification returns the record for the pair and whether it exists.
	Verification(ctx context.Context, principal, url string) (Verification, bool, error)
	// PutVerification stores v, and replaces any record for the same principal and URL.
	PutVerification(ctx context.Context, v Verification) error
	// DeleteVerification removes the record for the pair.
	DeleteVerification(ctx context.Context, principal, url string) error
	// CountVerifications returns the number of the principal's verifications and of all verifications.
	CountVerifications(ctx context.Context, principal string) (own, all int, err error)
	// SweepVerifications removes up to limit records that have expired by now, and returns the number removed. It keeps
	// records that match the principal and URL of a subscription.
	SweepVerifications(ctx context.Context, now time.Time, limit int) (removed int, err error)
}
