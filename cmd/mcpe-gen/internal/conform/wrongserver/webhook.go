package wrongserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// A subscription is one by webhook.
type subscription struct {
	id, url, name string
	secret        string
	ring          webhook.Ring
	times         map[int]time.Time // of first attempts, with a fault
	cancel        context.CancelFunc
	granted       time.Time
	lapses        time.Time // when the first grant ends
	// open are the positions that were sent and not taken yet, and sent is the last one.
	open  map[int]bool
	sent  int
	begun int  // where it was first delivered from
	twice bool // delivered by two, with a fault
	last  any  // what was said of the last refusal, with a fault
}

// The grants of subscriptions.
const (
	leastGrant, usualGrant, mostGrant = time.Minute, 10 * time.Minute, time.Hour
)

// settled is the position before which everything is taken; the server's mu is held.
func (sub *subscription) settled() int {
	mark := sub.sent
	for p := range sub.open {
		mark = min(mark, p-1)
	}
	return mark
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
	var members map[string]any
	if json.Unmarshal([]byte(args), &members) == nil && !s.is("the order of arguments counts") && args != "null" {
		ordered, _ := json.Marshal(members)
		args = string(ordered)
	}
	if s.is("arguments are no part of the key") {
		args = ""
	}
	who := c.principal
	if s.is("others refresh") || s.is("others may unsubscribe") && c.Method == wire.MethodUnsubscribe || s.is("anybody may unsubscribe") {
		who = "me"
	}
	return strings.Join([]string{who, c.text("name"), args, target(c).URL}, " ")
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
	case c.text("name") == "" && !s.is("a subscription needs no name"), d.Mode == "" && !s.is("a delivery mode is not asked for"):
		return nil, s32602
	case c.principal == "" && !s.is("anybody may subscribe"):
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
	if text, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(d.Secret, wire.SecretPrefix)); err == nil &&
		(len(text) == 24 && s.is("24 bytes are no secret") || len(text) == 64 && s.is("64 bytes are no secret")) {
		return nil, s32602
	}
	if err != nil && s.is("any secret") {
		secret, err = webhook.NewSecret(), nil
	}
	if err != nil || !s.allowed(d.URL) {
		return nil, s32602
	}
	cursor := c.cursor()
	if cursor != nil {
		if own, _, ok := strings.Cut(*cursor, ":"); own != c.text("name") {
			foreign := ok && modes[own] != nil
			if !foreign && s.is("a malformed cursor of a subscription is an error") || foreign && s.is("a foreign cursor of a subscription is an error") {
				return nil, s32602
			}
		}
	}
	key := s.key(c)
	s.mu.Lock()
	sub := s.subs[key]
	first := sub == nil
	if first {
		sub = &subscription{id: wire.SubscriptionID(wire.ModeWebhook, c.principal, d.URL, c.text("name"), []byte(key)), url: d.URL,
			name: c.text("name"), secret: d.Secret, ring: webhook.NewRing(secret), open: map[int]bool{}}
		if s.is("another secret signs") {
			sub.ring = webhook.NewRing(webhook.NewSecret())
		}
		if s.is("one id for all") {
			sub.id = "sub_1"
		}
	}
	s.mu.Unlock()
	_, _, head := s.after(0)
	from, truncated := s.start(c, head)
	if s.is("a malformed cursor of a subscription goes unnoticed") {
		truncated = false
	}
	if first && s.is("deliveries before the challenge") && sub.name == "tick" {
		early, cancel := context.WithCancel(s.ctx)
		defer cancel()
		s.work.Go(func() { s.deliver(early, sub, max(head-1, 0)) })
		time.Sleep(10 * time.Millisecond)
	}
	if first && !(s.is("others are not challenged") && c.principal == "other") {
		if err := s.verify(ctx, sub); err != nil {
			if s.is("what failed gets deliveries") {
				s.work.Go(func() { s.deliver(s.ctx, sub, from) })
			}
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	begin := func(from int) {
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
	if first {
		s.subs[key] = sub
		sub.sent = from
		begin(from)
	} else {
		switch {
		case s.is("a refresh forgets what waits"):
			sub.cancel()
			clear(sub.open)
			begin(len(s.log))
		case s.is("a refresh delivers twice") && !sub.twice:
			sub.twice = true
			begin(sub.sent)
		case s.is("a refresh with a cursor replays") && cursor != nil:
			sub.cancel()
			begin(from)
		case s.is("a refresh repeats"):
			sub.cancel()
			begin(max(sub.sent-3, 0))
		}
	}
	switch {
	case s.is("a rotation is ignored"), s.is("another secret signs"):
	case s.is("a rotation has no grace"):
		sub.ring = webhook.NewRing(secret)
	default:
		grace := time.Minute
		if s.is("old secrets sign for ever") {
			grace = time.Hour
		}
		sub.ring = sub.ring.Rotate(secret, time.Now(), grace)
	}
	grant := usualGrant
	if ttl, absent, _ := c.number("ttlMs"); !absent {
		asked := time.Duration(min(max(ttl, 0), mostGrant.Milliseconds())) * time.Millisecond
		grant = max(asked, leastGrant)
		switch {
		case asked < leastGrant && s.is("a short grant is past"):
			grant = -2 * time.Second
		case asked >= leastGrant && s.is("a grant is longer than asked"):
			grant = mostGrant
		}
	}
	if first || !s.is("a refresh grants no more") {
		sub.granted = time.Now().Add(grant)
	}
	if sub.lapses.IsZero() {
		sub.lapses = sub.granted
	}
	before := any(sub.granted.UTC().Format(time.RFC3339Nano))
	switch {
	case s.is("refreshBefore is past"):
		before = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339Nano)
	case s.is("no refreshBefore"):
		before = nil
	}
	at := sub.settled()
	switch {
	case s.is("the cursor of a subscription is ahead"):
		at = len(s.log) + 3
	case s.is("a subscription with a cursor answers with the head") && first, s.is("a refresh answers with the head"):
		at = len(s.log)
	}
	r := map[string]any{"resultType": "complete", "id": sub.id, "refreshBefore": before, "cursor": cursorOf(sub.name, at),
		"truncated": truncated && first}
	if s.is("cursors of webhooks are null") {
		r["cursor"] = nil
	}
	if s.is("subscriptions have the cursor of another type") {
		r["cursor"] = cursorOf("spare", 1)
	}
	if s.is("the secret is in the answer") {
		r["delivery"] = d
	}
	if s.is("another id each time") {
		r["id"] = webhook.NewMessageID("sub")
	}
	if !first || s.is("deliveryStatus at first") {
		r["deliveryStatus"] = map[string]any{"active": !s.is("deliveryStatus is not active"), "lastDeliveryAt": nil, "lastError": nil}
		if sub.last != nil {
			r["deliveryStatus"].(map[string]any)["lastError"] = sub.last
		}
		if s.is("lastDeliveryAt is a word") {
			r["deliveryStatus"].(map[string]any)["lastDeliveryAt"] = "soon"
		}
	}
	return r, nil
}

// verify sends the challenge.
func (s *Server) verify(ctx context.Context, sub *subscription) error {
	if s.is("no challenge") {
		return nil
	}
	nonce := webhook.NewMessageID("nonce")
	if s.is("one nonce for all") {
		nonce = "nonce_1234567890"
	}
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
	if s.is("challenges have one webhook-id") {
		m.ID = "msg_verification_1"
		if req, err = (webhook.Signer{Ring: ring}).NewRequest(ctx, sub.url, m); err != nil {
			return refuse(wire.Internal, nil)
		}
	}
	client := *s.o.Client
	if client.Timeout = 4 * time.Second; s.is("a silent callback is waited for") {
		client.Timeout = time.Minute
	}
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
	read := json.Unmarshal(text, &answer) == nil
	if s.is("an echo in another member will do") {
		answer.Challenge, read = nonce, bytes.Contains(text, []byte(nonce))
	}
	if s.is("no answer to the challenge will do") && len(text) == 0 {
		answer.Challenge, read = nonce, true
	}
	status := res.StatusCode >= 200 && res.StatusCode < 300
	switch {
	case s.is("201 will not do"):
		status = res.StatusCode == http.StatusOK
	case s.is("an echo with 500 will do"):
		status = status || res.StatusCode >= 500
	case s.is("an echo with 302 will do"):
		status = status || res.StatusCode/100 == 3
	case s.is("an echo with 404 will do"):
		status = status || res.StatusCode/100 == 4
	}
	if !status || !read || answer.Challenge != nonce {
		if s.is("a challenge is sent again") {
			s.work.Go(func() { // a second later
				select {
				case <-s.ctx.Done():
				case <-time.After(100 * time.Millisecond):
					if req, err := (webhook.Signer{Ring: ring}).NewRequest(s.ctx, sub.url, m); err == nil {
						if res, err := client.Do(req); err == nil {
							res.Body.Close()
						}
					}
				}
			})
		}
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

// deliver posts the events from the position on; one that was refused is tried again by itself.
func (s *Server) deliver(ctx context.Context, sub *subscription, from int) {
	s.mu.Lock()
	if sub.begun == 0 {
		sub.begun = from
	}
	s.mu.Unlock()
	retrying := ctx
	if s.is("unsubscribe keeps attempts") {
		retrying = s.ctx
	}
	var retries sync.WaitGroup
	defer retries.Wait()
	if s.is("a subscription with a cursor answers with the head") {
		time.Sleep(200 * time.Millisecond)
	}
	_, _, head := s.after(0)
	began := from
	for sub.name == "tick" {
		list, appended, _ := s.after(from)
		for _, e := range list {
			from = e.position
			s.mu.Lock()
			if sub.open[e.position] = true; e.position > sub.sent {
				sub.sent = e.position
			}
			callbacks, lapsed := len(s.subs), s.lapsed(sub)
			s.mu.Unlock()
			if lapsed {
				s.take(sub, e)
				continue
			}
			if s.is("webhooks stop") && e.position > sub.begun+4 {
				s.take(sub, e)
				continue
			}
			if s.is("the last event before a subscription is lost") && e.position == head && e.position > began {
				s.take(sub, e)
				continue
			}
			if s.is("webhooks leave events out") && e.position%3 == 0 || s.is("a second callback gets less") && callbacks > 1 && e.position%3 == 0 {
				s.take(sub, e)
				continue
			}
			if s.is("a hanging endpoint holds the others") {
				s.one <- struct{}{}
			}
			status := s.attempt(ctx, sub, e, 1)
			if s.is("a hanging endpoint holds the others") {
				<-s.one
			}
			if s.is("deliveries are sent again after 2xx") {
				s.attempt(ctx, sub, e, 2)
			}
			switch again := func() { s.again(retrying, sub, e, status) }; {
			case s.is("410 ends the subscription") && status == http.StatusGone:
				return
			case s.is("a refused event holds the others"):
				again()
			case s.over(status):
				s.take(sub, e)
			default:
				retries.Go(again)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-appended:
		}
	}
}

// lapsed reports whether the grant of a subscription has ended; the server's mu is held.
func (s *Server) lapsed(sub *subscription) bool {
	ends := sub.granted
	switch {
	case ends.IsZero() || s.is("grants never end"): // while it is verified there is none
		return false
	case s.is("a refresh keeps nothing alive"):
		ends = sub.lapses
	case s.is("grants end early"):
		ends = ends.Add(-leastGrant * 3 / 4)
	}
	return time.Now().After(ends)
}

// take settles an event.
func (s *Server) take(sub *subscription, e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(sub.open, e.position)
}

// over tells that an event with the status is not sent again.
func (s *Server) over(status int) bool {
	switch status {
	case http.StatusGone:
		return !s.is("410 is tried again")
	case http.StatusRequestEntityTooLarge:
		return !s.is("413 is tried again")
	}
	return status/100 == 2 || s.is("one attempt is enough")
}

// again tries an event until it is over, with growing pauses.
func (s *Server) again(ctx context.Context, sub *subscription, e event, status int) {
	pause := s.o.Retry
	for attempt := 2; !s.over(status); attempt++ {
		if s.is("retries without a pause") {
			pause = 100 * time.Millisecond
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause *= 2
		status = s.attempt(ctx, sub, e, attempt)
	}
	s.take(sub, e)
}

// attempt posts an event once and returns the status, 0 without one.
func (s *Server) attempt(ctx context.Context, sub *subscription, e event, attempt int) int {
	id := fmt.Sprintf("evt_%d", e.position)
	if s.is("another webhook-id for each attempt") && attempt > 1 {
		id = fmt.Sprintf("evt_%d_again_%d", e.position, attempt)
	}
	o := s.occurrence(e)
	s.mu.Lock()
	mark := e.position
	for p := range sub.open {
		if p < e.position {
			mark = min(mark, p-1)
		}
	}
	s.mu.Unlock()
	if s.is("cursors of deliveries pass what was refused") {
		mark = e.position
	}
	if s.is("cursors of deliveries are ahead") {
		mark = e.position + 3
	}
	o["cursor"] = cursorOf(sub.name, mark)
	switch {
	case s.is("deliveries without a cursor"):
		delete(o, "cursor")
	case s.is("cursors of webhooks are null"):
		o["cursor"] = nil
	case s.is("deliveries that do not fit"):
		o["data"] = map[string]any{}
	case s.is("eventIds of webhooks are others"):
		o["eventId"] = fmt.Sprintf("hook_%d", e.position)
	case s.is("eventIds of webhooks have spaces"):
		o["eventId"] = fmt.Sprintf("evt %d", e.position)
	case s.is("timestamps of webhooks are others"):
		o["timestamp"] = e.at.Add(time.Second).UTC().Format(time.RFC3339Nano)
	case s.is("a retry has another body") && attempt > 1:
		o["attempt"] = attempt
	}
	body, _ := json.Marshal(s.changed("delivery", o))
	s.mu.Lock()
	ring := sub.ring
	s.mu.Unlock()
	m := webhook.Message{ID: id, Subscription: sub.id, Body: body}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.url, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	if s.is("deliveries by PUT") {
		req.Method = http.MethodPut
	}
	at := time.Now()
	if s.is("retries have the old time") {
		s.mu.Lock()
		if sub.times == nil {
			sub.times = map[int]time.Time{}
		}
		if first, ok := sub.times[e.position]; ok {
			at = first
		}
		sub.times[e.position] = at
		s.mu.Unlock()
	}
	if s.is("an old timestamp") {
		at = at.Add(-time.Hour)
	}
	if (webhook.Signer{Ring: ring}).Sign(req.Header, m, at) != nil {
		return 0
	}
	switch {
	case s.is("retries have no subscription header") && attempt > 1:
		req.Header.Del(wire.HeaderSubscriptionID)
	case s.is("retries are not signed") && attempt > 1:
		req.Header.Del(wire.HeaderWebhookSignature)
	case s.is("times are milliseconds"):
		req.Header.Set(wire.HeaderWebhookTimestamp, strconv.FormatInt(at.UnixMilli(), 10))
	case s.is("no subscription header"):
		req.Header.Del(wire.HeaderSubscriptionID)
	case s.is("deliveries have the secret"):
		req.Header.Set("X-Secret", sub.secret)
	case s.is("another content type"):
		req.Header.Set("Content-Type", "text/plain")
	}
	s.header(req.Header)
	client := *s.o.Client
	if !s.is("redirects of deliveries are followed") {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if said, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)); s.is("the endpoint's text in lastError") && len(said) > 0 {
		s.mu.Lock()
		sub.last = string(said)
		s.mu.Unlock()
	}
	return res.StatusCode
}

func (s *Server) unsubscribe(c call) (any, error) {
	if (target(c).URL == "" || c.text("name") == "") && !s.is("unsubscribe takes anything") {
		return nil, s32602
	}
	if c.Params["mcpeGenConform"] != nil && s.is("unknown members of unsubscribing are refused") {
		return nil, s32602
	}
	if c.principal == "" && !s.is("anybody may unsubscribe") {
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
		if s.is("unsubscribe ends all of the type") {
			for key, other := range s.subs {
				other.cancel()
				delete(s.subs, key)
			}
		}
	}
	return map[string]any{"resultType": "complete"}, nil
}
