// Package verify decides whether events may be sent to a callback (VER-1 to VER-3). It checks the operator's
// allow-list, the stored records and the document of the callback's origin. Otherwise it performs a handshake.
package verify

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/keylock"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// ByRecord is the verification method of a record that was stored without a verification.
const ByRecord = "stored"

// Verification methods, in the order in which they are tried (VER-1).
const (
	byAllowList = "allow-list"
	byWellKnown = "well-known"
	byChallenge = "challenge"
)

// verifyTime is the timeout for the whole verification in a subscribe call, including the time spent waiting for other
// verifications (VER-2).
const verifyTime = 7500 * time.Millisecond

// Options configures a [Verifier].
type Options struct {
	Limits
	// Allow lists origins, with or without a path. Callbacks at these origins do not require verification.
	Allow []string
	// Identity adds the server's signature to challenges. Challenges are also signed with the subscription's secrets.
	// If it is nil, challenges have no server signature.
	Identity *webhook.Identity
	// Now returns the current time for records. The default is time.Now.
	Now func() time.Time
	// Telemetry counts the outcomes.
	Telemetry telemetry.Recorder
}

// Limits contains the limits of handshakes and records. All fields must be set.
type Limits struct {
	Timeout             time.Duration // of the handshake
	Budget              int           // of failures within a minute, of a host and of a principal
	CacheFor            time.Duration // after the last refresh
	PerPrincipal, Total int           // of records; negative for no bound
}

// Records stores the verified callbacks of each principal. A store.SubscriptionStore implements it.
type Records interface {
	Verification(ctx context.Context, principal, url string) (store.Verification, bool, error)
	PutVerification(ctx context.Context, v store.Verification) error
	CountVerifications(ctx context.Context, principal string) (own, all int, err error)
	SweepVerifications(ctx context.Context, now time.Time, limit int) (n int, err error)
}

// A Verifier decides whether events may be sent to a callback (VER-1 to VER-3).
type Verifier struct {
	o         Options
	allow     []*url.URL
	store     Records
	guard     *netguard.Guard
	flights   keylock.Locks[Pair]
	receivers receiverDocs
	budget    failureBudget
	quota     verifiedQuota
}

// New returns a Verifier that makes requests through guard. If a receiver in Options.Allow is invalid, the error names
// it.
func New(o Options, records Records, guard *netguard.Guard) (*Verifier, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &Verifier{o: o, store: records, guard: guard}
	var err error
	if v.allow, err = allowList(o.Allow); err != nil {
		return nil, err
	}
	return v, nil
}

// allowList parses Options.Allow.
func allowList(receivers []string) ([]*url.URL, error) {
	var list []*url.URL
	for _, text := range receivers {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("webhooks: allowed receiver %q is not an origin, with or without a path", text)
		}
		list = append(list, u)
	}
	return list, nil
}

// A Pair identifies a verification. The verification of one principal's callback is not valid for other principals
// (VER-3).
type Pair struct{ Principal, URL string }

// A Candidate is a subscription with a callback to verify.
type Candidate struct {
	Pair
	// ID is the subscription's ID.
	ID string
	// At is the parsed URL.
	At *url.URL
	// Ring signs the challenge.
	Ring webhook.Ring
	// Live reports whether the pair has a live subscription, which keeps the verification valid.
	Live func() bool
}

// Verify returns a nil error if events may be delivered to the callback. The result answered is the callback's response
// time to a challenge, or 0 without a challenge. Only one verification of a pair runs at a time. Concurrent calls for
// the same pair use its result. The error is a CallbackEndpointError, ResourceExhausted, an error of the context or an
// error of the store.
func (v *Verifier) Verify(ctx context.Context, c *Candidate) (answered time.Duration, err error) {
	if v.Allows(c.At) {
		return 0, nil
	}
	limited, cancel := context.WithTimeout(ctx, verifyTime)
	defer cancel()
	answered, err = v.verify(limited, c)
	return answered, timeoutError(ctx, err)
}

func (v *Verifier) verify(ctx context.Context, c *Candidate) (answered time.Duration, err error) {
	unlock, err := v.flights.Lock(ctx, c.Pair)
	if err != nil {
		return 0, err
	}
	defer unlock()
	ok, err := v.hasValidRecord(ctx, c)
	if err != nil || ok {
		return 0, err
	}
	giveBack, err := v.reserveRecord(ctx, c.Principal)
	if err != nil {
		v.countOutcome(ctx, byChallenge, "over_quota")
		return 0, err
	}
	defer giveBack()
	if v.receivers.hasCached(c.At) {
		return 0, v.storeVerified(ctx, c, byWellKnown)
	}
	finish, err := v.budget.reserve(ctx, c.Principal, hostOf(c.At), v.o.Budget)
	if err != nil {
		v.countOutcome(ctx, byChallenge, "over_budget")
		return 0, err
	}
	if v.receivers.fetchAndCheck(ctx, v.guard, c.At) {
		finish(true)
		return 0, v.storeVerified(ctx, c, byWellKnown)
	}
	began := time.Now()
	failure, err := v.sendChallenge(ctx, c)
	finish(failure == "" && err == nil)
	switch {
	case failure != "":
		v.countOutcome(ctx, byChallenge, string(failure))
		return 0, callbackError(failure.ForSubscriber())
	case err != nil:
		v.countOutcome(ctx, byChallenge, "cancelled")
		return 0, err
	}
	return max(time.Since(began), 1), v.storeVerified(ctx, c, byChallenge)
}

// timeoutError converts a timeout of this package to a CallbackEndpointError, unless the caller's context has ended.
func timeoutError(ctx context.Context, err error) error {
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return callbackError(wire.Timeout)
	}
	return err
}

func callbackError(c wire.Category) *events.Error {
	return events.NewError(wire.CallbackEndpointError, map[string]wire.Category{"reason": c})
}

// outcomeVerified is the outcome of a successful verification. All other outcomes are reasons for a failure.
const outcomeVerified = "verified"

func (v *Verifier) countOutcome(ctx context.Context, way, outcome string) {
	s := telemetry.Series{Kind: telemetry.Verifications, Outcome: outcomeVerified, Detail: way}
	if outcome != outcomeVerified {
		s.Outcome, s.Failure = "refused", outcome
	}
	v.o.Telemetry.Record(ctx, s, 1)
}

// Allows reports whether the operator allows the callback without verification.
func (v *Verifier) Allows(u *url.URL) bool {
	return slices.ContainsFunc(v.allow, func(a *url.URL) bool {
		return a.Scheme == u.Scheme && hostOf(a) == hostOf(u) && portOf(a) == portOf(u) && isBelow(u, a.Path)
	})
}

// isBelow reports whether the URL's path is equal to path or within it.
func isBelow(u *url.URL, path string) bool {
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return true
	}
	p, ok := normalPath(u)
	return ok && (p == path || strings.HasPrefix(p, path+"/"))
}

// hostOf returns the URL's host in the canonical form used for comparisons.
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

// hasValidRecord reports whether the pair has a valid record. It also extends the record.
func (v *Verifier) hasValidRecord(ctx context.Context, c *Candidate) (bool, error) {
	r, ok, err := v.store.Verification(ctx, c.Principal, c.Pair.URL)
	if err != nil || !ok {
		return false, err
	}
	now := v.o.Now()
	if !r.Until.IsZero() && !now.Before(r.Until) && !c.Live() {
		return false, nil
	}
	if r.Until.IsZero() || r.Until.Sub(now) > v.o.CacheFor/2 {
		return true, nil
	}
	r.Until = now.Add(v.o.CacheFor)
	return true, v.store.PutVerification(ctx, r)
}

// storeVerified stores a record for the verified pair.
func (v *Verifier) storeVerified(ctx context.Context, c *Candidate, way string) error {
	now := v.o.Now()
	err := v.store.PutVerification(ctx, store.Verification{Principal: c.Principal, URL: c.Pair.URL, Method: way, At: now, Until: now.Add(v.o.CacheFor)})
	if err == nil {
		v.countOutcome(ctx, way, outcomeVerified)
	}
	return err
}

// sendChallenge sends a nonce to the callback and verifies that the callback echoes it (VER-2). It returns the category
// of a failure. Without a category, an error means that the challenge was canceled or not sent.
func (v *Verifier) sendChallenge(ctx context.Context, c *Candidate) (failure wire.Category, err error) {
	nonce := rand.Text()
	body, err := webhook.Verification(nonce)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, v.o.Timeout)
	defer cancel()
	signer, header := webhook.Signer{Ring: c.Ring, Identity: v.o.Identity}, make(http.Header)
	if err := signer.Sign(header, webhook.Message{ID: webhook.NewMessageID(wire.EnvelopeVerification), Subscription: c.ID, Body: body}, v.o.Now()); err != nil {
		return "", err
	}
	answer, err := v.guard.Fetch(ctx, netguard.Request{Method: http.MethodPost, URL: c.Pair.URL, Header: header, Body: body})
	if err != nil {
		return netguard.CategoryOf(err), err
	}
	var got wire.ChallengeAnswer
	if answer.Status < http.StatusOK || answer.Status >= http.StatusMultipleChoices || answer.Truncated ||
		jsonv2.Unmarshal(answer.Body, &got) != nil || subtle.ConstantTimeCompare([]byte(got.Challenge), []byte(nonce)) != 1 {
		return wire.ChallengeFailed, nil
	}
	return "", nil
}
