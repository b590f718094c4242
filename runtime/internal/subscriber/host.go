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

// A Host is the server that the subscriptions belong to.
type Host interface {
	// Type returns the event type with the name. It returns false if no such type is registered.
	Type(event string) (eventtype.Type, bool)

	// Join calls OnSubscribe for a subscription, and Leave calls OnUnsubscribe (SRV-3).
	Join(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) error
	Leave(sub eventtype.Subscription, a eventtype.Arguments)
	// Release undoes a Join without calling OnUnsubscribe, because the subscription continues in another process.
	Release(sub eventtype.Subscription, a eventtype.Arguments)
	// Refused calls the author's hooks for a live subscription and returns their refusal, or nil (AUTH-2). Asks
	// reports whether there are hooks to call.
	Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error
	Asks(a eventtype.Arguments) bool

	// Take charges n bytes to a principal, or returns an error at the quota (CAP-5). Keep charges even above the
	// quota, and Give releases a charge.
	Take(principal string, n int) error
	Keep(principal string, n int)
	Give(principal string, n int)
}

func identityOf(r *store.Subscription) eventtype.Subscription {
	return eventtype.Subscription{ID: r.ID, Principal: r.Principal, Event: r.Event, Mode: wire.ModeWebhook}
}

// Options configures [Subscriptions].
type Options struct {
	Host  Host
	Store Records
	// Admitted, unless nil, gets the result of each write of a new record.
	Admitted func(ctx context.Context, err error)
	Cluster  *Cluster
	// Durable reports whether the store outlives the process.
	Durable bool
	// Guard sends all requests; Shutdown closes it.
	Guard *netguard.Guard
	Terms Terms
	// Grace is the time that a replaced secret still signs deliveries; negative for none (SUB-5).
	Grace  time.Duration
	Quota  Quota
	Verify verify.Options
	// Delivery holds the engine's options; New sets Sender, Ended and Gapped.
	Delivery delivery.Options
	// Reauthorize is the interval at which the hooks are called for live subscriptions; 0 or less for never
	// (AUTH-2).
	Reauthorize time.Duration
	Log         *fault.Log
	// Saved receives the duration and the error of each write of progress; it may be nil.
	Saved func(ctx context.Context, took time.Duration, err error)
}

// A Quota bounds the number of subscriptions; a negative number means unbounded (SUB-8).
type Quota struct{ PerPrincipal, Total int }

// Terms bounds the time until a subscriber must refresh (SUB-6).
type Terms struct {
	Min, Default, Max time.Duration
	// NoExpiry allows subscriptions without expiry.
	NoExpiry bool
}

// Until returns the expiry for a ttlMs, or the zero time for no expiry (SUB-6). It accepts every value: it clamps
// ttlMs before the conversion to nanoseconds, so it cannot overflow.
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
	// The response has milliseconds; the stored expiry must be the same.
	return now.Add(ttl).Truncate(time.Millisecond)
}

// grant returns the expiry of the request's subscription: according to the terms, or the expiry of the caller's
// token if that is earlier. now is the store's time, but tokens expire by this process's clock.
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
