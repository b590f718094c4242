package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
)

func verifyJWT(_ context.Context, token string) (*auth.TokenInfo, error) {
	switch token {
	case "jwt":
		return &auth.TokenInfo{UserID: "ada"}, nil
	case "expired":
		return &auth.TokenInfo{UserID: "ada", Expiration: time.Now().Add(-time.Second)}, nil
	case "none":
		return nil, nil
	case "broken":
		return nil, errors.New("fetching keys of the issuer: timeout")
	case "panic":
		panic(token)
	}
	return nil, fmt.Errorf("signature: %w", auth.ErrInvalidToken)
}

// TestJunkRefusesNobody (AUTH-3): 20 users of good tokens connect through one proxy, which also passes 35 junk tokens
// every 10 seconds for 5 minutes. No good request is refused, neither of them nor of users who were never seen before.
func TestJunkRefusesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, nil)
		e.delay = 50 * time.Millisecond
		var all sync.WaitGroup
		var good atomic.Int32
		for round := range 30 {
			for n := range 35 {
				all.Go(func() {
					if got := e.get(t, "/mcp", fmt.Sprintf("junk-%d-%d", round, n), proxy); got.Code != http.StatusUnauthorized {
						t.Errorf("junk: status %d", got.Code)
					}
				})
			}
			users := []string{fmt.Sprint("newcomer-", round)}
			for n := range 20 {
				users = append(users, fmt.Sprint("user-", n))
			}
			for _, user := range users {
				e.answer(user, active(exp(time.Hour)))
				all.Go(func() {
					if got := e.get(t, "/mcp", user, proxy); got.Code != http.StatusOK {
						t.Errorf("%s in round %d: status %d", user, round, got.Code)
					}
					good.Add(1)
				})
			}
			time.Sleep(10 * time.Second)
		}
		all.Wait()
		if good.Load() != 30*21 {
			t.Errorf("%d good requests", good.Load())
		}
		if e.most > defaultRunning {
			t.Errorf("%d introspections at a time, want at most %d", e.most, defaultRunning)
		}
	})
}

// TestUnseenUnderJunk: users whose tokens were never seen come during a flood that is more than the authorization server
// can answer. At the same address some are refused, and the others do not wait long. Outside of the flood's network none is.
func TestUnseenUnderJunk(t *testing.T) {
	for name, c := range map[string]struct {
		delay   time.Duration
		junk    int // a second
		from    func(n int) string
		refused int32
		wait    time.Duration
	}{
		"the same address":  {500 * time.Millisecond, 100, func(int) string { return proxy }, 13, 5 * time.Second},
		"a network of IPv6": {100 * time.Millisecond, 1000, func(n int) string { return fmt.Sprintf("[2001:db8:7:%x::1]", n%1000) }, 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEndpoint(t, nil)
				e.delay = c.delay
				user := proxy
				if c.refused == 0 {
					user = e.stranger("2001:db8:7::/48")
				}
				var all sync.WaitGroup
				var refused atomic.Int32
				var waited atomic.Int64 // of all users who got an answer
				end := time.Now().Add(15 * time.Second)
				all.Go(func() {
					for n := 0; time.Now().Before(end); n++ {
						all.Go(func() { e.get(t, "/mcp", fmt.Sprint("junk", n), c.from(n)) })
						time.Sleep(time.Second / time.Duration(c.junk))
					}
				})
				for n := range 20 {
					time.Sleep(600 * time.Millisecond)
					token := fmt.Sprint("user", n)
					e.answer(token, active(""))
					all.Go(func() {
						began := time.Now()
						if e.get(t, "/mcp", token, user).Code != http.StatusOK {
							refused.Add(1)
							return
						}
						waited.Add(int64(time.Since(began)))
					})
				}
				all.Wait()
				if refused.Load() > c.refused {
					t.Errorf("%d of 20 refused, want at most %d", refused.Load(), c.refused)
				}
				if mean := time.Duration(waited.Load() / int64(20-refused.Load())); mean > c.wait {
					t.Errorf("the others waited for %v, want at most %v", mean, c.wait)
				}
			})
		})
	}
}

// TestFloodDelaysItself: a flood of junk from one address at a slow authorization server delays a user elsewhere by a
// few turns, and users with a token that was good before by one; the flood itself waits.
func TestFloodDelaysItself(t *testing.T) {
	for name, sender := range map[string]func(*http.Request) string{
		"by address": nil,
		"by the header of a proxy": func(r *http.Request) string {
			return r.Header.Get("X-Real-Ip")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEndpoint(t, func(o *Options) { o.Sender = sender })
				get := func(token, from string) int {
					r, w := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/mcp", nil), httptest.NewRecorder()
					r.Header.Set("Authorization", "Bearer "+token)
					r.Header.Set("X-Real-Ip", from)
					if r.RemoteAddr = from + ":1"; sender != nil {
						r.RemoteAddr = proxy + ":1"
					}
					e.mux.ServeHTTP(w, r)
					return w.Code
				}
				e.answer("known", active(""))
				e.answer("newcomer", active(""))
				get("known", "192.0.2.66")
				time.Sleep(goodTTL)
				e.delay = time.Second
				flood, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				var refused atomic.Int32
				for n := range 2 * maxWaiting {
					all.Go(func() {
						r, w := httptest.NewRequestWithContext(flood, http.MethodGet, "/mcp", nil), httptest.NewRecorder()
						r.Header.Set("Authorization", fmt.Sprint("Bearer junk", n))
						r.Header.Set("X-Real-Ip", "192.0.2.66")
						r.RemoteAddr = "192.0.2.66:1"
						if sender != nil {
							r.RemoteAddr = proxy + ":1"
						}
						if e.mux.ServeHTTP(w, r); w.Code == http.StatusServiceUnavailable && flood.Err() == nil {
							refused.Add(1)
						}
					})
				}
				synctest.Wait()
				if n := refused.Load(); n != maxWaiting-defaultRunning {
					t.Errorf("%d of the flood are refused for want of room, want %d", n, maxWaiting-defaultRunning)
				}
				for token, from := range map[string]string{"known": "192.0.2.66", "newcomer": e.stranger("192.0.2.66")} {
					start := time.Now()
					if code := get(token, from); code != http.StatusOK {
						t.Errorf("%s: status %d", token, code)
					}
					if d := time.Since(start); d > 3*time.Second {
						t.Errorf("%s waited for %v", token, d)
					}
				}
				stop()
				all.Wait()
				if code := get("newcomer", "192.0.2.66"); code != http.StatusOK {
					t.Errorf("after the flood: status %d", code)
				}
			})
		})
	}
}

// TestWaitIsBounded: behind a hanging authorization server every request is answered, and one whose sender has gone
// away leaves its place to the next with the same token.
func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, nil)
		var all sync.WaitGroup
		for n := range 3 * defaultRunning {
			e.answer(fmt.Sprint("t", n), func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
			all.Go(func() {
				start := time.Now()
				if got := e.get(t, "/mcp", fmt.Sprint("t", n), proxy); got.Code != http.StatusServiceUnavailable {
					t.Errorf("status %d", got.Code)
				}
				if d := time.Since(start); d > queueTimeout+checkTimeout {
					t.Errorf("answered after %v", d)
				}
			})
		}
		time.Sleep(time.Second)
		gone, leave := context.WithCancel(t.Context())
		all.Go(func() {
			r := httptest.NewRequestWithContext(gone, http.MethodGet, "/mcp", nil)
			r.Header.Set("Authorization", "Bearer shared")
			e.mux.ServeHTTP(httptest.NewRecorder(), r)
		})
		synctest.Wait()
		e.answer("shared", active(""))
		all.Go(func() {
			if got := e.get(t, "/mcp", "shared", e.stranger(proxy)); got.Code != http.StatusOK {
				t.Errorf("the second request with a token whose first one went away: status %d", got.Code)
			}
		})
		synctest.Wait()
		leave()
		all.Wait()
	})
}

// TestMemoryIsBounded: junk evicts junk, never a good token.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEndpoint(t, nil)
		e.answer("known", active(""))
		e.get(t, "/mcp", "known", proxy)
		e.get(t, "/mcp", "junk", proxy)
		for n := range maxAnswers {
			e.get(t, "/mcp", fmt.Sprint("junk-", n), proxy)
		}
		for token, want := range map[string]int32{"known": 0, "junk-9999": 0, "junk": 1} {
			before := e.asked.Load()
			e.get(t, "/mcp", token, proxy)
			if n := e.asked.Load() - before; n != want {
				t.Errorf("%s: asked %d times, want %d", token, n, want)
			}
		}
	})
}
