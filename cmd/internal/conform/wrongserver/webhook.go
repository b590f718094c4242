package wrongserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A subscription is a webhook subscription.
type subscription struct {
	id, url, name string
	secret        string
	args          json.RawMessage
	ring          webhook.Ring
	times         map[int]time.Time // of first attempts, with a fault
	notBefore     map[int]time.Time // by position, of the next attempt
	cancel        context.CancelFunc
	granted       time.Time
	lapses        time.Time // when the first grant ends
	// unacknowledged holds the positions that were sent but not acknowledged. lastSent is the last position sent.
	unacknowledged map[int]bool
	lastSent       int
	begun          int  // the position of the first delivery
	twice          bool // delivered by two goroutines, with a fault
	last           any  // the description of the last refusal, with a fault
}

// The durations of grants.
const (
	leastGrant, usualGrant, mostGrant = time.Minute, 10 * time.Minute, time.Hour
)

// settledPosition returns the position up to which every delivery is complete. The caller must hold the server's mu.
func (sub *subscription) settledPosition() int {
	mark := sub.lastSent
	for p := range sub.unacknowledged {
		mark = min(mark, p-1)
	}
	return mark
}

// parseDelivery parses the delivery member of events/subscribe or events/unsubscribe.
func parseDelivery(c call) (d wire.Delivery) {
	_ = json.Unmarshal(c.Params["delivery"], &d)
	return d
}

// subscriptionKey returns the subscription key of a call.
func (s *Server) subscriptionKey(c call) string {
	args := string(c.Params["arguments"])
	if args == "" || args == "null" && !s.is("key-null-arguments") {
		args = "{}"
	}
	var members map[string]any
	if json.Unmarshal([]byte(args), &members) == nil && !s.is("key-argument-order") && args != "null" {
		ordered, _ := json.Marshal(members)
		args = string(ordered)
	}
	if s.is("key-without-arguments") {
		args = ""
	}
	callback := parseDelivery(c).URL
	if u, err := url.Parse(callback); err == nil && s.is("key-url-normalized") {
		callback = "https://" + u.Host + path.Clean(u.Path)
	}
	who := c.principal
	if s.is("other-refreshes") || s.is("other-unsubscribes") && c.Method == wire.MethodUnsubscribe || s.is("anonymous-unsubscribes") {
		who = "me"
	}
	return strings.Join([]string{who, c.stringParam("name"), args, callback}, " ")
}

// isAllowed reports whether the server may send requests to a callback.
func (s *Server) isAllowed(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" &&
		!(s.is("http-callbacks") && u.Scheme == "http") {
		return false
	}
	return u.Host == s.o.AllowHost || s.is("private-callbacks")
}

// subscribe creates or refreshes a subscription.
func (s *Server) subscribe(ctx context.Context, c call) (any, error) {
	secret, err := s.checkSubscribe(c)
	if err != nil {
		return nil, err
	}
	sub, key, first := s.findSubscription(c, secret)
	_, _, head := s.eventsAfter(0)
	from, truncated := s.startOf(c, head)
	if s.is("malformed-cursor-subscription-goes-unnoticed") {
		truncated = false
	}
	if first && s.is("delivery-before-challenge") && sub.name == "tick" {
		early, cancel := context.WithCancel(s.ctx)
		defer cancel()
		s.work.Go(func() { s.deliver(early, sub, max(head-1, 0)) })
		time.Sleep(10 * time.Millisecond)
	}
	if first && !(s.is("other-unchallenged") && c.principal == "other") {
		if err := s.verifyCallback(ctx, sub); err != nil {
			if s.is("unverified-deliveries") {
				s.work.Go(func() { s.deliver(s.ctx, sub, from) })
			}
			return nil, err
		}
		if s.is("subscription-begins-after-challenge") && c.cursorParam() == nil {
			_, _, from = s.eventsAfter(0)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		s.subs[key] = sub
		sub.lastSent = from
		if sub.cancel = func() {}; !s.ended[key] {
			s.startDeliveries(sub, from)
		}
	} else {
		s.refresh(sub, from, c.cursorParam() != nil)
	}
	switch {
	case s.is("rotation-ignored"), s.is("another-secret-signs"):
	case s.is("rotation-no-grace"):
		sub.ring = webhook.NewRing(secret)
	default:
		grace := time.Minute
		if s.is("rotation-never-ends") {
			grace = time.Hour
		}
		sub.ring = sub.ring.Rotate(secret, time.Now(), grace)
	}
	s.setLifetime(sub, c, first)
	return s.subscribeResult(sub, c, first, truncated), nil
}

// checkSubscribe rejects invalid params of events/subscribe in the order of ERR-2, and returns the secret.
func (s *Server) checkSubscribe(c call) (webhook.Secret, error) {
	d := parseDelivery(c)
	none := webhook.Secret{}
	switch {
	case c.stringParam("name") == "" && !s.is("subscription-no-name"), d.Mode == "" && !s.is("mode-unchecked"):
		return none, s32602
	case c.principal == "" && !s.is("anonymous-subscribes"):
		return none, newRefusal(wire.Forbidden, nil)
	case d.Mode != wire.ModeWebhook && d.Mode != "" && !s.is("mode-any") && typeModes[c.stringParam("name")] != nil:
		return none, newRefusal(wire.Unsupported, map[string]string{"feature": "deliveryMode", "value": d.Mode})
	}
	if s.is("url-first") && !s.isAllowed(d.URL) {
		return none, s32602
	}
	if err := s.checkParams(c, wire.ModeWebhook); err != nil {
		return none, err
	}
	if s.is("ttl-text-number") && c.Params["ttlMs"] != nil {
		c.Params["ttlMs"] = bytes.Trim(c.Params["ttlMs"], `"`)
	}
	ttl, absent, err := c.intParam("ttlMs")
	if err != nil && !s.is("ttl-word") || s.is("ttl-short-refused") && !absent && ttl < 1000 {
		return none, s32602
	}
	secret, err := webhook.ParseSecret(d.Secret)
	if text, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(d.Secret, wire.SecretPrefix)); err == nil &&
		(len(text) == 24 && s.is("secret-24-refused") || len(text) == 64 && s.is("secret-64-refused")) {
		return none, s32602
	}
	if err != nil && s.is("any-secret") {
		secret, err = webhook.NewSecret(), nil
	}
	if err != nil || !s.isAllowed(d.URL) || s.refusesCursor(c) {
		return none, s32602
	}
	return secret, nil
}

// refusesCursor reports whether the server rejects a cursor because of a fault.
func (s *Server) refusesCursor(c call) bool {
	cursor := c.cursorParam()
	if cursor == nil {
		return false
	}
	own, _, ok := strings.Cut(*cursor, ":")
	foreign := ok && typeModes[own] != nil
	return own != c.stringParam("name") && (!foreign && s.is("malformed-cursor-subscription-error") ||
		foreign && s.is("foreign-cursor-subscription-error"))
}

// findSubscription returns the subscription for the key of a call. first reports whether the call has to create it.
func (s *Server) findSubscription(c call, secret webhook.Secret) (sub *subscription, key string, first bool) {
	d := parseDelivery(c)
	key = s.subscriptionKey(c)
	s.mu.Lock()
	defer s.mu.Unlock()
	if sub := s.subs[key]; sub != nil {
		return sub, key, false
	}
	sub = &subscription{id: wire.SubscriptionID(wire.ModeWebhook, c.principal, d.URL, c.stringParam("name"), []byte(key)), url: d.URL,
		name: c.stringParam("name"), secret: d.Secret, args: c.Params["arguments"], ring: webhook.NewRing(secret), unacknowledged: map[int]bool{}, notBefore: map[int]time.Time{}}
	if s.is("another-secret-signs") {
		sub.ring = webhook.NewRing(webhook.NewSecret())
	}
	if s.is("id-shared") {
		sub.id = "sub_1"
	}
	return sub, key, true
}

// startDeliveries starts deliveries from a position. The caller must hold the server's mu.
func (s *Server) startDeliveries(sub *subscription, from int) {
	live, cancel := context.WithCancel(s.ctx)
	before := sub.cancel
	sub.cancel = func() {
		cancel()
		if before != nil {
			before()
		}
	}
	s.work.Go(func() { s.deliver(live, sub, from) })
}

// refresh refreshes a subscription. Without a fault, it does not affect deliveries. The caller must hold the server's
// mu.
func (s *Server) refresh(sub *subscription, from int, hasCursor bool) {
	switch {
	case s.is("refresh-drops-retries"):
		sub.cancel()
		clear(sub.unacknowledged)
		s.startDeliveries(sub, len(s.log))
	case s.is("refresh-delivers-twice") && !sub.twice:
		sub.twice = true
		s.startDeliveries(sub, sub.lastSent)
	case s.is("refresh-cursor-replays") && hasCursor:
		sub.cancel()
		s.startDeliveries(sub, from)
	case s.is("refresh-repeats"):
		sub.cancel()
		s.startDeliveries(sub, max(sub.lastSent-3, 0))
	}
}

// setLifetime sets the lifetime of a subscription. The caller must hold the server's mu.
func (s *Server) setLifetime(sub *subscription, c call, first bool) {
	grant := usualGrant
	if ttl, absent, _ := c.intParam("ttlMs"); !absent {
		asked := time.Duration(min(max(ttl, 0), mostGrant.Milliseconds())) * time.Millisecond
		grant = max(asked, leastGrant)
		switch {
		case asked < leastGrant && s.is("short-grant-past"):
			grant = -2 * time.Second
		case s.is("grant-not-below-usual"):
			grant = max(grant, usualGrant)
		case asked >= leastGrant && s.is("grant-longer-asked"):
			grant = mostGrant
		}
	}
	if first || !s.is("refresh-no-grant") {
		sub.granted = s.now().Add(grant)
	}
	if sub.lapses.IsZero() {
		sub.lapses = sub.granted
	}
}

// subscribeResult returns the result of events/subscribe. The caller must hold the server's mu.
func (s *Server) subscribeResult(sub *subscription, c call, first, truncated bool) any {
	before := any(sub.granted.UTC().Format(time.RFC3339Nano))
	switch {
	case s.is("refresh-before-past"):
		before = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339Nano)
	case s.is("no-refresh-before"):
		before = nil
	}
	at := sub.settledPosition()
	switch {
	case s.is("cursor-subscription-ahead"):
		at = len(s.log) + 3
	case s.is("subscription-cursor-head") && first, s.is("refresh-cursor-head"):
		at = len(s.log)
	}
	r := map[string]any{"resultType": "complete", "id": sub.id, "refreshBefore": before, "cursor": cursorOf(sub.name, at),
		"truncated": truncated && first}
	if s.is("webhook-cursor-null") {
		r["cursor"] = nil
	}
	if s.is("subscription-cursor-foreign") {
		r["cursor"] = cursorOf("spare", 1)
	}
	if s.is("secret-in-response") {
		r["delivery"] = parseDelivery(c)
	}
	if s.is("id-changes") {
		r["id"] = webhook.NewMessageID("sub")
	}
	if !first || s.is("status-at-first") {
		r["deliveryStatus"] = map[string]any{"active": !s.is("status-inactive"), "lastDeliveryAt": nil, "lastError": nil}
		if sub.last != nil {
			r["deliveryStatus"].(map[string]any)["lastError"] = sub.last
		}
		if s.is("last-delivery-at-word") {
			r["deliveryStatus"].(map[string]any)["lastDeliveryAt"] = "soon"
		}
	}
	return r
}

func (s *Server) unsubscribe(c call) (any, error) {
	if (parseDelivery(c).URL == "" || c.stringParam("name") == "") && !s.is("unsubscribe-anything") {
		return nil, s32602
	}
	if c.Params["mcpeGenConform"] != nil && s.is("unsubscribe-unknown-members") || parseDelivery(c).Mode == "" && s.is("unsubscribe-mode-required") {
		return nil, s32602
	}
	if c.principal == "" && !s.is("anonymous-unsubscribes") {
		return nil, newRefusal(wire.Forbidden, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := s.subscriptionKey(c)
	sub := s.subs[key]
	if s.is("unsubscribe-by-url") {
		for other := range s.subs {
			if s.subs[other].url == parseDelivery(c).URL {
				key, sub = other, s.subs[other]
			}
		}
	}
	switch {
	case s.is("unsubscribe-nothing"), sub == nil && s.is("unsubscribe-anything"):
	case sub == nil && s.is("unsubscribe-unknown-internal"):
		return nil, newRefusal(wire.Internal, nil)
	case sub == nil:
		return nil, newRefusal(wire.NotFound, map[string]string{"kind": "subscription"})
	default:
		sub.cancel()
		delete(s.subs, key)
		s.ended[key] = s.is("unsubscribe-forever")
		if s.is("unsubscribe-all") {
			for key, other := range s.subs {
				other.cancel()
				delete(s.subs, key)
			}
		}
	}
	return map[string]any{"resultType": "complete"}, nil
}
