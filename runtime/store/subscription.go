package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// ErrConflict is returned by a compare-and-swap if the stored revision differs.
var ErrConflict = errors.New("store: changed concurrently")

// A Secret is a signing key of a subscription.
type Secret struct {
	// Key is the decoded secret, 24 to 64 bytes. See SUB-3.
	Key []byte `json:"key"`
	// NotAfter is the time after which an old secret no longer signs; zero for the current one. See SUB-5.
	NotAfter time.Time `json:"notAfter,omitzero"`
}

// A Span is a range of settled positions, both ends included.
type Span struct {
	From, To Position
}

// Progress is the delivery progress of a webhook subscription. All positions up to Base are settled, and so are the
// Settled spans above it. See HOOK-6.
type Progress struct {
	// Epoch is the epoch of the log to which Base belongs.
	Epoch uint64
	Base  Position
	// Settled are disjoint, in ascending order and above Base.
	Settled []Span
	// Open reports that an event above Base is pending for the subscription. Delivery then begins at Base after a
	// restart. Otherwise delivery begins at the greater of Base and the mark of the log. See REP-10.
	Open bool
	// Upstream is the cursor text for Base if positions lose their meaning at a restart. This is the case for
	// subscriptions of a check source. See CUR-1.
	Upstream string
}

// Health summarizes the results of deliveries to a subscription. See HOOK-5, HOOK-8.
type Health struct {
	// Suspended reports that deliveries wait for a refresh, and SuspendedAt since when.
	Suspended   bool
	SuspendedAt time.Time
	// FailedSince is when the current run of failures began; zero if the last attempt succeeded.
	FailedSince time.Time
	// LastDeliveryAt is when an endpoint last accepted an event; zero if it never did.
	LastDeliveryAt time.Time
	// LastError is the category of the last failed attempt; "" for none. See ERR-1.
	LastError string
}

// A Subscription is the record of one webhook subscription. See SUB-4, SUB-11.
type Subscription struct {
	// ID is derived from the key: principal, URL, event name and canonical arguments.
	ID, Principal, URL, Event string
	// Arguments are canonical JSON.
	Arguments json.RawMessage
	// Shard is the number of the shard of Event to which it belongs. Only stores that processes share store it. See
	// REP-6.
	Shard int
	// Schema is the fingerprint of the schemas under which Arguments were last accepted; "" if unknown. Only stores
	// that processes share store it. See REP-16.
	Schema string
	// Secrets are the signing keys, the current one first.
	Secrets []Secret
	// Codes is the family of error codes in the subscription's envelopes. 0 stands for the codes of the design
	// sketch, -32011 to -32015, and 1 for those of SEP-3415, -32023 to -32027 (D2).
	Codes int
	// Generation differs between two successive subscriptions with the same key. A late answer to the first therefore
	// does not affect the second.
	Generation uint64
	// Revision counts changes; see PutSubscription.
	Revision uint64
	// ExpiresAt is zero for a subscription without expiry. See SUB-6.
	CreatedAt, RefreshedAt, ExpiresAt time.Time
	// NotBefore is the earliest time for an attempt; zero for no restriction. It ensures that no delivery overtakes
	// the response to its subscribe request, whichever process delivers.
	NotBefore time.Time
	// PausedAt is when an operator paused deliveries; zero if they are not paused.
	PausedAt time.Time
	// Truncated reports a gap that no subscribe response has reported. See D7.
	Truncated bool
	// Actions are the requests of operators, at most MaxActions, in ascending order of their numbers. See SRV-8.
	Actions  []Action
	Progress Progress
	Health   Health
}

// MaxActions is the maximum number of actions in the record of a subscription.
const MaxActions = 16

// An Action is a request of an operator to the process that delivers to a subscription. It is pending until that
// process sets Done. A done action is dropped if the record needs its place. Stores keep actions as JSON.
type Action struct {
	// Number counts the actions of a subscription from 1.
	Number uint64     `json:"number"`
	Kind   ActionKind `json:"kind"`
	// At is when the operator made the request, and Actor identifies the operator; "" if unknown.
	At    time.Time `json:"at"`
	Actor string    `json:"actor,omitempty"`
	// Cursor is the start of an ActionReplay, and Last its last position, 0 for no end. After the replay has begun,
	// Last is the last position that it repeats, and Settled are the positions that were settled before it, in
	// ascending order.
	Cursor  string   `json:"cursor,omitempty"`
	Last    Position `json:"last,omitempty"`
	Settled []Span   `json:"settled,omitempty"`
	// EventID names the occurrence of an ActionSendAgain. Seen is the time of the latest attempt at it that the
	// operator has seen; zero for any.
	EventID string    `json:"eventId,omitempty"`
	Seen    time.Time `json:"seen,omitzero"`
	// Reason is the JSON-RPC error object with which an ActionEnd ends the subscription.
	Reason json.RawMessage `json:"reason,omitempty"`
	// Done is when the action was done; zero while it is pending. Failure says why it failed, in a format of package
	// subscriber; nil if it succeeded.
	Done    time.Time       `json:"done,omitzero"`
	Failure json.RawMessage `json:"failure,omitempty"`
}

// An ActionKind is the kind of an action.
type ActionKind string

// Kinds of actions.
const (
	ActionResume    ActionKind = "resume"
	ActionReplay    ActionKind = "replay"
	ActionEndReplay ActionKind = "endReplay"
	ActionSendAgain ActionKind = "sendAgain"
	ActionGap       ActionKind = "gap"
	ActionEnd       ActionKind = "end"
)

// An Update changes the progress and health of a subscription.
type Update struct {
	ID         string
	Generation uint64
	Progress   Progress
	Health     Health
}

// A Verification records that events of a principal may be sent to a URL. See VER-3.
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
	// new revision, or ErrConflict if the revisions differ. If the generation stays the same, the stored Progress and
	// Health stay as well: only SaveProgress changes those of a live subscription, so that a refresh never undoes
	// deliveries. The Progress of a new generation is always stored as Open: a crash before the next write loses
	// nothing.
	PutSubscription(ctx context.Context, s Subscription) (revision uint64, err error)
	// Subscription returns the record with that id and whether it exists.
	Subscription(ctx context.Context, id string) (Subscription, bool, error)
	// DeleteSubscription removes the record if the generation matches; otherwise it does nothing and returns nil.
	DeleteSubscription(ctx context.Context, id string, generation uint64) error
	// Subscriptions returns up to limit records with ids above after, in order of id.
	Subscriptions(ctx context.Context, after string, limit int) ([]Subscription, error)
	// CountSubscriptions returns the number of the principal's subscriptions and of all subscriptions.
	CountSubscriptions(ctx context.Context, principal string) (own, all int, err error)
	// SaveProgress stores the updates atomically. It ignores updates of unknown ids and other generations. Revisions
	// do not change.
	SaveProgress(ctx context.Context, updates []Update) error
	// SaveMark stores the mark of the named log. Every entry up to position to was offered to the subscriptions, and
	// each subscription with a pending one is stored as Open. A mark never moves back.
	SaveMark(ctx context.Context, log string, to Position) error
	// Mark returns the mark of the named log, or 0 if no mark was stored.
	Mark(ctx context.Context, log string) (Position, error)
	// Verification returns the record of the pair and whether it exists.
	Verification(ctx context.Context, principal, url string) (Verification, bool, error)
	// PutVerification replaces the record of the pair.
	PutVerification(ctx context.Context, v Verification) error
	// DeleteVerification removes the record of the pair.
	DeleteVerification(ctx context.Context, principal, url string) error
	// CountVerifications returns the number of the principal's verifications and of all verifications.
	CountVerifications(ctx context.Context, principal string) (own, all int, err error)
	// SweepVerifications removes up to limit records that have expired at now, and returns their number. It keeps
	// records for the principal and URL of a subscription.
	SweepVerifications(ctx context.Context, now time.Time, limit int) (removed int, err error)
}
