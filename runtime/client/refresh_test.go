package client

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
)

// gaps are the times between the subscribe calls.
func gaps(calls []subscribeCall) []time.Duration {
	var all []time.Duration
	for i := 1; i < len(calls); i++ {
		all = append(all, calls[i].at.Sub(calls[i-1].at))
	}
	return all
}

// CLI-5: a subscription is refreshed after about two thirds of what was granted, whatever was asked
// for and whatever the server's clock says; each refresh carries the cursor.
func TestCLI5Refresh(t *testing.T) {
	const unlimited = -1
	for _, tt := range []struct {
		name      string
		ask       time.Duration
		grant     time.Duration
		skew      time.Duration
		low, high time.Duration
		ttlMs     string
	}{
		{"the default", 0, 24 * time.Hour, 0, 18 * time.Minute, 20 * time.Minute, "1800000"},
		{"less granted", time.Hour, 10 * time.Minute, 0, 6 * time.Minute, 400 * time.Second, "3600000"},
		{"a server ahead", time.Hour, time.Hour, 5 * time.Hour, 36 * time.Minute, 40 * time.Minute, "3600000"},
		{"a server behind", time.Hour, time.Hour, -2 * time.Hour, 36 * time.Second, 40 * time.Second, "3600000"},
		{"no expiry", -1, unlimited, 0, time.Hour, time.Hour, "null"},
		{"no expiry refused", -1, time.Hour, 0, 36 * time.Minute, 40 * time.Minute, "null"},
		{"a day and more", 100 * 24 * time.Hour, 100 * 24 * time.Hour, 0, 24 * time.Hour, 24 * time.Hour, "8640000000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, cl := hooked(t, carriers[1], Options{Webhook: &WebhookOptions{TTL: tt.ask}})
				h.ttl, h.skew = tt.grant, tt.skew
				s := subscribe(t, cl, WithCursor("c0"))
				time.Sleep(tt.high/2 + time.Second)
				h.emit(1)
				h.deliver()
				read(t, s).want("e1")
				lists := len(h.f.sent(wire.MethodList))
				time.Sleep(4 * tt.high)
				calls := h.calls()
				for _, d := range gaps(calls) {
					if d < tt.low || d > tt.high+time.Second {
						t.Errorf("after %v", d)
					}
				}
				if len(calls) < 4 || calls[1].cursor() != "c1" || h.live() != 1 {
					t.Fatalf("calls %+v", calls)
				}
				ttl := "null"
				if p := calls[1]; p.TTLMs != nil {
					ttl = fmt.Sprint(*p.TTLMs)
				}
				if ttl != tt.ttlMs || calls[1].Delivery != calls[0].Delivery && tt.high < 20*time.Hour {
					t.Errorf("refreshed with %+v, ttlMs %s", calls[1], ttl)
				}
				if more := len(h.f.sent(wire.MethodList)) - lists; tt.name == "no expiry" && more < len(calls)-1 {
					t.Errorf("%d lists with %d calls", more, len(calls))
				}
				d := s.Subscription().Status().Delivery
				if d == nil || !d.Active || s.Subscription().Status().RefreshBefore.IsZero() != (tt.grant == unlimited) {
					t.Errorf("status %+v", s.Subscription().Status())
				}
			})
		})
	}
}

// CLI-5: a type that is no longer offered by webhook is noticed without any expiry, and another mode
// is taken; the subscription does not stay behind.
func TestCLI5Relist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cl := hooked(t, carriers[1], Options{Relist: 1000 * time.Hour, Webhook: &WebhookOptions{TTL: -1}})
		h.ttl = -1
		h.f.stream = func(st *fakeStream) (any, *jsonrpc.Error) { st.active("c0"); return hold(st) }
		s := subscribe(t, cl)
		h.set(func() {
			h.f.list = func() []wire.Descriptor { return []wire.Descriptor{descriptor("tick", "push")} }
		})
		time.Sleep(2 * time.Hour)
		if s.Subscription().Mode() != "push" || h.live() != 0 {
			t.Errorf("mode %s, %d subscriptions", s.Subscription().Mode(), h.live())
		}
	})
}

// CLI-5, SUB-5: a secret of age is replaced by a refresh: the endpoint accepts it before the server
// knows it, and the old one for the grace; when the refresh fails, the old one stays for good.
func TestCLI5Rotate(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		h, cl := hooked(t, c, Options{Webhook: &WebhookOptions{Rotate: 15 * time.Minute}})
		s := subscribe(t, cl)
		before := h.copyOf(h.sub())
		old := h.calls()[0].Delivery.Secret
		failing := true
		h.set(func() {
			h.refuse = func(wire.SubscribeParams) *jsonrpc.Error {
				if !failing {
					return nil
				}
				failing = false
				return h.f.err(wire.Internal, "")
			}
		})
		time.Sleep(20*time.Minute + 10*time.Second) // the refresh, which fails, and the next try
		calls := h.calls()
		if len(calls) != 3 || calls[1].Delivery.Secret == old {
			t.Fatalf("%d calls", len(calls))
		}
		if calls[2].Delivery.Secret == calls[1].Delivery.Secret || calls[2].Delivery.Secret == old {
			t.Error("the second try has no secret of its own")
		}
		synctest.Wait()
		after := h.copyOf(h.sub())
		after.ring = after.ring[:1]
		for i, sub := range []hookSub{before, after, h.copyOf(h.sub())} {
			if status := h.event(&sub, i+1, fmt.Sprint("c", i+1)); status != 204 {
				t.Errorf("secret %d: %d", i, status)
			}
		}
		time.Sleep(10 * time.Minute)
		if status := h.event(&before, 9, "c9"); status != 401 {
			t.Errorf("the old secret after the grace: %d", status)
		}
		if status := h.event(&after, 4, "c4"); status != 204 {
			t.Errorf("the new secret: %d", status)
		}
		read(t, s).want("error", "e1", "e2", "e3", "e4")
	})
}

// CLI-5, SUB-5: the application says how often a subscription without expiry is refreshed, and how long an old secret is
// accepted.
func TestCLI5RefreshAndGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, cl := hooked(t, carriers[1], Options{Webhook: &WebhookOptions{TTL: -1, Refresh: 10 * time.Minute, Rotate: 15 * time.Minute, Grace: 2 * time.Hour}})
		h.ttl = -1
		s := subscribe(t, cl)
		before := h.copyOf(h.sub())
		time.Sleep(time.Hour + time.Minute)
		calls := h.calls()
		if n := len(calls); n != 7 {
			t.Errorf("%d calls within an hour", n)
		}
		for _, c := range calls[:2] {
			if c.Delivery.Secret != calls[0].Delivery.Secret {
				t.Error("the secret was replaced at once")
			}
		}
		if calls[2].Delivery.Secret == calls[0].Delivery.Secret {
			t.Error("the secret was not replaced when it was old")
		}
		if status := h.event(&before, 1, "c1"); status != 204 {
			t.Errorf("the old secret within the grace: %d", status)
		}
		time.Sleep(90 * time.Minute)
		if status := h.event(&before, 2, "c2"); status != 401 {
			t.Errorf("the old secret after the grace: %d", status)
		}
		read(t, s).want("e1")
	})
}

// CLI-5: a server that lost the subscription, as without a durable store, makes it again at the
// refresh, from the client's cursor; without cursors what was lost is a gap.
func TestCLI5Lost(t *testing.T) {
	for _, noReplay := range []bool{false, true} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			h, cl := hooked(t, c, Options{})
			h.noReplay = noReplay
			s := subscribe(t, cl)
			h.emit(3)
			h.deliver()
			time.Sleep(20 * time.Minute) // a refresh, so that the server is known to report
			h.lose()
			h.emit(2)
			time.Sleep(20 * time.Minute)
			h.deliver()
			r := read(t, s)
			r.want("e1", "e2", "e3")
			if noReplay {
				r.want("gap:")
				h.emit(1)
				h.deliver()
				r.want("e6")
			} else {
				r.want("e4", "e5")
			}
		})
	}
}

// CLI-5, HOOK-8: a refresh that finds deliveries failing for a while, or suspended, subscribes anew
// from the client's cursor: the server may have given up what is after it.
func TestCLI5Abandoned(t *testing.T) {
	for name, status := range map[string]string{
		"suspended": `{"active":false,"lastDeliveryAt":null,"lastError":"timeout"}`,
		"failing":   `{"active":true,"lastDeliveryAt":"1999-12-31T23:00:00Z","lastError":{"reason":"http_5xx"},"failedSince":"1999-12-31T23:30:00Z","throttled":true,"retryAfterMs":1500.0}`,
	} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			h, cl := hooked(t, c, Options{})
			s := subscribe(t, cl)
			h.emit(2)
			h.deliver()
			h.emit(3)
			sub := h.sub()
			h.set(func() { sub.settled, h.status = 5, status }) // given up
			time.Sleep(20 * time.Minute)
			synctest.Wait()
			var unsubscribed int
			h.set(func() { unsubscribed = len(h.unsubscribed) })
			if unsubscribed != 1 || len(h.calls()) != 3 || h.calls()[2].cursor() != "c2" {
				t.Fatalf("%s: %d subscribes, %d unsubscribed, cursor %s", name, len(h.calls()), unsubscribed, h.calls()[2].cursor())
			}
			h.deliver()
			read(t, s).want("e1", "e2", "e3", "e4", "e5")
		})
	}
	d := readDeliveryStatus([]byte(`{"active":true,"lastDeliveryAt":"2026-11-20T08:00:00Z","lastError":{"reason":"http_5xx"},"failedSince":"x","throttled":true,"retryAfterMs":1500.0}`))
	if !d.Active || d.LastDeliveryAt.IsZero() || d.LastError != `{"reason":"http_5xx"}` || !d.Throttled || d.RetryAfter != 1500*time.Millisecond || d.mayHaveAbandoned() {
		t.Errorf("%+v", d)
	}
}

// CLI-5: a refresh that fails is tried again with backoff, long before the grant ends; deliveries go
// on meanwhile.
func TestCLI5RefreshFails(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		h, cl := hooked(t, c, Options{})
		s := subscribe(t, cl)
		failures := 4
		h.set(func() {
			h.refuse = func(wire.SubscribeParams) *jsonrpc.Error {
				if failures--; failures >= 0 {
					return h.f.err(wire.CallbackEndpointError, `{"reason":"timeout"}`)
				}
				return nil
			}
		})
		time.Sleep(18*time.Minute + 30*time.Second)
		h.emit(1)
		h.deliver()
		time.Sleep(2 * time.Minute)
		if n := len(h.calls()); n != 6 {
			t.Errorf("%d calls", n)
		}
		r := read(t, s)
		var words []string
		for range 5 {
			words = append(words, r.word())
		}
		if slices.Sort(words); !slices.Equal(words, []string{"e1", "error", "error", "error", "error"}) {
			t.Errorf("got %q", words)
		}
	})
}

// CLI-6, HOOK-6: while one event fails the watermark stands, and everything that arrives meanwhile
// is newer than the cursor: their ids are all kept, so that nothing of it comes twice after a restart.
func TestCLI6Watermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cursors := clientmemory.NewCursors()
		h, cl := hooked(t, carriers[1], Options{Cursors: cursors, Buffer: 4000})
		s := subscribe(t, cl, WithCursorKey("k"))
		const n = 1500
		h.event(h.sub(), 1, "c1")
		for i := 3; i <= n; i++ {
			h.event(h.sub(), i, "c1") // e2 fails
		}
		r := read(t, s)
		for i := 1; i <= n; i++ {
			if i != 2 {
				r.want(fmt.Sprint("e", i))
			}
		}
		if err := s.Subscription().Ack(); err != nil {
			t.Fatal(err)
		}
		kept, _, _ := cursors.Load(t.Context(), "k")
		if kept.Cursor != "c1" || len(kept.EventIDs) < n-2 {
			t.Errorf("cursor %s with %d ids", kept.Cursor, len(kept.EventIDs))
		}
		// Healthy again, the ids become few.
		for i := n + 1; i <= n+2*minSavedIDs+10; i++ {
			h.event(h.sub(), i, fmt.Sprint("c", i))
			r.want(fmt.Sprint("e", i))
		}
		if err := s.Subscription().Ack(); err != nil {
			t.Fatal(err)
		}
		if kept, _, _ = cursors.Load(t.Context(), "k"); len(kept.EventIDs) > 2*minSavedIDs {
			t.Errorf("%d ids", len(kept.EventIDs))
		}
	})
}

// CLI-5: the cursor of an answer that was under way while something was delivered is the older one; it
// does not take the subscription back. callback.settle carries it (quiet).
func TestCLI5AnswerOvertakenByDelivery(t *testing.T) {
	eachCarrier(t, func(t *testing.T, c carrier) {
		h, cl := hooked(t, c, Options{})
		h.ttl = time.Minute
		s := subscribe(t, cl, WithCursor("c0"))
		h.emit(1)
		h.deliver()
		r := read(t, s)
		r.want("e1")
		h.set(func() {
			h.early = func(sub *hookSub) { h.event(sub, 2, "c2") } // the watermark stays at c1
		})
		time.Sleep(45 * time.Second)
		r.want("e2")
		if n, cursor := len(h.calls()), s.Subscription().Status().Cursor; n != 2 || cursor != "c2" {
			t.Errorf("after %d calls at %s", n, cursor)
		}
	})
}
