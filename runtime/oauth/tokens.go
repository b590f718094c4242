package oauth

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

const (
	// checkTimeout is the timeout of a check, and queueTimeout is the maximum time in the queue before it.
	checkTimeout, queueTimeout = 10 * time.Second, 10 * time.Second
	// goodTTL and badTTL are the maximum times for which a good or a bad result is cached. A revoked token can remain
	// valid for up to goodTTL.
	goodTTL, badTTL = time.Minute, 10 * time.Second
	// defaultLifetime is the lifetime of tokens without an expiry.
	defaultLifetime = 10 * time.Minute
	// maxAnswers is the maximum number of entries in each of the two caches.
	maxAnswers = 10_000
	// maxToken is the maximum length of a token in bytes.
	maxToken = 8 << 10
	// overloadLogInterval is the minimum time between log messages about refused tokens.
	overloadLogInterval = time.Minute
)

// errUnavailable is returned if a token cannot be checked. Its text is safe for any caller, and the cause is logged.
var errUnavailable = errors.New("tokens cannot be checked now")

// A tokenHash identifies a token. Only seenTokens also stores the text of tokens.
type tokenHash [sha256.Size]byte

// A tokenChecker checks tokens and caches the results.
type tokenChecker struct {
	check  func(context.Context, string) (*auth.TokenInfo, error)
	scopes []string // of every token
	logger *slog.Logger
	gate   *gate

	mu       sync.Mutex
	good     *cache
	bad      *cache
	seen     *seenTokens
	pending  map[tokenHash]*pendingCheck
	trouble  string    // text of the last error of check, "" after a result
	overload time.Time // time of the last log message

	rechecks    chan struct{} // a value for each check that Authorize has started
	failures    int           // of rechecks, in succession
	pausedUntil time.Time     // Authorize starts no recheck before
}

func newTokens(ask func(context.Context, string) (*auth.TokenInfo, error), o *Options, logger *slog.Logger) *tokenChecker {
	return &tokenChecker{check: ask, scopes: o.Scopes, logger: logger, gate: newGate(o.MaxChecks), good: newCache(), bad: newCache(), seen: newSeenTokens(),
		pending: map[tokenHash]*pendingCheck{}, rechecks: make(chan struct{}, maxRechecks)}
}

// A pendingCheck is a check in progress, for which several requests may wait. The first request runs it.
type pendingCheck struct {
	done chan struct{} // closed when the fields below are set
	info *auth.TokenInfo
	err  error
	left bool // the first request ended before its turn; another request must run the check
}

// verify returns the cached result for a token, or runs a single check for all concurrent requests with the token. The
// error is auth.ErrInvalidToken or errUnavailable.
func (t *tokenChecker) verify(ctx context.Context, token, sender string) (*auth.TokenInfo, error) {
	if len(token) > maxToken {
		return nil, auth.ErrInvalidToken
	}
	hash := tokenHash(sha256.Sum256([]byte(token)))
	for {
		t.mu.Lock()
		now := time.Now()
		info, wasGood := t.good.get(hash)
		if wasGood && now.Before(info.until) {
			t.mu.Unlock()
			return info.info, nil
		}
		if b, ok := t.bad.get(hash); ok && now.Before(b.until) {
			t.mu.Unlock()
			return nil, auth.ErrInvalidToken
		}
		q := t.pending[hash]
		if q == nil {
			q = &pendingCheck{done: make(chan struct{})}
			t.pending[hash] = q
			wasGood = wasGood || t.seen.byHash[hash] != nil
			t.mu.Unlock()
			t.runCheck(ctx, q, hash, token, sender, wasGood)
			return q.info, q.err
		}
		t.mu.Unlock()
		select {
		case <-q.done:
			if !q.left {
				return q.info, q.err
			}
		case <-ctx.Done():
			return nil, errUnavailable
		}
	}
}

// runCheck waits for a turn, checks the token and caches the result. A started check runs to completion even if the
// request ends, because other requests may wait for it.
func (t *tokenChecker) runCheck(ctx context.Context, q *pendingCheck, hash tokenHash, token, sender string, wasGood bool) {
	var info *auth.TokenInfo
	err, turn := errUnavailable, t.gate.acquire(ctx, sender, wasGood)
	defer func() { t.finish(q, hash, token, turn, info, err) }() // also after a panic of Options.Verify
	if turn != entered {
		return
	}
	defer t.gate.release()
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	info, err = t.check(asking, token)
}

// finish caches the result of a check and wakes the requests that wait for it.
func (t *tokenChecker) finish(q *pendingCheck, hash tokenHash, token string, turn outcome, info *auth.TokenInfo, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(q.done)
	delete(t.pending, hash)
	q.err = errUnavailable
	if turn != entered {
		if q.left = turn == abandoned; !q.left {
			t.reportOverload()
		}
		return
	}
	now, invalid := time.Now(), errors.Is(err, auth.ErrInvalidToken)
	if err != nil && !invalid {
		t.logChange(err)
		return
	}
	t.logChange(nil)
	if invalid || info == nil || !info.Expiration.IsZero() && !info.Expiration.After(now) {
		t.good.remove(hash)
		t.bad.put(hash, answer{until: now.Add(badTTL)})
		t.seen.removeInvalid(hash, now)
		q.err = auth.ErrInvalidToken
		return
	}
	kept := *info
	if kept.Expiration.IsZero() {
		kept.Expiration = now.Add(defaultLifetime)
	}
	until := now.Add(goodTTL)
	if kept.Expiration.Before(until) {
		until = kept.Expiration
	}
	t.good.put(hash, answer{info: &kept, until: until})
	if slices.ContainsFunc(t.scopes, func(scope string) bool { return !slices.Contains(info.Scopes, scope) }) {
		t.seen.removeInvalid(hash, now)
	} else {
		t.seen.addValid(kept.UserID, seenToken{text: token, hash: hash, until: until, expires: info.Expiration})
	}
	q.info, q.err = &kept, nil
}

// logChange logs when the authorization server fails and when it recovers. The caller holds mu.
func (t *tokenChecker) logChange(err error) {
	text := ""
	var failure *introspectionError
	switch {
	case errors.As(err, &failure):
		text = failure.what
	case err != nil:
		text = "it cannot be verified"
	}
	if text == t.trouble {
		return
	}
	if t.trouble = text; text == "" {
		t.logger.Info("checking access tokens works again")
	} else {
		t.logger.Error("cannot check access tokens", "error", err)
	}
}

// reportOverload logs that a token was refused because of overload, at most once per overloadLogInterval. The caller
// holds mu.
func (t *tokenChecker) reportOverload() {
	if now := time.Now(); now.Sub(t.overload) >= overloadLogInterval {
		t.overload = now
		t.logger.Warn("unknown access tokens arrive faster than they can be checked; some got status 503")
	}
}

// An answer is a cached result. A good result stays in the cache after it has expired, which gives priority to the next
// check of the token.
type answer struct {
	info  *auth.TokenInfo
	until time.Time
}

// A cache stores the latest maxAnswers results.
type cache struct {
	entries map[tokenHash]*list.Element // of order, whose values are *cached
	order   *list.List                  // oldest first
}

type cached struct {
	hash tokenHash
	answer
}

func newCache() *cache { return &cache{entries: map[tokenHash]*list.Element{}, order: list.New()} }

func (c *cache) get(hash tokenHash) (answer, bool) {
	e := c.entries[hash]
	if e == nil {
		return answer{}, false
	}
	return e.Value.(*cached).answer, true
}

func (c *cache) put(hash tokenHash, a answer) {
	c.remove(hash)
	if c.order.Len() >= maxAnswers {
		c.remove(c.order.Front().Value.(*cached).hash)
	}
	c.entries[hash] = c.order.PushBack(&cached{hash, a})
}

func (c *cache) remove(hash tokenHash) {
	if e := c.entries[hash]; e != nil {
		c.order.Remove(e)
		delete(c.entries, hash)
	}
}
