package server

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// WebhookOptions configure delivery by webhook. The zero value is a hardened default: public https
// callbacks only, each one verified before anything is delivered to it. Options.Store has to be a
// store.SubscriptionStore, which those of this module are.
type WebhookOptions struct {
	// Callbacks says which callbacks may be reached and how. By default that is public addresses over
	// https, each request within 5 s (SSRF-1).
	Callbacks Callbacks
	// Retry is the schedule of attempts, with its limits and when deliveries are held back.
	Retry Retry
	// AllowReceivers are callbacks that need no verification and no lookup before they are
	// accepted: origins, https://receiver.example, or origins with a path, which then covers what
	// lies below it. Callbacks still says whether requests get there. See VER-1.
	AllowReceivers []string

	// MinTTL, DefaultTTL and MaxTTL bound the time until a subscription must be refreshed; default 1 min, 30 min,
	// and 24 h with a durable store or 1 h without, which is also the largest MaxTTL. See SUB-6.
	MinTTL, DefaultTTL, MaxTTL time.Duration
	// AllowNoExpiry grants subscriptions without expiry to callers that send ttlMs: null; it needs a durable
	// store. See SUB-6.
	AllowNoExpiry bool
	// EndWithToken grants a subscription, and each refresh, at most until the caller's token expires, also if that is
	// before MinTTL. Without it deliveries go on until the grant ends, whatever becomes of the token. A token without
	// an expiry bounds nothing. See SUB-6.
	EndWithToken bool
	// Grace is how long after a refresh with another secret deliveries are signed with the old one
	// too; default 5 min, negative for not at all. See SUB-5.
	Grace time.Duration
	// Quota bounds how many subscriptions there are; default 100 for one principal and 100,000 in all. See SUB-8.
	Quota Quota
	// Verify says how callbacks are verified. See VER-2, VER-3.
	Verify Verify
	// Attempts says how many attempts to deliver are kept for operators.
	Attempts Attempts
	// IdempotentUnsubscribe answers the unsubscribe of an unknown subscription with success. See
	// D6.
	IdempotentUnsubscribe bool
	// RequireDurableStore makes New refuse a store that does not survive the process.
	RequireDurableStore bool

	// Identity signs deliveries with a key of the server's own beside the subscription's secret.
	// [Server.KeySet] serves its public keys (HOOK-10).
	Identity *webhook.Identity
}

// Attempts bounds the delivery attempts that are kept for operators: their results, and nothing that was sent or
// answered. The stores of this module that keep subscriptions keep attempts; a store of your own keeps none.
type Attempts struct {
	// PerSubscription is how many attempts of one subscription are kept; default 100 with a durable store and
	// 10 without. Negative keeps none.
	PerSubscription int
	// MaxAge is how long they are kept; default 7 days.
	MaxAge time.Duration
	// Total is how many are kept in all; the oldest are deleted first. Default 1,000,000.
	Total int
}

// Verify says how callbacks are verified.
type Verify struct {
	// Timeout bounds the handshake; default 5 s, at most 6 s, since a subscribe call has to be
	// over within 10 s. See VER-2.
	Timeout time.Duration
	// Budget is how many verifications of one principal may fail within a minute before further ones are refused;
	// default 10. A destination host has twice as many, and four times if a verification succeeded there in the last 10
	// minutes. Successes do not count (VER-3).
	Budget int
	// CacheFor is how long a verified callback stays verified after its last subscription was
	// refreshed; default 1 h. See VER-3.
	CacheFor time.Duration
	// PerPrincipal and Total bound how many verified callbacks are remembered for one principal and
	// in all, in use or not; default 2,000 and 200,000, negative for no bound. Over them a subscribe
	// to another callback is ResourceExhausted with the limit "verifications". What operator.Admin.Subscribe
	// records counts and is never refused.
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

	attemptsInMemory = 10 // of a subscription
	attemptsDurable  = 100
)

// withDefaults fills in what is open and refuses what contradicts itself.
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
		return o, fmt.Errorf("webhooks: MinTTL %s is above the largest possible time %s", o.MinTTL, o.MaxTTL)
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

// PresetChatGPT sets o up for clients that follow the guide of OpenAI's ChatGPT: the codes of the
// sketch, an unsubscribe that never fails, and a durable store, without which New fails.
func PresetChatGPT(o Options) Options {
	o.Codes = CodesSketch
	w := o.webhook()
	w.IdempotentUnsubscribe, w.RequireDurableStore = true, true
	o.Webhook = &w
	return o
}

// PresetSEP sets o up for clients that follow SEP-3415 to the letter: its error codes, and an error
// for the unsubscribe of an unknown subscription.
func PresetSEP(o Options) Options {
	o.Codes = CodesSEP
	w := o.webhook()
	w.IdempotentUnsubscribe = false
	o.Webhook = &w
	return o
}

// webhook is a copy of the webhook options, so that a preset changes nothing of its caller's.
func (o *Options) webhook() WebhookOptions {
	if o.Webhook == nil {
		return WebhookOptions{}
	}
	return *o.Webhook
}

// terms are what the options grant.
func (o *WebhookOptions) terms() subscriber.Terms {
	return subscriber.Terms{Min: o.MinTTL, Default: o.DefaultTTL, Max: o.MaxTTL, NoExpiry: o.AllowNoExpiry}
}
