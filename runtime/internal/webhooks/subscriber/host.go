package subscriber

import (
	"context"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/eventtype"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/topic"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/delivery"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

// A Host is the server whose webhook subscriptions are managed.
type Host interface {
	// Type returns the event type with the name. It returns false if no such type is registered.
	Type(event string) (eventtype.Type, bool)

	// Join calls OnSubscribe for a subscription, and Leave calls OnUnsubscribe (SRV-3).
	Join(ctx context.Context, sub eventtype.Subscription, a eventtype.Arguments) error
	Leave(sub eventtype.Subscription, a eventtype.Arguments)
	// Release reverses a Join without a call of OnUnsubscribe, because the subscription continues in another process.
	Release(sub eventtype.Subscription, a eventtype.Arguments)
	// Refused calls the author's hooks for a live subscription and returns their error, or nil if they allow it
	// (AUTH-2).
	Refused(ctx context.Context, principal string, a eventtype.Arguments) *events.Error
	// Asks reports whether there are hooks to call.
	Asks(a eventtype.Arguments) bool
	// Current reports whether deliveries may be attempted now (REP-11).
	Current() bool

	// Take charges n bytes to a principal. It returns an error if that would exceed the quota (CAP-5). Keep charges n
	// bytes even above the quota.
	Take(principal string, n int) error
	Keep(principal string, n int)
	// Give releases a charge.
	Give(principal string, n int)
}

func identityOf(r *store.Subscription) eventtype.Subscription {
	return eventtype.Subscription{ID: r.ID, Principal: r.Principal, Event: r.Event, Mode: wire.ModeWebhook}
}

// Options configures [Subscriptions].
type Options struct {
	Host  Host
	Store Records
	// Admitted, if non-nil, is called after each write of a new record with the error of that write.
	Admitted func(ctx context.Context, err error)
	Cluster  *Cluster
	// Durable reports whether the store retains its contents after the process exits.
	Durable bool
	// Guard sends all requests. Shutdown closes it.
	Guard *netguard.Guard
	Terms Terms
	// Grace is the period during which a replaced secret still signs deliveries (SUB-5). If it is negative, a replaced
	// secret is no longer used.
	Grace  time.Duration
	Quota  Quota
	Verify verify.Options
	// Delivery contains the engine's options. New sets Sender, Ended, Gapped, Now and Owner.
	Delivery delivery.Options
	// Reauthorize is the interval at which the hooks are called for live subscriptions (AUTH-2). If it is zero or
	// negative, they are not called.
	Reauthorize time.Duration
	Log         *fault.Log
	// Saved, if non-nil, is called with the duration and error of each write of progress.
	Saved func(ctx context.Context, took time.Duration, err error)
}

// A Quota limits the number of subscriptions (SUB-8). A negative number means no limit.
type Quota struct{ PerPrincipal, Total int }

// Terms limits the time until a subscriber must refresh (SUB-6).
type Terms struct {
	Min, Default, Max time.Duration
	// NoExpiry allows subscriptions without expiry.
	NoExpiry bool
}

// Until returns the expiry that results from a ttlMs, or the zero time for no expiry (SUB-6). It accepts any value. It
// limits ttlMs before the conversion to nanoseconds to prevent an overflow.
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
	// The stored expiry must equal the expiry in the response, which has millisecond precision.
	return now.Add(ttl).Truncate(time.Millisecond)
}

// grantExpiry returns the expiry of the request's subscription. The result is the expiry under the terms or the expiry
// of the caller's token, whichever is earlier. The parameter now is the store's time, whereas tokens expire according
// to this process's clock.
func (w *Subscriptions) grantExpiry(q *Request, now time.Time) time.Time {
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
