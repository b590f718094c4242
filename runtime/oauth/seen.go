package oauth

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

const (
	// maxSeen is the maximum number of remembered subjects and tokens together, and maxSeenOfSubject is the maximum
	// number of remembered tokens of one subject.
	maxSeen, maxSeenOfSubject = 20_000, 16
	// maxRechecks is the maximum number of concurrent checks that Authorize starts. The other turns are for requests.
	maxRechecks = 8
	// recheckWait is the maximum time that a call of Authorize waits, because a stream sends nothing meanwhile.
	recheckWait = 3 * time.Second
	// After maxFailures failed rechecks in succession, Authorize starts none for failurePause.
	maxFailures, failurePause = 3, 30 * time.Second
	// expiryLeeway is the maximum difference between the clocks of this server and the authorization server.
	expiryLeeway = time.Minute
)

// Authorize refuses a principal whose access tokens were revoked. Set server.Options.Authorize to it: the server then
// ends the principal's streams, pollers and webhook subscriptions, which continue without further requests.
//
// Authorize knows the valid tokens that the principal has recently presented to this Resource, and checks them at most
// once a minute. It refuses the principal if a token was revoked and no other one is valid. A token is revoked if a
// check finds it invalid, or without one of [Options.Scopes], more than a minute before its expiry. Expired tokens are not checked, so Authorize does not
// notice that they were revoked. A principal whose tokens are unknown is allowed, for example after a restart, and so is
// a principal whose tokens cannot be checked at the moment. [Options.Verify] reveals only what it checks: the signature
// of a JWT remains valid after the token was revoked.
//
// The principal must be the subject of the tokens, as it is unless server.Options.Principal derives another one.
func (r *Resource) Authorize(ctx context.Context, principal, _ string, _ json.RawMessage) error {
	if r.tokens.isRevoked(ctx, principal) {
		return events.Forbidden("access token revoked")
	}
	return nil
}

// isRevoked reports whether a token of the subject was revoked and no other one is valid. It checks the tokens whose
// last result is older than goodTTL.
func (t *tokenChecker) isRevoked(ctx context.Context, name string) bool {
	var limit <-chan time.Time
	for {
		t.mu.Lock()
		now := time.Now()
		s := t.seen.subject(name, now)
		if s == nil || len(s.tokens) == 0 || s.hasFresh(now) || now.Before(t.pausedUntil) {
			revoked := s != nil && len(s.tokens) == 0 && s.revoked
			t.mu.Unlock()
			return revoked
		}
		c := t.startRecheck(ctx, s.tokens[len(s.tokens)-1])
		t.mu.Unlock()
		if limit == nil {
			limit = time.After(recheckWait)
		}
		select {
		case <-c.done:
			if c.failed {
				return false
			}
		case <-limit:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// A recheck is a check of a remembered token, for which several calls of Authorize may wait.
type recheck struct {
	done   chan struct{} // closed when failed is set
	failed bool
}

// startRecheck checks a token in the background, unless a recheck of it is in progress. The caller holds mu.
//
// A Resource has no Close, so nothing waits for the goroutine. It ends after its turn: maxRechecks run concurrently, and
// each takes at most queueTimeout and checkTimeout if Options.Verify respects its context. There is at most one per
// remembered token.
func (t *tokenChecker) startRecheck(ctx context.Context, s *seenToken) *recheck {
	if s.recheck != nil {
		return s.recheck
	}
	c := &recheck{done: make(chan struct{}), failed: true}
	s.recheck = c
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer func() {
			if p := recover(); p != nil { // of Options.Verify
				t.logger.ErrorContext(ctx, "checking an access token panicked", "panic", p)
			}
			t.mu.Lock()
			defer t.mu.Unlock()
			if s.recheck = nil; !c.failed {
				t.failures = 0
			} else if t.failures++; t.failures >= maxFailures {
				t.pausedUntil = time.Now().Add(failurePause)
			}
			close(c.done)
		}()
		t.rechecks <- struct{}{}
		defer func() { <-t.rechecks }()
		_, err := t.verify(ctx, s.text, "")
		c.failed = errors.Is(err, errUnavailable)
	}()
	return c
}

// A seenToken is a token that was valid when it was last checked.
type seenToken struct {
	text    string
	hash    tokenHash
	until   time.Time // the result is not checked again before
	expires time.Time // zero if unknown
	recheck *recheck  // in progress, or nil
}

// A subject has the tokens that it has presented.
type subject struct {
	name    string
	tokens  []*seenToken // the most recently checked last
	revoked bool         // a token was revoked, and no check has found a valid one since
}

func (s *subject) hasFresh(now time.Time) bool {
	return slices.ContainsFunc(s.tokens, func(k *seenToken) bool { return now.Before(k.until) })
}

// seenTokens remembers valid tokens by subject. Only valid tokens are added, so senders of junk tokens cannot fill it.
type seenTokens struct {
	subjects map[string]*list.Element    // of order, whose values are *subject
	byHash   map[tokenHash]*list.Element // as in subjects
	order    list.List                   // the subject of the most recent valid token last
}

func newSeenTokens() *seenTokens {
	return &seenTokens{subjects: map[string]*list.Element{}, byHash: map[tokenHash]*list.Element{}}
}

// subject returns the subject without its expired tokens, or nil if it is unknown.
func (m *seenTokens) subject(name string, now time.Time) *subject {
	e := m.subjects[name]
	if e == nil {
		return nil
	}
	s := e.Value.(*subject)
	m.removeTokens(s, func(k *seenToken) bool { return !k.expires.IsZero() && !k.expires.After(now) })
	return s
}

// addValid adds a token that was found valid, or updates it. If there are too many, the subjects whose tokens were added
// or updated first are removed. A token without a subject is not added.
func (m *seenTokens) addValid(name string, k seenToken) {
	if name == "" {
		return
	}
	e := m.subjects[name]
	if e == nil {
		e = m.order.PushBack(&subject{name: name})
		m.subjects[name] = e
	}
	m.order.MoveToBack(e)
	if old := m.byHash[k.hash]; old != nil {
		m.removeToken(old.Value.(*subject), k.hash)
	}
	s := e.Value.(*subject)
	s.tokens, s.revoked = append(s.tokens, &k), false
	m.byHash[k.hash] = e
	if len(s.tokens) > maxSeenOfSubject {
		m.removeToken(s, s.tokens[0].hash)
	}
	for len(m.byHash)+len(m.subjects) > maxSeen {
		oldest := m.order.Remove(m.order.Front()).(*subject)
		m.removeTokens(oldest, func(*seenToken) bool { return true })
		delete(m.subjects, oldest.name)
	}
}

// removeInvalid removes a token that was found invalid. The token was revoked unless it is about to expire.
func (m *seenTokens) removeInvalid(hash tokenHash, now time.Time) {
	e := m.byHash[hash]
	if e == nil {
		return
	}
	s := e.Value.(*subject)
	m.removeTokens(s, func(k *seenToken) bool {
		if k.hash == hash && (k.expires.IsZero() || k.expires.After(now.Add(expiryLeeway))) {
			s.revoked = true
		}
		return k.hash == hash
	})
}

func (m *seenTokens) removeToken(s *subject, hash tokenHash) {
	m.removeTokens(s, func(k *seenToken) bool { return k.hash == hash })
}

func (m *seenTokens) removeTokens(s *subject, which func(*seenToken) bool) {
	s.tokens = slices.DeleteFunc(s.tokens, func(k *seenToken) bool {
		remove := which(k)
		if remove {
			delete(m.byHash, k.hash)
		}
		return remove
	})
}
