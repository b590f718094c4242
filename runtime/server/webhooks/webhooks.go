// Package webhooks delivers the events of a server to callbacks, which clients register with events/subscribe.
package webhooks

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/durable"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/part"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/verify"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// New returns the part of a server that delivers to webhooks. Set server.Options.Webhooks to it. The server's store must
// implement store.SubscriptionStore, like the stores in this module.
func New(o Options) part.Part {
	return durable.NewPart(part.Webhooks, &o, func(core *part.Core, all *durable.Options) error {
		w, err := o.withDefaults(core.Store)
		if err == nil {
			all.Webhooks = w.part()
		}
		return err
	})
}

// Options configures webhook delivery. The zero value is a secure default. It allows only public https callbacks and
// verifies each callback before the first delivery.
type Options struct {
	// Callbacks configures which callbacks requests may reach, and how. The default is public addresses over https,
	// with a timeout of 5 s (SSRF-1).
	Callbacks callbacks.Options
	// Retry configures the schedule and limits of delivery attempts, and when deliveries are suspended.
	Retry Retry
	// AllowReceivers lists callbacks that are accepted without verification or a DNS lookup. An entry is an origin,
	// such as https://receiver.example, or an origin with a path, which matches all paths below it. Callbacks still
	// applies to each request. See VER-1.
	AllowReceivers []string

	// MinTTL, DefaultTTL and MaxTTL configure the time until a subscription must be refreshed. The defaults are 1 min
	// for MinTTL, 30 min for DefaultTTL, and 24 h for MaxTTL with a durable store, or 1 h without one. The default of
	// MaxTTL is also its upper limit. See SUB-6.
	MinTTL, DefaultTTL, MaxTTL time.Duration
	// AllowNoExpiry grants subscriptions without expiry to callers that send ttlMs: null. It requires a durable store.
	// See SUB-6.
	AllowNoExpiry bool
	// EndWithToken limits each subscribe and refresh to the expiry of the caller's token, even if that is before
	// MinTTL. If it is false, deliveries continue until the subscription expires, regardless of the token. A token
	// without an expiry imposes no limit. See SUB-6.
	EndWithToken bool
	// Grace is the time after a refresh during which deliveries are also signed with the old secret. The default is 5
	// min; a negative value disables it. See SUB-5.
	Grace time.Duration
	// Quota limits the number of subscriptions; default 100 per principal and 100,000 in total. See SUB-8.
	Quota Quota
	// Verify configures the verification of callbacks. See VER-2, VER-3.
	Verify Verify
	// Attempts configures how many delivery attempts the server keeps for operators.
	Attempts Attempts
	// IdempotentUnsubscribe makes events/unsubscribe succeed for an unknown subscription. See D6.
	IdempotentUnsubscribe bool
	// RequireDurableStore makes New return an error if the store is not durable.
	RequireDurableStore bool

	// Identity adds a signature with the server's key to the signature with the subscription's secret. Server.KeySet
	// serves its public keys (HOOK-10).
	Identity *webhook.Identity
}

// A Quota sets a limit per principal and a total limit. A zero field means the default, and a negative field means no
// limit.
type Quota struct {
	// PerPrincipal limits the subscriptions of one principal.
	PerPrincipal int
	// Total limits the subscriptions of all principals.
	Total int
}

// Attempts limits the delivery attempts that are kept for operators. Only results are kept, not requests or responses.
// All subscription stores in this module also store attempts. A custom store does not.
type Attempts struct {
	// PerSubscription is the number of attempts to keep per subscription; default 100 with a durable store, 10 without
	// one. Negative keeps none.
	PerSubscription int
	// MaxAge is how long attempts are kept; default 7 days.
	MaxAge time.Duration
	// Total is the total number of attempts to keep. The oldest are deleted first. The default is 1,000,000.
	Total int
}

// Verify configures the verification of callbacks.
type Verify struct {
	// Timeout limits the duration of the handshake; default 5 s. The maximum is 6 s, because a subscribe call must
	// finish within 10 s. See VER-2.
	Timeout time.Duration
	// Budget is the number of a principal's verifications that can fail per minute before further ones are refused;
	// default 10. The budget of a destination host is twice that number, or four times that number if a verification
	// for the host succeeded in the last 10 minutes. It limits the challenges to a host that never consented. When half
	// of it is used, further verifications of a principal that had a failure at the host are refused, so that several
	// principals whose verifications fail do not close the host to newcomers. Successes do not count (VER-3).
	Budget int
	// CacheFor is how long a callback remains verified after its last subscription was refreshed; default 1 h. See
	// VER-3.
	CacheFor time.Duration
	// PerPrincipal and Total limit the number of cached verified callbacks per principal and in total. They include
	// callbacks that are no longer in use. The defaults are 2,000 and 200,000; negative means no limit. Above the
	// limit, subscribing to another callback fails with ResourceExhausted and the limit "verifications". Callbacks
	// recorded by operator.Admin.Subscribe count toward the limit, but are never refused.
	PerPrincipal, Total int
}

// Bounds and defaults of [Options].
const (
	defaultMinTTL    = time.Minute
	defaultTTL       = 30 * time.Minute
	maxTTLDurable    = 24 * time.Hour
	maxTTLMemory     = time.Hour
	defaultGrace     = 5 * time.Minute
	maxVerifyTimeout = 6 * time.Second

	attemptsInMemory = 10 // per subscription
	attemptsDurable  = 100
)

// withDefaults returns o with the defaults set. It returns an error if options contradict each other.
func (o Options) withDefaults(s interface{ Durable() bool }) (Options, error) {
	durable := s.Durable()
	switch {
	case o.RequireDurableStore && !durable:
		return o, errors.New("webhooks: a durable store is required (server.Options.Store, for example package sqlite)")
	case o.AllowNoExpiry && !durable:
		return o, errors.New("webhooks: AllowNoExpiry needs a durable store, since a subscription that never expires must survive a restart (SUB-6)")
	}
	limit := maxTTLMemory
	if durable {
		limit = maxTTLDurable
	}
	setDefault(&o.MinTTL, defaultMinTTL)
	setDefault(&o.MaxTTL, limit)
	o.MaxTTL = min(o.MaxTTL, limit)
	if o.MinTTL > o.MaxTTL {
		return o, fmt.Errorf("webhooks: MinTTL %s is above MaxTTL %s", o.MinTTL, o.MaxTTL)
	}
	setDefault(&o.DefaultTTL, defaultTTL)
	o.DefaultTTL = min(max(o.DefaultTTL, o.MinTTL), o.MaxTTL)
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	o.Quota.PerPrincipal = cmp.Or(o.Quota.PerPrincipal, 100)
	o.Quota.Total = cmp.Or(o.Quota.Total, 100_000)
	setDefault(&o.Verify.Timeout, 5*time.Second)
	o.Verify.Timeout = min(o.Verify.Timeout, maxVerifyTimeout)
	setDefault(&o.Verify.Budget, 10)
	setDefault(&o.Verify.CacheFor, time.Hour)
	o.Verify.PerPrincipal = cmp.Or(o.Verify.PerPrincipal, 2000)
	o.Verify.Total = cmp.Or(o.Verify.Total, 200_000)
	if o.Attempts.PerSubscription == 0 {
		o.Attempts.PerSubscription = attemptsInMemory
		if durable {
			o.Attempts.PerSubscription = attemptsDurable
		}
	}
	setDefault(&o.Retry.PerHost, 16)
	setDefault(&o.Callbacks.HostConnections, o.Retry.PerHost)
	return o, nil
}

// PresetChatGPT returns o configured for clients that follow OpenAI's ChatGPT guide. It sets IdempotentUnsubscribe and
// RequireDurableStore. Such clients also need the error codes that are the default of server.Options.Codes.
func PresetChatGPT(o Options) Options {
	o.IdempotentUnsubscribe, o.RequireDurableStore = true, true
	return o
}

// part converts o to the options of the part.
func (o *Options) part() *durable.Webhooks {
	return &durable.Webhooks{
		Callbacks: netguard.Options(o.Callbacks), Delivery: o.Retry.part(), Attempts: engine.AttemptBounds(o.Attempts),
		Verify: verify.Limits(o.Verify), Allow: o.AllowReceivers,
		Terms: subscriber.Terms{Min: o.MinTTL, Default: o.DefaultTTL, Max: o.MaxTTL, NoExpiry: o.AllowNoExpiry},
		Grace: o.Grace, Quota: subscriber.Quota(o.Quota), Identity: o.Identity,
		EndWithToken: o.EndWithToken, IdempotentUnsubscribe: o.IdempotentUnsubscribe,
	}
}

// setDefault replaces a zero or negative value with the default.
func setDefault[T int | time.Duration](v *T, d T) {
	if *v <= 0 {
		*v = d
	}
}
