package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/eventstest"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
)

// reauthorize is the default of server.Options.Reauthorize.
const reauthorize = 5 * time.Minute

// present sends a request with a token and fails the test if the status is another one.
func (e *endpoint) present(t *testing.T, token string, want int) {
	t.Helper()
	if got := e.get(t, "/mcp", token, proxy); got.Code != want {
		t.Errorf("%s: status %d, want %d", token, got.Code, want)
	}
}

// recheck calls Authorize for ada, and returns whether it refused and how many tokens it checked.
func (e *endpoint) recheck(t *testing.T) (refused bool, asked int32) {
	t.Helper()
	before := e.asked.Load()
	err := e.resource.Authorize(t.Context(), "ada", "note.added", nil)
	if err != nil && !errors.Is(err, events.ErrForbidden) {
		t.Errorf("Authorize returned %v", err)
	}
	return err != nil, e.asked.Load() - before
}

func inactive(*http.Request) (*http.Response, error) {
	return answering(http.StatusOK, `{"active":false}`)(nil)
}

// TestAuthorize: ada presents tokens, then something happens to them, and the server asks again after 5 minutes.
func TestAuthorize(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens map[string]time.Duration // lifetimes, 0 for tokens without an expiry
		then   func(t *testing.T, e *endpoint)
		refuse bool
		asked  int32
	}{
		{"valid", map[string]time.Duration{"a": time.Hour}, nil, false, 1},
		{"unknown", nil, nil, false, 0},
		{"revoked", map[string]time.Duration{"a": time.Hour}, func(_ *testing.T, e *endpoint) { e.answer("a", nil) }, true, 1},
		{"revoked, without an expiry", map[string]time.Duration{"a": 0}, func(_ *testing.T, e *endpoint) { e.answer("a", nil) }, true, 1},
		{"without an expiry", map[string]time.Duration{"a": 0}, nil, false, 1},
		{"without its scope", map[string]time.Duration{"a": time.Hour}, func(_ *testing.T, e *endpoint) {
			e.answer("a", answering(http.StatusOK, `{"active":true,"sub":"ada","aud":"`+resource+`"}`))
		}, true, 1},
		{"both revoked", map[string]time.Duration{"a": time.Hour, "b": time.Hour}, func(_ *testing.T, e *endpoint) {
			e.answer("a", nil)
			e.answer("b", nil)
		}, true, 2},
		{"one of two revoked", map[string]time.Duration{"a": time.Hour, "b": time.Hour}, func(t *testing.T, e *endpoint) {
			e.answer("a", nil)
			time.Sleep(2 * goodTTL)
			e.present(t, "a", http.StatusUnauthorized)
		}, false, 1},
		{"expired", map[string]time.Duration{"a": reauthorize}, nil, false, 0},
		{"about to expire", map[string]time.Duration{"a": reauthorize + expiryLeeway}, func(_ *testing.T, e *endpoint) { e.answer("a", nil) }, false, 1},
		{"revoked, found by a request", map[string]time.Duration{"a": time.Hour}, func(t *testing.T, e *endpoint) {
			e.answer("a", nil)
			time.Sleep(2 * goodTTL)
			e.present(t, "a", http.StatusUnauthorized)
		}, true, 0},
		{"one revoked, the other one expired", map[string]time.Duration{"a": time.Hour, "b": reauthorize}, func(t *testing.T, e *endpoint) {
			e.answer("a", nil)
			time.Sleep(2 * goodTTL)
			e.present(t, "a", http.StatusUnauthorized)
		}, true, 0},
		{"revoked, and then a new one", map[string]time.Duration{"a": time.Hour}, func(t *testing.T, e *endpoint) {
			e.answer("a", nil)
			time.Sleep(2 * goodTTL)
			e.present(t, "a", http.StatusUnauthorized)
			e.answer("new", active(exp(reauthorize-2*goodTTL)))
			e.present(t, "new", http.StatusOK)
		}, false, 0},
		{"the token of another subject revoked", map[string]time.Duration{"a": time.Hour}, func(t *testing.T, e *endpoint) {
			e.answer("bob's", answering(http.StatusOK, `{"active":true,"sub":"bob","scope":"events","aud":"`+resource+`"}`))
			e.present(t, "bob's", http.StatusOK)
			e.answer("bob's", nil)
			time.Sleep(2 * goodTTL)
			e.present(t, "bob's", http.StatusUnauthorized)
		}, false, 1},
		{"issuer away", map[string]time.Duration{"a": time.Hour}, func(_ *testing.T, e *endpoint) {
			e.answer("a", answering(http.StatusBadGateway, ""))
		}, false, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEndpoint(t, func(o *Options) { o.Scopes = []string{"events"} })
				start := time.Now()
				for token, lifetime := range c.tokens {
					e.answer(token, active(""))
					if lifetime > 0 {
						e.answer(token, active(exp(lifetime)))
					}
					e.present(t, token, http.StatusOK)
				}
				if refused, asked := e.recheck(t); refused || asked > 0 {
					t.Errorf("at once: refused is %v, %d checks", refused, asked)
				}
				if c.then != nil {
					c.then(t, e)
				}
				time.Sleep(reauthorize - time.Since(start))
				if refused, asked := e.recheck(t); refused != c.refuse || asked != c.asked {
					t.Errorf("refused is %v after %d checks, want %v after %d", refused, asked, c.refuse, c.asked)
				}
				if logged := strings.Contains(e.log.String(), "cannot check access tokens"); logged != (c.name == "issuer away") {
					t.Errorf("the log is %q", e.log)
				}
				if refused, asked := e.recheck(t); refused != c.refuse || asked > 0 && c.name != "issuer away" {
					t.Errorf("again: refused is %v after %d checks", refused, asked)
				}
			})
		})
	}
}

// TestAuthorizeWithVerify calls Options.Verify again. Its panic does not end the process.
func TestAuthorizeWithVerify(t *testing.T) {
	for name, c := range map[string]struct {
		verify func() (*auth.TokenInfo, error)
		refuse bool
	}{
		"signature":       {func() (*auth.TokenInfo, error) { return &auth.TokenInfo{UserID: "ada"}, nil }, false},
		"revocation list": {func() (*auth.TokenInfo, error) { return nil, auth.ErrInvalidToken }, true},
		"another subject": {func() (*auth.TokenInfo, error) { return &auth.TokenInfo{UserID: "eve"}, nil }, false},
		"panic":           {func() (*auth.TokenInfo, error) { panic("out of order") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int32
				e := newEndpoint(t, func(o *Options) {
					o.Introspection = ""
					o.Verify = func(context.Context, string) (*auth.TokenInfo, error) {
						if calls.Add(1) == 1 {
							return &auth.TokenInfo{UserID: "ada"}, nil
						}
						return c.verify()
					}
				})
				e.present(t, "a", http.StatusOK)
				time.Sleep(reauthorize)
				if refused, _ := e.recheck(t); refused != c.refuse || calls.Load() != 2 {
					t.Errorf("refused is %v after %d calls of Verify, want %v after 2", refused, calls.Load(), c.refuse)
				}
				if logged := strings.Contains(e.log.String(), "out of order"); logged != (name == "panic") {
					t.Errorf("the log is %q", e.log)
				}
			})
		})
	}
}

// TestAuthorizeDoesNotWait: a slow issuer delays a call by 3 seconds. The call allows the principal, and the next one
// knows the result.
func TestAuthorizeDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, nil)
		e.answer("a", active(""))
		e.present(t, "a", http.StatusOK)
		e.delay = 2 * recheckWait
		e.answer("a", nil)
		time.Sleep(reauthorize)
		start := time.Now()
		if refused, _ := e.recheck(t); refused || time.Since(start) != recheckWait {
			t.Errorf("refused is %v after %v", refused, time.Since(start))
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := e.resource.Authorize(ended, "ada", "note.added", nil); err != nil || time.Since(start) != recheckWait {
			t.Errorf("a caller who went away: %v after %v", err, time.Since(start))
		}
		time.Sleep(recheckWait)
		synctest.Wait()
		if refused, asked := e.recheck(t); !refused || asked > 0 {
			t.Errorf("later: refused is %v after %d checks", refused, asked)
		}
	})
}

// TestRechecksLoad: rechecks of many subscriptions and principals leave turns for requests, and stop while the issuer
// is away.
func TestRechecksLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, nil)
		const principals = 300
		say := func(more string, n int) func(*http.Request) (*http.Response, error) {
			return answering(http.StatusOK, fmt.Sprintf(`{"active":true,"sub":"user-%d","aud":%q%s}`, n, resource, more))
		}
		for n := range principals {
			e.answer(fmt.Sprint("t", n), say("", n))
			e.present(t, fmt.Sprint("t", n), http.StatusOK)
		}
		authorize := func(n int) {
			if err := e.resource.Authorize(t.Context(), fmt.Sprint("user-", n), "note.added", nil); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(reauthorize)
		e.asked.Store(0)
		e.most, e.delay = 0, 50*time.Millisecond
		var all sync.WaitGroup
		for n := range principals {
			for range 10 {
				all.Go(func() { authorize(n) })
			}
		}
		all.Wait()
		if asked := e.asked.Load(); asked != principals || e.most != maxRechecks {
			t.Errorf("%d subscriptions of %d tokens: %d checks, %d at a time", 10*principals, principals, asked, e.most)
		}

		for n := range principals {
			e.answer(fmt.Sprint("t", n), answering(http.StatusBadGateway, ""))
		}
		time.Sleep(reauthorize)
		for _, want := range []int32{maxFailures, 1, 1} {
			e.asked.Store(0)
			for n := range principals {
				authorize(n)
			}
			if asked := e.asked.Load(); asked != want {
				t.Errorf("%d checks while the issuer is away, want %d", asked, want)
			}
			time.Sleep(failurePause)
		}
		e.answer("t0", say("", 0))
		e.answer("t1", inactive)
		authorize(0)
		if err := e.resource.Authorize(t.Context(), "user-1", "note.added", nil); err == nil {
			t.Error("after the issuer is back, a revoked principal is allowed")
		}
	})
}

// TestSeenTokensAreBounded: junk adds nothing, a subject keeps its latest tokens, and the oldest subjects are removed.
func TestSeenTokensAreBounded(t *testing.T) {
	e := newEndpoint(t, nil)
	m := e.resource.tokens.seen
	for n := range 100 {
		e.present(t, fmt.Sprint("junk-", n), http.StatusUnauthorized)
	}
	e.answer("of-nobody", answering(http.StatusOK, `{"active":true,"aud":"`+resource+`"}`))
	e.present(t, "of-nobody", http.StatusUnauthorized)
	if len(m.subjects)+len(m.byHash)+m.order.Len() != 0 {
		t.Errorf("invalid tokens added %d subjects, %d tokens", len(m.subjects), len(m.byHash))
	}
	now := time.Now()
	add := func(name string, n int) {
		m.addValid(name, seenToken{text: "t", hash: tokenHash{byte(n), byte(n >> 8), byte(n >> 16), name[0]}})
	}
	m.addValid("", seenToken{})
	for n := range 3 * maxSeenOfSubject {
		add("ada", n)
	}
	ada := m.subject("ada", now)
	if len(ada.tokens) != maxSeenOfSubject || ada.tokens[maxSeenOfSubject-1].hash[0] != 3*maxSeenOfSubject-1 || len(m.byHash) != maxSeenOfSubject {
		t.Errorf("ada has %d tokens of %d", len(ada.tokens), len(m.byHash))
	}
	for n := range maxSeen {
		add(fmt.Sprint("bob-", n), n)
		if n == maxSeen/4 {
			add("ada", 1)
		}
		if got := len(m.subjects) + len(m.byHash); got > maxSeen || m.order.Len() != len(m.subjects) {
			t.Fatalf("%d subjects and tokens, %d subjects in order", got, m.order.Len())
		}
		if n == maxSeen/2 && (m.subject("ada", now) == nil || m.subject("bob-0", now) != nil) {
			t.Error("the subject of the latest token was removed before an older one")
		}
	}
	if m.subject("ada", now) != nil || len(m.subjects) != maxSeen/2 {
		t.Errorf("%d subjects at the end", len(m.subjects))
	}
}

// TestRevocationEndsSubscriptions (AUTH-2): a token with an hour to live is revoked while a stream and a webhook
// subscription of its principal exist. Both end within Reauthorize and a minute.
func TestRevocationEndsSubscriptions(t *testing.T) {
	for _, mode := range []string{events.ModePush, events.ModeWebhook} {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEndpoint(t, nil)
				e.answer("a", active(exp(time.Hour)))
				e.present(t, "a", http.StatusOK)
				hooks := eventstest.NewWebhooks(t)
				es := eventstest.NewServer(t, hooks.ServerOptions, func(o *server.Options) { o.Authorize = e.resource.Authorize })
				emitter := eventstest.Register[note](t, es, "note.added")
				c := eventstest.NewClient(t, es, hooks.ClientOptions, func(o *eventstest.Options) { o.Principal = "ada" })
				sub := eventstest.Subscribe(t, c, subscribeNote, struct{}{}, client.WithMode(mode))
				for range 14 { // two rechecks
					time.Sleep(50 * time.Second)
					eventstest.Emit(t, emitter, note{"before"})
					sub.Next(10 * time.Second) // webhooks are sent again after 5 s
				}
				e.answer("a", nil)
				revoked := time.Now()
				err := sub.Err(time.Hour)
				if !errors.Is(err, events.ErrForbidden) {
					t.Errorf("the subscription ended with %v", err)
				}
				if d := time.Since(revoked); d > reauthorize+goodTTL {
					t.Errorf("the subscription ended %v after the revocation", d)
				}
			})
		})
	}
}

type note struct {
	Text string `json:"text"`
}

func subscribeNote(ctx context.Context, c *client.Client, args struct{}, o ...client.SubscribeOption) (*client.TypedSubscription[struct{}, note], error) {
	return client.Subscribe(ctx, c, events.Type[struct{}, note]{Info: events.Info{Name: "note.added"}}, args, o...)
}
