package server

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/port"
)

// SUB-6: with EndWithToken a subscription ends with the token of the call that made or refreshed it, also before
// MinTTL, and nothing is delivered after that. Without the option, and with a token that does not expire, the terms
// alone count.
func TestSUB6GrantEndsWithToken(t *testing.T) {
	for _, row := range []struct {
		name    string
		end     bool
		token   time.Duration // 0: it does not expire
		ttl     string
		want    time.Duration
		refresh time.Duration // token of a refresh; 0: none
		after   time.Duration // what is granted by it
	}{
		{"short token", true, 6 * time.Second, "3600000", 6 * time.Second, 0, 0},
		{"long token", true, 3 * time.Hour, "3600000", time.Hour, 0, 0},
		{"no expiry wished", true, 10 * time.Minute, "null", 10 * time.Minute, 0, 0},
		{"token without an end", true, 0, "3600000", time.Hour, 0, 0},
		{"refreshed with a new token", true, 10 * time.Minute, "3600000", 10 * time.Minute, 20 * time.Minute, 20 * time.Minute},
		{"refreshed with an older token", true, 10 * time.Minute, "3600000", 10 * time.Minute, 2 * time.Minute, 2 * time.Minute},
		{"without the option", false, 6 * time.Second, "3600000", time.Hour, 0, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			change := func(o *Options) { o.webhook().EndWithToken, o.webhook().AllowNoExpiry = row.end, false }
			bubble(t, change, func(t *testing.T, w *world) {
				e := register(t, w.Server, "e", Hooks[filterArgs, incident]{})
				subscribe := func(token time.Duration) time.Duration {
					t.Helper()
					q := port.Request{Method: wire.MethodSubscribe, Principal: "alice", Stateless: true,
						Params: json.RawMessage(params(plain, secretA, fmt.Sprintf(`,"ttlMs":%s`, row.ttl)))}
					if token > 0 {
						q.Expires = time.Now().Add(token)
					}
					raw, err := w.inside().Call(context.Background(), q)
					var s subscribed
					if err == nil {
						err = json.Unmarshal(raw, &s)
					}
					if err != nil {
						t.Fatal(err)
					}
					return s.until(t).Round(time.Second)
				}
				granted := row.want
				if got := subscribe(row.token); got != row.want {
					t.Fatalf("granted %v, want %v", got, row.want)
				}
				if row.refresh > 0 {
					granted = row.after
					if got := subscribe(row.refresh); got != row.after {
						t.Fatalf("refreshed for %v, want %v", got, row.after)
					}
				}
				w.settle(granted - 2*time.Second)
				emit(t, e, incident{ID: "before"})
				w.settle(3 * time.Second)
				if got := w.r.last().short(); got != "before" {
					t.Errorf("before the end: %s", got)
				}
				emit(t, e, incident{ID: "after"})
				w.settle(time.Minute)
				if got := w.r.last().short(); got != "before" {
					t.Errorf("after the end: %s", got)
				}
			})
		})
	}
}
