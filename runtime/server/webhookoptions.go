package server

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// WebhookOptions configures webhook delivery. The zero value is a hardened default: public https callbacks only,
// each verified before the first delivery. Options.Store must implement store.SubscriptionStore, as the stores of
// this module do.
type WebhookOptions struct {
	// Callbacks configures which callbacks may be reached, and how. The default is public addresses over https, each
	// request within 5 s (SSRF-1).
	Callbacks Callbacks
	// Retry configures the schedule of attempts, its limits, and when deliveries are suspended.
	Retry Retry
	// AllowReceivers lists callbacks that are accepted without verification and DNS lookup. An entry is an origin,
	// https://receiver.example, or an origin with a path that covers all paths below it. Callbacks still applies to
	// each request. See VER-1.
	AllowReceivers []string

	// MinTTL, DefaultTTL and MaxTTL bound the time until a subscription must be refreshed. The defaults are 1 min,
	// 30 min, and 24 h with a durable store or 1 h without. The default of MaxTTL is also its largest value. See
	// SUB-6.
	MinTTL, DefaultTTL, MaxTTL time.Duration
	// AllowNoExpiry grants subscriptions without expiry to callers that send ttlMs: null; it needs a durable
	// store. See SUB-6.
	AllowNoExpiry bool
	// EndWithToken limits each subscribe and refresh to the expiry of the caller's token, even if that is before
	// MinTTL. Without it, deliveries continue until the subscription expires, regardless of the token. A token
	// without an expiry sets no limit. See SUB-6.
	EndWithToken bool
	// Grace is how long the old secret still signs deliveries after a refresh; default 5 min, negative for none. See
	// SUB-5.
	Grace time.Duration
	// Quota bounds the number of subscriptions; default 100 per principal and 100,000 in total. See SUB-8.
	Quota Quota
	// Verify configures how callbacks are verified. See VER-2, VER-3.
	Verify Verify
	// Attempts configures how many delivery attempts are kept for operators.
	Attempts Attempts
	// IdempotentUnsubscribe makes the unsubscribe of an unknown subscription succeed. See D6.
	IdempotentUnsubscribe bool
	// RequireDurableStore makes New refuse a store that does not survive the process.
	RequireDurableStore bool

	// Identity signs deliveries with the server's key, in addition to the subscription's secret. [Server.KeySet]
	// serves its public keys (HOOK-10).
	Identity *webhook.Identity
}

// Attempts bounds the delivery attempts that are kept for operators. Only results are kept, not requests or
// responses. The stores of this module that keep subscriptions also keep attempts; a custom store keeps none.
type Attempts struct {
	// PerSubscription is the number of attempts that are kept per subscription; default 100 with a durable store and
	// 10 without. Negative keeps none.
	PerSubscription int
	// MaxAge is the time that attempts are kept; default 7 days.
	MaxAge time.Duration
	// Total is the number of attempts that are kept in total; the oldest are deleted first. The default is
	// 1,000,000.
	Total int
}

// Verify configures how callbacks are verified.
type Verify struct {
	// Timeout bounds the handshake; default 5 s, at most 6 s, because a subscribe call must finish within 10 s. See
	// VER-2.
	Timeout time.Duration
	// Budget is the number of a principal's verifications that may fail per minute before more are refused; default
	// 10. A destination host gets twice the budget, or four times if a verification succeeded there in the last 10
	// minutes. Successes do not count (VER-3).
	Budget int
	// CacheFor is the time that a callback stays verified after its last subscription was refreshed; default 1 h.
	// See VER-3.
	CacheFor time.Duration
	// PerPrincipal and Total bound the verified callbacks that are remembered per principal and in total, in use or
	// not. The defaults are 2,000 and 200,000; negative means no bound. Above them, a subscribe to another callback
	// fails with ResourceExhausted and the limit "verifications". Callbacks that operator.Admin.Subscribe records
	// count, but are never refused.
	PerPrincipal, Total int
}

// Bounds and defaults of WebhookOptions.
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

// withDefaults sets the defaults and refuses contradictory options.
func (o WebhookOptions) withDefaults(s interface{ Durable() bool }) (WebhookOptions, error) {
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

// PresetChatGPT returns o set up for clients that follow OpenAI's ChatGPT guide. It sets the codes of the sketch,
// an unsubscribe that never fails, and RequireDurableStore.
func PresetChatGPT(o Options) Options {
	o.Codes = CodesSketch
	w := o.webhook()
	w.IdempotentUnsubscribe, w.RequireDurableStore = true, true
	o.Webhook = &w
	return o
}

// PresetSEP returns o set up for clients that follow SEP-3415 to the letter. It sets the SEP's error codes, and an
// error for the unsubscribe of an unknown subscription.
func PresetSEP(o Options) Options {
	o.Codes = CodesSEP
	w := o.webhook()
	w.IdempotentUnsubscribe = false
	o.Webhook = &w
	return o
}

// webhook returns a copy of the webhook options, so that a preset does not change the caller's.
func (o *Options) webhook() WebhookOptions {
	if o.Webhook == nil {
		return WebhookOptions{}
	}
	return *o.Webhook
}

// terms converts the TTL options to [subscriber.Terms].
func (o *WebhookOptions) terms() subscriber.Terms {
	return subscriber.Terms{Min: o.MinTTL, Default: o.DefaultTTL, Max: o.MaxTTL, NoExpiry: o.AllowNoExpiry}
}
