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
	// askTime limits one question about a token, after waitTime in the queue.
	askTime, waitTime = 10 * time.Second, 10 * time.Second
	// keepGood and keepBad are how long an answer is cached: a revoked token stays valid for that long.
	keepGood, keepBad = time.Minute, 10 * time.Second
	// lifeWithout limits a stream whose token has no expiry.
	lifeWithout = 10 * time.Minute
	// maxAnswers bounds each of the two caches.
	maxAnswers = 10_000
	// maxToken bounds a token, in bytes.
	maxToken = 8 << 10
	// overloadLog is the least time between two messages about refused tokens.
	overloadLog = time.Minute
)

// errUnavailable is the error for a token that cannot be checked. Anybody may see its text; the cause is in the log.
var errUnavailable = errors.New("tokens cannot be checked now")

// A tokenHash identifies a token, so that no token is kept.
type tokenHash [sha256.Size]byte

// tokens caches what the authorization server says about tokens, and asks it.
type tokens struct {
	ask    func(context.Context, string) (*auth.TokenInfo, error)
	logger *slog.Logger
	gate   *gate

	mu       sync.Mutex
	good     *cache
	bad      *cache
	asking   map[tokenHash]*question
	trouble  string    // text of the last error of ask, "" after an answer
	overload time.Time // of the last message about it
}

func newTokens(ask func(context.Context, string) (*auth.TokenInfo, error), logger *slog.Logger) *tokens {
	return &tokens{ask: ask, logger: logger, gate: newGate(), good: newCache(), bad: newCache(), asking: map[tokenHash]*question{}}
}

// A question is a token whose answer several requests wait for. The request that came first asks it.
type question struct {
	done chan struct{} // closed when the fields below are set
	info *auth.TokenInfo
	err  error
	left bool // the asking request ended before its turn: the next one asks
}

// verify returns what is known about a token, and asks if nothing is: once for all concurrent requests with it. Its error
// is auth.ErrInvalidToken or errUnavailable.
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

// settle waits for a turn, asks, and caches the answer. A question that got its turn runs to its end even if the
// request goes away: others may wait for it.
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

// finish caches what came of a question and answers all who wait for it.
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

// reportOverload logs that a token found no place or no turn, at most once per overloadLog. The caller holds mu.
func (t *tokens) reportOverload() {
	if now := time.Now(); now.Sub(t.overload) >= overloadLog {
		t.overload = now
		t.logger.Warn("unknown access tokens arrive faster than they can be checked; some got status 503")
	}
}

// An answer is a cached result. A good one stays after its time, so that renewing it goes first.
type answer struct {
	info  *auth.TokenInfo
	until time.Time
}

// A cache keeps the latest maxAnswers answers.
type cache struct {
	entries map[tokenHash]*list.Element // of order, whose values are *cached
	order   *list.List                  // the oldest first
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
