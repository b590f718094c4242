package subscriber

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Host is the server whose subscriptions they are.
type Host interface {
	// Type is the event type of that name; false when none is registered.
	Type(event string) (eventtype.Type, bool)

	// Join makes a subscription a member: it asks OnSubscribe. Leave ends that (SRV-3).
	Join(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) error
	Leave(sub eventtype.Subscription, a eventtype.Arguments)
	// Release ends a membership of a subscription that goes on in another process: nobody is asked.
	Release(sub eventtype.Subscription, a eventtype.Arguments)
	// Refused asks the author's hooks again for a live subscription; nil when they let it be (AUTH-2).
	// Asks reports whether there are any to ask.
	Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error
	Asks(a eventtype.Arguments) bool

	// Take charges a principal with n bytes, or refuses (CAP-5). Keep charges whatever the bounds say,
	// and Give takes a charge back.
	Take(principal string, n int) error
	Keep(principal string, n int)
	Give(principal string, n int)
}

func identityOf(r *store.Subscription) eventtype.Subscription {
	return eventtype.Subscription{ID: r.ID, Principal: r.Principal, Event: r.Event, Mode: wire.ModeWebhook}
}

// Options configure [Subscriptions].
type Options struct {
	Host  Host
	Store Records
	// Admitted, unless nil, gets the result of each write of a new record.
	Admitted func(ctx context.Context, err error)
	Cluster  *Cluster
	// Durable tells that the store outlives the process.
	Durable bool
	// Guard sends everything; Shutdown closes it.
	Guard *netguard.Guard
	Terms Terms
	// Grace is how long deliveries are signed with a replaced secret too; negative for not at all
	// (SUB-5).
	Grace  time.Duration
	Quota  Quota
	Verify verify.Options
	// Delivery are the engine's; Sender, Ended and Gapped are set here.
	Delivery delivery.Options
	// Reauthorize is the interval at which the hooks are asked again; 0 or less: never (AUTH-2).
	Reauthorize time.Duration
	Log         *fault.Log
	// Saved is told how long the store took for progress; nil for nobody.
	Saved func(ctx context.Context, took time.Duration, err error)
}

// A Quota bounds how many subscriptions there are; a negative number is no bound (SUB-8).
type Quota struct{ PerPrincipal, Total int }

// Terms are what a subscriber may be granted until it has to refresh (SUB-6).
type Terms struct {
	Min, Default, Max time.Duration
	// NoExpiry allows subscriptions without an end.
	NoExpiry bool
}

// Until answers ttlMs (SUB-6): the end of the grant, zero for none. Nothing is ever refused and
// nothing overflows: the wish is clamped before it is counted in nanoseconds.
func (t *Terms) Until(ms *int64, forever bool, now time.Time) time.Time {
	ttl := t.Default
	switch {
	case forever && t.NoExpiry:
		return time.Time{}
	case forever:
		ttl = t.Max
	case ms != nil && *ms <= 0:
		ttl = t.Min
	case ms != nil:
		ttl = min(max(topic.Milliseconds(*ms), t.Min), t.Max)
	}
	// The response tells it in milliseconds: what is told is what holds.
	return now.Add(ttl).Truncate(time.Millisecond)
}

// grant returns the end of the request's grant: that of the terms, or of the caller's token if the token ends earlier.
// now is by the store's clock, and tokens expire by this process's.
func (w *Subscriptions) grant(q *Request, now time.Time) time.Time {
	until := w.o.Terms.Until(q.TTLMs, q.Forever, now)
	if q.Expires.IsZero() {
		return until
	}
	expires := now.Add(time.Until(q.Expires)).Truncate(time.Millisecond)
	if until.IsZero() || expires.Before(until) {
		return expires
	}
	return until
}
