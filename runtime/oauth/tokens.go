package oauth

import (
	"container/list"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

const (
	// askTime bounds one question about a token, and waitTime the time in the queue before it.
	askTime, waitTime = 10 * time.Second, 10 * time.Second
	// keepGood and keepBad bound the time for which an answer is cached. A revoked token stays valid for up to
	// keepGood.
	keepGood, keepBad = time.Minute, 10 * time.Second
	// lifeWithout bounds a stream whose token has no expiry.
	lifeWithout = 10 * time.Minute
	// maxAnswers bounds each of the two caches.
	maxAnswers = 10_000
	// maxToken bounds a token, in bytes.
	maxToken = 8 << 10
	// overloadLog is the minimum time between two log messages about refused tokens.
	overloadLog = time.Minute
)

// errUnavailable reports that a token cannot be checked. Its text is safe for any caller; the log has the cause.
var errUnavailable = errors.New("tokens cannot be checked now")

// A tokenHash identifies a token, so that tokens themselves are not kept.
type tokenHash [sha256.Size]byte

// tokens caches the authorization server's answers about tokens, and asks it for new ones.
type tokens struct {
	ask    func(context.Context, string) (*auth.TokenInfo, error)
	logger *slog.Logger
	gate   *gate

	mu       sync.Mutex
	good     *cache
	bad      *cache
	asking   map[tokenHash]*question
	trouble  string    // text of the last error of ask, "" after an answer
	overload time.Time // time of the last log message
}

func newTokens(ask func(context.Context, string) (*auth.TokenInfo, error), logger *slog.Logger) *tokens {
	return &tokens{ask: ask, logger: logger, gate: newGate(), good: newCache(), bad: newCache(), asking: map[tokenHash]*question{}}
}

// A question is a pending question about a token, for which several requests may wait. The first request asks it.
type question struct {
	done chan struct{} // closed when the fields below are set
	info *auth.TokenInfo
	err  error
	left bool // the asking request ended before its turn; another request must ask
}

// verify returns the cached answer about a token, or asks once for all concurrent requests with it. Its error is
// auth.ErrInvalidToken or errUnavailable.
func (t *tokens) verify(ctx context.Context, token, sender string) (*auth.TokenInfo, error) {
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
		q := t.asking[hash]
		if q == nil {
			q = &question{done: make(chan struct{})}
			t.asking[hash] = q
			t.mu.Unlock()
			t.settle(ctx, q, hash, token, sender, wasGood)
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

// settle waits for a turn, asks, and caches the answer. Once a question has its turn, it runs to completion even if
// the request ends, because other requests may wait for it.
func (t *tokens) settle(ctx context.Context, q *question, hash tokenHash, token, sender string, wasGood bool) {
	var info *auth.TokenInfo
	err, turn := errUnavailable, t.gate.enter(ctx, sender, wasGood)
	defer func() { t.finish(q, hash, turn, info, err) }() // also after a panic of Options.Verify
	if turn != entered {
		return
	}
	defer t.gate.leave()
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	info, err = t.ask(asking, token)
}

// finish caches the outcome of a question and wakes the requests that wait for it.
func (t *tokens) finish(q *question, hash tokenHash, turn outcome, info *auth.TokenInfo, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer close(q.done)
	delete(t.asking, hash)
	q.err = errUnavailable
	if turn != entered {
		if q.left = turn == abandoned; !q.left {
			t.reportOverload()
		}
		return
	}
	now, invalid := time.Now(), errors.Is(err, auth.ErrInvalidToken)
	if err != nil && !invalid {
		t.report(err)
		return
	}
	t.report(nil)
	if invalid || info == nil || !info.Expiration.IsZero() && !info.Expiration.After(now) {
		t.good.remove(hash)
		t.bad.put(hash, answer{until: now.Add(keepBad)})
		q.err = auth.ErrInvalidToken
		return
	}
	kept := *info
	if kept.Expiration.IsZero() {
		kept.Expiration = now.Add(lifeWithout)
	}
	until := now.Add(keepGood)
	if kept.Expiration.Before(until) {
		until = kept.Expiration
	}
	t.good.put(hash, answer{info: &kept, until: until})
	q.info, q.err = &kept, nil
}

// report logs a change of the authorization server's state. The caller holds mu.
func (t *tokens) report(err error) {
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

// reportOverload logs that a token was refused because of overload, at most once per overloadLog. The caller holds mu.
func (t *tokens) reportOverload() {
	if now := time.Now(); now.Sub(t.overload) >= overloadLog {
		t.overload = now
		t.logger.Warn("unknown access tokens arrive faster than they can be checked; some got status 503")
	}
}

// An answer is a cached result. A good answer stays after it has expired, so that its renewal goes first.
type answer struct {
	info  *auth.TokenInfo
	until time.Time
}

// A cache keeps the latest maxAnswers answers.
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
