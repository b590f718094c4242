package wrongserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A subscription is one by webhook.
type subscription struct {
	id, url, name string
	ring          webhook.Ring
	cancel        context.CancelFunc
}

// target reads the delivery of an events/subscribe or events/unsubscribe.
func target(c call) (d wire.Delivery) {
	_ = json.Unmarshal(c.Params["delivery"], &d)
	return d
}

// key identifies a subscription.
func (s *Server) key(c call) string {
	args := string(c.Params["arguments"])
	if args == "" || args == "null" && !s.is("null arguments are others") {
		args = "{}"
	}
	return strings.Join([]string{c.text("name"), args, target(c).URL}, " ")
}

// allowed reports whether a callback may be called.
func (s *Server) allowed(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || u.Scheme != "https" &&
		!(s.is("http callbacks") && u.Scheme == "http") {
		return false
	}
	return u.Host == s.o.AllowHost || s.is("private callbacks")
}

func (s *Server) subscribe(ctx context.Context, c call) (any, error) {
	d := target(c)
	switch {
	case c.text("name") == "", d.Mode == "" && !s.is("a delivery mode is not asked for"):
		return nil, s32602
	case !c.principal && !s.is("anybody may subscribe"):
		return nil, refuse(wire.Forbidden, nil)
	case d.Mode != wire.ModeWebhook && d.Mode != "" && modes[c.text("name")] != nil:
		return nil, refuse(wire.Unsupported, map[string]string{"feature": "deliveryMode", "value": d.Mode})
	}
	if err := s.check(c, wire.ModeWebhook); err != nil {
		return nil, err
	}
	ttl, absent, err := c.number("ttlMs")
	if err != nil && !s.is("a ttlMs may be a word") || s.is("a short ttlMs is refused") && !absent && ttl < 1000 {
		return nil, s32602
	}
	secret, err := webhook.ParseSecret(d.Secret)
	if err != nil && s.is("any secret") {
		secret, err = webhook.NewSecret(), nil
	}
	if err != nil || !s.allowed(d.URL) {
		return nil, s32602
	}
	key := s.key(c)
	s.mu.Lock()
	sub := s.subs[key]
	first := sub == nil
	if first {
		sub = &subscription{id: wire.SubscriptionID(wire.ModeWebhook, "me", d.URL, c.text("name"), []byte(key)), url: d.URL,
			name: c.text("name"), ring: webhook.NewRing(secret)}
		if s.is("another secret signs") {
			sub.ring = webhook.NewRing(webhook.NewSecret())
		}
		if s.is("one id for all") {
			sub.id = "sub_1"
		}
	}
	s.mu.Unlock()
	if first {
		if err := s.verify(ctx, sub); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first {
		s.subs[key] = sub
		live, cancel := context.WithCancel(s.ctx)
		sub.cancel = cancel
		head := len(s.log)
		s.work.Go(func() { s.deliver(live, sub, head) })
	}
	switch {
	case s.is("a rotation is ignored"), s.is("another secret signs"):
	case s.is("a rotation has no grace"):
		sub.ring = webhook.NewRing(secret)
	default:
		sub.ring = sub.ring.Rotate(secret, time.Now(), time.Minute)
	}
	before := any(time.Now().Add(time.Minute).UTC().Format(time.RFC3339))
	switch {
	case s.is("refreshBefore is past"):
		before = "2020-01-01T00:00:00Z"
	case s.is("no refreshBefore"):
		before = nil
	}
	r := map[string]any{"resultType": "complete", "id": sub.id, "refreshBefore": before, "cursor": cursorOf(sub.name,
		len(s.log)), "truncated": false}
	if s.is("another id each time") {
		r["id"] = webhook.NewMessageID("sub")
	}
	if (!first || s.is("deliveryStatus at first")) && !s.is("no deliveryStatus") {
		r["deliveryStatus"] = map[string]any{"active": true, "lastDeliveryAt": nil, "lastError": nil}
	}
	return r, nil
}

// verify sends the challenge.
func (s *Server) verify(ctx context.Context, sub *subscription) error {
	if s.is("no challenge") {
		return nil
	}
	nonce := webhook.NewMessageID("nonce")
	body, _ := webhook.Verification(nonce)
	m := webhook.Message{ID: webhook.NewMessageID(wire.EnvelopeVerification), Subscription: sub.id, Body: body}
	if s.is("the webhook-id of a challenge is any") {
		m.ID = "evt_0"
	}
	ring := sub.ring
	if s.is("the challenge is not signed") {
		ring = webhook.NewRing(webhook.NewSecret())
	}
	req, err := webhook.Signer{Ring: ring}.NewRequest(ctx, sub.url, m)
	if err != nil {
		return refuse(wire.Internal, nil)
	}
	if s.is("the challenge has no subscription id") {
		req.Header.Del(wire.HeaderSubscriptionID)
	}
	client := *s.o.Client
	if !s.is("redirects are followed") {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	failed := map[string]string{"reason": string(wire.ChallengeFailed)}
	if s.is("another reason") {
		failed["reason"] = "it said no"
	}
	res, err := client.Do(req)
	if err != nil {
		return refuse(wire.CallbackEndpointError, map[string]string{"reason": string(wire.ConnectionRefused)})
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 8<<10))
	var answer wire.ChallengeAnswer
	if res.StatusCode != http.StatusOK || json.Unmarshal(text, &answer) != nil || answer.Challenge != nonce {
		if s.is("any answer to the challenge will do") {
			return nil
		}
		if s.is("the endpoint's text in the error") {
			failed["text"] = string(text)
		}
		return refuse(wire.CallbackEndpointError, failed)
	}
	return nil
}

// deliver posts every event from the position on, each until it is taken.
func (s *Server) deliver(ctx context.Context, sub *subscription, from int) {
	for sub.name == "tick" {
		list, appended, _ := s.after(from)
		for _, e := range list {
			id := fmt.Sprintf("evt_%d", e.position)
			for !s.attempt(ctx, sub, e, id) {
				select {
				case <-ctx.Done():
					return
				case <-time.After(s.o.Interval):
				}
				if s.is("another webhook-id for each attempt") {
					id += "_again"
				}
			}
			from = e.position
		}
		select {
		case <-ctx.Done():
			return
		case <-appended:
		}
	}
}

// attempt posts an event once.
func (s *Server) attempt(ctx context.Context, sub *subscription, e event, id string) bool {
	o := s.occurrence(e)
	o["cursor"] = cursorOf(sub.name, e.position)
	switch {
	case s.is("deliveries without a cursor"):
		delete(o, "cursor")
	case s.is("deliveries that do not fit"):
		o["data"] = map[string]any{}
	}
	body, _ := json.Marshal(o)
	s.mu.Lock()
	ring := sub.ring
	s.mu.Unlock()
	m := webhook.Message{ID: id, Subscription: sub.id, Body: body}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.url, bytes.NewReader(body))
	if err != nil {
		return false
	}
	at := time.Now()
	if s.is("an old timestamp") {
		at = at.Add(-time.Hour)
	}
	if (webhook.Signer{Ring: ring}).Sign(req.Header, m, at) != nil {
		return false
	}
	switch {
	case s.is("no subscription header"):
		req.Header.Del(wire.HeaderSubscriptionID)
	case s.is("another content type"):
		req.Header.Set("Content-Type", "text/plain")
	}
	res, err := s.o.Client.Do(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.StatusCode < 300
}

func (s *Server) unsubscribe(c call) (any, error) {
	if (target(c).URL == "" || c.text("name") == "") && !s.is("unsubscribe takes anything") {
		return nil, s32602
	}
	if !c.principal {
		return nil, refuse(wire.Forbidden, nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subs[s.key(c)]
	switch {
	case s.is("unsubscribe does nothing"), sub == nil && s.is("unsubscribe takes anything"):
	case sub == nil && s.is("an unknown key is an internal error"):
		return nil, refuse(wire.Internal, nil)
	case sub == nil:
		return nil, refuse(wire.NotFound, map[string]string{"kind": "subscription"})
	default:
		sub.cancel()
		delete(s.subs, s.key(c))
	}
	return map[string]any{"resultType": "complete"}, nil
}
