package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// ErrConflict is returned by a compare-and-swap whose expectation does not hold; each [ConflictError] matches it.
var ErrConflict = errors.New("store: changed concurrently")

// A Secret is one key of a subscription's signatures.
type Secret struct {
	// Key is the decoded secret, 24 to 64 bytes. See SUB-3.
	Key []byte `json:"key"`
	// NotAfter is when an old secret is no longer signed with; zero for the current one. See
	// SUB-5.
	NotAfter time.Time `json:"notAfter,omitzero"`
}

// A Span is a run of settled positions, both ends included.
type Span struct {
	From, To Position
}

// Progress is how far a webhook subscription has come: everything at or before Base is settled,
// and so are the Settled spans above it. See HOOK-6.
type Progress struct {
	// Epoch is the log's epoch that Base counts in.
	Epoch uint64
	Base  Position
	// Settled are disjoint, ascending and above Base.
	Settled []Span
	// Open reports that something above Base that the subscription is to get is not settled, so that
	// delivery begins at Base after a restart. Otherwise it begins at the larger of Base and the mark
	// of the log. See REP-10.
	Open bool
	// Upstream is the cursor text that stands for Base where positions mean nothing after a
	// restart: subscriptions of a check source. See CUR-1.
	Upstream string
}

// Health is what deliveries to a subscription have met. See HOOK-5, HOOK-8.
type Health struct {
	// Suspended tells that deliveries are held back until a refresh; SuspendedAt since when.
	Suspended   bool
	SuspendedAt time.Time
	// FailedSince is when the present run of failures began; zero when the last attempt went well.
	FailedSince time.Time
	// LastDeliveryAt is when an endpoint last accepted an event; zero when it never did.
	LastDeliveryAt time.Time
	// LastError is the category of the last failed attempt; "" when there was none. See ERR-1.
	LastError string
}

// A Subscription is the record of one webhook subscription. See SUB-4, SUB-11.
type Subscription struct {
	// ID is derived from the key: principal, URL, event name and canonical arguments.
	ID, Principal, URL, Event string
	// Arguments are canonical JSON.
	Arguments json.RawMessage
	// Shard is the number of the shard of Event that it belongs to. Only a
	// store that processes share keeps it. See REP-6.
	Shard int
	// Schema is the fingerprint of the schemas that Arguments were last accepted under; "" where that is
	// not known. Only a store that processes share keeps it. See REP-16.
	Schema string
	// Secrets begin with the current one.
	Secrets []Secret
	// Codes is the family of error codes in its envelopes. 0 stands for those of the design sketch,
	// -32011 to -32015, 1 for those of SEP-3415, -32023 to -32027 (D2).
	Codes int
	// Generation differs between two subscriptions of one key that follow each other, so that a
	// late answer of the first counts nothing for the second.
	Generation uint64
	// Revision counts changes; see PutSubscription.
	Revision uint64
	// ExpiresAt is zero for a subscription without expiry. See SUB-6.
	CreatedAt, RefreshedAt, ExpiresAt time.Time
	// NotBefore is when an attempt may begin at the earliest, so that no delivery overtakes the
	// response of the subscribe that it follows, whoever delivers; zero for any time.
	NotBefore time.Time
	// PausedAt is since when an operator holds deliveries back; zero when none does.
	PausedAt time.Time
	// Truncated tells of a gap that no subscribe response has reported yet. See D7.
	Truncated bool
	Progress  Progress
	Health    Health
}

// An Update is a change of a subscription's progress and health.
type Update struct {
	ID         string
	Generation uint64
	Progress   Progress
	Health     Health
}

// A Verification records that a principal may have events sent to a URL. See VER-3.
type Verification struct {
	Principal, URL string
	// Method is how it was verified: "allow-list", "stored", "well-known" or "challenge".
	Method string
	At     time.Time
	// Until is when it has to be verified again; zero means never.
	Until time.Time
}

// A SubscriptionStore keeps webhook subscriptions, how far their deliveries have come and which
// endpoints are verified. Implementations are safe for concurrent use; each method is one atomic
// step. A [Store] that also is a SubscriptionStore backs a server's webhooks.
type SubscriptionStore interface {
	// PutSubscription stores s when the stored revision equals s.Revision, 0 meaning that there is
	// none, and returns the new revision; otherwise it returns ErrConflict and changes nothing. When
	// the generation stays the same, the stored Progress and Health stay too: only SaveProgress
	// changes those of a live subscription, so that a refresh never takes deliveries back. The
	// Progress of a new generation is stored as Open whatever s says: a crash before anything else is
	// stored loses nothing.
	PutSubscription(ctx context.Context, s Subscription) (revision uint64, err error)
	// Subscription returns the record of that id and whether there is one.
	Subscription(ctx context.Context, id string) (Subscription, bool, error)
	// DeleteSubscription removes the record when the generation matches; otherwise it does nothing and
	// returns nil.
	DeleteSubscription(ctx context.Context, id string, generation uint64) error
	// Subscriptions returns up to limit records with ids above after, in order of id.
	Subscriptions(ctx context.Context, after string, limit int) ([]Subscription, error)
	// CountSubscriptions returns how many the principal has and how many there are in all.
	CountSubscriptions(ctx context.Context, principal string) (own, all int, err error)
	// SaveProgress stores the updates in one step; those of unknown ids or other generations are
	// passed over. The revision does not change.
	SaveProgress(ctx context.Context, updates []Update) error
	// SaveMark stores the mark of the named log: everything up to position to was offered to the
	// subscriptions, and each that has something unsettled there is stored as Open. A mark never
	// moves back.
	SaveMark(ctx context.Context, log string, to Position) error
	// Mark returns the mark of the named log, 0 if none was stored.
	Mark(ctx context.Context, log string) (Position, error)
	// Verification returns the record of the pair and whether there is one.
	Verification(ctx context.Context, principal, url string) (Verification, bool, error)
	// PutVerification replaces the record of the pair.
	PutVerification(ctx context.Context, v Verification) error
	// DeleteVerification removes the record of the pair.
	DeleteVerification(ctx context.Context, principal, url string) error
	// CountVerifications returns how many records the principal has and how many there are in all.
	CountVerifications(ctx context.Context, principal string) (own, all int, err error)
	// SweepVerifications removes up to limit records whose time is over at now, unless there is a
	// subscription of the same principal and URL, and returns how many it has removed.
	SweepVerifications(ctx context.Context, now time.Time, limit int) (removed int, err error)
}
