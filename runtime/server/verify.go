package server

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
)

// How a callback was verified, in the order in which the ways are tried (VER-1).
const (
	byAllowList = "allow-list"
	byRecord    = "stored"
	byWellKnown = "well-known"
	byChallenge = "challenge"
)

// verifyTime bounds everything that verification does in one subscribe call, the waiting for
// another verification included (VER-2).
const verifyTime = 7500 * time.Millisecond

// A verifier decides whether events may be sent to a callback (VER-1 to VER-3).
type verifier struct {
	o         *WebhookOptions
	allow     []*url.URL
	store     store.SubscriptionStore
	guard     *netguard.Guard
	outcomes  metric.Int64Counter
	flights   keyLocks[pair]
	receivers receiverDocs
	budget    failureBudget
	quota     verifiedQuota
}

// A pair is what a verification is for: it is worth nothing to another principal (VER-3).
type pair struct{ principal, url string }

// A candidate is a subscription whose callback is to be verified.
type candidate struct {
	pair
	id   string // of the subscription
	url  *url.URL
	ring webhook.Ring
	// live tells whether the pair has a live subscription: what was verified stays so.
	live func() bool
}

// verify returns nil when events may be delivered. One verification of a pair runs at a time, and
// who waited for it uses its result. Errors are CallbackEndpointError, ResourceExhausted, the
// context's own or the store's.
func (v *verifier) verify(ctx context.Context, c *candidate) error {
	if v.allows(c.url) {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	unlock, err := v.flights.lock(limited, c.pair)
	if err != nil {
		return overTime(ctx, err)
	}
	defer unlock()
	ok, err := v.recorded(limited, c)
	if err != nil || ok {
		return overTime(ctx, err)
	}
	giveBack, err := v.reserve(limited, c.principal)
	if err != nil {
		v.count(ctx, byChallenge, "over_quota")
		return overTime(ctx, err)
	}
	defer giveBack()
	if v.receivers.cached(c.url) {
		return v.remember(limited, c, byWellKnown)
	}
	finish, err := v.budget.begin(limited, c.principal, hostOf(c.url), v.o.Verify.Budget)
	if err != nil {
		v.count(ctx, byChallenge, "over_budget")
		return overTime(ctx, err)
	}
	if v.receivers.fetch(limited, v.guard, c.url) {
		finish(true)
		return v.remember(limited, c, byWellKnown)
	}
	err = v.challenge(limited, c)
	finish(err == nil)
	if err != nil {
		v.count(ctx, byChallenge, outcomeOf(err))
		return overTime(ctx, err)
	}
	return v.remember(limited, c, byChallenge)
}

// overTime tells a time limit of ours from the caller's own end.
func overTime(ctx context.Context, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return callbackError(wire.Timeout)
	}
	return err
}

func callbackError(c wire.Category) *events.Error {
	return events.NewError(wire.CallbackEndpointError, map[string]wire.Category{"reason": c})
}

// outcomeOf names a failure for the metric: its category.
func outcomeOf(err error) string {
	var e *events.Error
	if errors.As(err, &e) {
		var data struct {
			Reason string `json:"reason"`
		}
		if jsonv2.Unmarshal(e.Data, &data) == nil && data.Reason != "" {
			return data.Reason
		}
	}
	return "cancelled"
}

func (v *verifier) count(ctx context.Context, way, outcome string) {
	v.outcomes.Add(ctx, 1, metric.WithAttributes(attribute.String("method", way), attribute.String("outcome", outcome)))
}

// allows reports whether the operator trusts the callback without asking.
func (v *verifier) allows(u *url.URL) bool {
	for _, a := range v.allow {
		if a.Scheme == u.Scheme && hostOf(a) == hostOf(u) && portOf(a) == portOf(u) && below(u, a.Path) {
			return true
		}
	}
	return false
}

// below reports whether the URL's path is path or lies under it.
func below(u *url.URL, path string) bool {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return true
	}
	p, ok := normalPath(u)
	return ok && (p == path || strings.HasPrefix(p, path+"/"))
}

// hostOf is the URL's host in the form that budgets and lists compare.
func hostOf(u *url.URL) string {
	h := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if a, err := netip.ParseAddr(h); err == nil {
		return a.String()
	}
	return h
}

func portOf(u *url.URL) string {
	switch p := u.Port(); {
	case p != "":
		return p
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}

// recorded reports whether a record of the pair holds, and prolongs it.
func (v *verifier) recorded(ctx context.Context, c *candidate) (bool, error) {
	r, ok, err := v.store.Verification(ctx, c.principal, c.pair.url)
	if err != nil || !ok {
		return false, err
	}
	now := time.Now()
	if !r.Until.IsZero() && !now.Before(r.Until) && !c.live() {
		return false, nil
	}
	if r.Until.IsZero() || r.Until.Sub(now) > v.o.Verify.CacheFor/2 {
		return true, nil
	}
	r.Until = now.Add(v.o.Verify.CacheFor)
	return true, v.store.PutVerification(ctx, r)
}

// remember stores that the pair is verified.
func (v *verifier) remember(ctx context.Context, c *candidate, way string) error {
	now := time.Now()
	err := v.store.PutVerification(ctx, store.Verification{Principal: c.principal, URL: c.pair.url, Method: way, At: now, Until: now.Add(v.o.Verify.CacheFor)})
	if err == nil {
		v.count(ctx, way, "verified")
	}
	return err
}

// challenge asks the callback to repeat a nonce that nobody else can know (VER-2).
func (v *verifier) challenge(ctx context.Context, c *candidate) error {
	nonce := rand.Text()
	body, err := webhook.Verification(nonce)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, v.o.Verify.Timeout)
	defer cancel()
	signer := webhook.Signer{Ring: c.ring, Identity: v.o.Identity}
	req, err := signer.NewRequest(ctx, c.pair.url, webhook.Message{ID: webhook.NewMessageID(wire.EnvelopeVerification), Subscription: c.id, Body: body})
	if err != nil {
		return err
	}
	answer, err := v.guard.Fetch(req)
	if err != nil {
		if category := netguard.CategoryOf(err); category != "" {
			return callbackError(category)
		}
		return err
	}
	var got wire.ChallengeAnswer
	if answer.Status < http.StatusOK || answer.Status >= http.StatusMultipleChoices || answer.Truncated ||
		jsonv2.Unmarshal(answer.Body, &got) != nil || subtle.ConstantTimeCompare([]byte(got.Challenge), []byte(nonce)) != 1 {
		return callbackError(wire.ChallengeFailed)
	}
	return nil
}
