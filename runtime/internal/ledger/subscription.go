package ledger

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Subscription is the desired state of a webhook subscription. An operator's order about it is a field, so the owner of
// its shard cannot miss one. See SUB-4, SUB-11.
type Subscription struct {
	// ID is derived from the principal, the URL, the event type and the arguments.
	ID        string `json:"id"`
	Principal string `json:"principal"`
	URL       string `json:"url"`
	// Shard names the event type, as its Topic, and the part of its subscriptions.
	Shard Shard `json:"shard"`
	// Generation differs between successive subscriptions with the same ID.
	Generation uint64 `json:"generation"`
	// Arguments are canonical JSON. Schema is the fingerprint of the schemas that accepted them last (REP-16).
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Schema    string          `json:"schema,omitempty"`
	// Secrets begin with the current one.
	Secrets []store.Secret `json:"secrets,omitempty"`
	// Codes is the family of error codes in envelopes; see [store.Subscription.Codes].
	Codes       int       `json:"codes,omitempty"`
	CreatedAt   time.Time `json:"createdAt,omitzero"`
	RefreshedAt time.Time `json:"refreshedAt,omitzero"`
	// ExpiresAt is zero for a subscription that does not expire. See SUB-6.
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	// NotBefore is the earliest time of an attempt, so that no delivery overtakes the response to a subscribe.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Truncated reports a gap that no response to a subscribe has mentioned so far. See D7.
	Truncated bool `json:"truncated,omitempty"`
	// PausedAt is when an operator paused deliveries; zero if they are not paused.
	PausedAt time.Time `json:"pausedAt,omitzero"`
	// ResumedAt ends a suspension that began before it.
	ResumedAt time.Time `json:"resumedAt,omitzero"`
	// Rewind is the latest replay that an operator has ordered.
	Rewind *Rewind `json:"rewind,omitempty"`
	// Again are the attempts that operators have ordered, up to [MaxAgain].
	Again []Again `json:"again,omitempty"`
	// Gap counts the gaps that operators have raised. An envelope is due until [Status.GapDone] is equal.
	Gap uint64 `json:"gap,omitempty"`
	// Ended is the error with which the subscription has ended. Its owner sends it to the endpoint and then removes the
	// subscription, which no longer counts against a quota.
	Ended *wire.ErrorObject `json:"ended,omitempty"`
	// Counted holds the numbers of the stripes that count the subscription. The ledger sets it.
	Counted [2]int `json:"counted"`
	// Revision changes with each change; compare it only for equality. The ledger sets it.
	Revision uint64 `json:"-"`
}

// A Rewind is an order to deliver again from a position or cursor.
type Rewind struct {
	// Number identifies the order. It is done if [Status.Rewound] is equal. The commit that stores the new base also
	// stores the number, so a crash neither loses nor repeats the replay.
	Number uint64 `json:"number"`
	// To is the new base in the log of epoch Epoch. Cursor replaces both for a type whose source is a check.
	Epoch  uint64         `json:"epoch,omitempty"`
	To     store.Position `json:"to,omitempty"`
	Cursor string         `json:"cursor,omitempty"`
	// Until is the last position of the replay; 0 means no end. Canceled ends a replay that is in progress.
	Until    store.Position `json:"until,omitempty"`
	Canceled bool           `json:"canceled,omitempty"`
	// Truncated reports that the log no longer has some entries of the replay.
	Truncated bool   `json:"truncated,omitempty"`
	Actor     string `json:"actor,omitempty"`
}

// An Again is an order to send an occurrence again, under its webhook-id.
type Again struct {
	// Number identifies the order; see [Status.AgainDone].
	Number  uint64 `json:"number"`
	EventID string `json:"eventId"`
	// Seen is when the latest attempt was made that the operator knows of.
	Seen  time.Time `json:"seen,omitzero"`
	Actor string    `json:"actor,omitempty"`
}

// MaxAgain bounds the attempts that operators have ordered and that were not made so far.
const MaxAgain = 16

// OrderAgain adds an order with the next number, and forgets those up to done, which is the current
// [Status.AgainDone]. It reports false if there are [MaxAgain] orders already.
func (s *Subscription) OrderAgain(a Again, done uint64) (number uint64, ok bool) {
	last := done
	if n := len(s.Again); n > 0 {
		last = max(last, s.Again[n-1].Number)
	}
	open := slices.DeleteFunc(slices.Clone(s.Again), func(a Again) bool { return a.Number <= done })
	if len(open) >= MaxAgain {
		return 0, false
	}
	a.Number = last + 1
	s.Again = append(open, a)
	return a.Number, true
}

// keys returns the keys of the subscription's records: sub, pro and use.
func (s *Subscription) keys() [3]string {
	return [3]string{subKey(s.ID), progressKey(s.Shard, s.ID), useKey(s.Principal, s.URL, s.ID)}
}

// A use is the value of an index record.
type use struct{}

// Bytes implements [store.Value].
func (u *use) Bytes() []byte { return encode(u) }

var used = &use{}

// A State is a subscription with the status of its deliveries.
type State struct {
	Subscription
	Status Status
	// Unreadable explains to operators why a part of the state could not be read; "" if everything could. The parts
	// that could be read are set, the ID always is.
	Unreadable string
}

// Over reports whether deliveries to a subscription are over at a time, given the revocations of its principal. reason is
// what its endpoint is to receive, nil for a subscription that has expired. Every path judges by Over: subscribe,
// refresh, take-over, restart, expiry and operators' orders.
func Over(s *Subscription, r *Revocations, now time.Time) (reason *wire.ErrorObject, over bool) {
	switch {
	case s.Ended != nil:
		return s.Ended, true
	case !s.ExpiresAt.IsZero() && !now.Before(s.ExpiresAt):
		return nil, true
	}
	return r.revokes(s)
}
