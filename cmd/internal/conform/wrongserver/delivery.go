package wrongserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// deliver posts the events from the given position onward. It retries each rejected event independently.
func (s *Server) deliver(ctx context.Context, sub *subscription, from int) {
	s.mu.Lock()
	if sub.begun == 0 {
		sub.begun = from
	}
	s.mu.Unlock()
	retrying := ctx
	if s.is("unsubscribe-keeps-retries") {
		retrying = s.ctx
	}
	var retries sync.WaitGroup
	defer retries.Wait()
	if s.is("subscription-cursor-head") {
		time.Sleep(200 * time.Millisecond)
	}
	_, _, head := s.eventsAfter(0)
	began := from
	for sub.name == "tick" {
		list, appended, _ := s.eventsAfter(from)
		for _, e := range list {
			from = e.position
			s.mu.Lock()
			if sub.unacknowledged[e.position] = true; e.position > sub.lastSent {
				sub.lastSent = e.position
			}
			callbacks, lapsed := len(s.subs), s.isExpired(sub)
			s.mu.Unlock()
			if lapsed || !s.selects(sub.args, wire.ModeWebhook) {
				s.take(sub, e)
				continue
			}
			if s.is("webhooks-stop") && e.position > sub.begun+4 {
				s.take(sub, e)
				continue
			}
			if s.is("last-event-before-subscription-lost") && e.position == head && e.position > began {
				s.take(sub, e)
				continue
			}
			if s.is("webhooks-leave-events-out") && e.position%3 == 0 || s.is("second-callback-gets-less") && callbacks > 1 && e.position%3 == 0 {
				s.take(sub, e)
				continue
			}
			if s.is("hanging-blocks-others") {
				s.one <- struct{}{}
			}
			status := s.attempt(ctx, sub, e, 1)
			if s.is("hanging-blocks-others") {
				<-s.one
			}
			if s.is("delivery-repeats") {
				s.attempt(ctx, sub, e, 2)
			}
			switch again := func() { s.retry(retrying, sub, e, status) }; {
			case s.is("410-ends-subscription") && status == http.StatusGone:
				return
			case s.is("retry-blocks-others"):
				again()
			case s.isFinal(status):
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

// isExpired reports whether the grant of a subscription has expired. The caller must hold the server's mu.
func (s *Server) isExpired(sub *subscription) bool {
	ends := sub.granted
	switch {
	case ends.IsZero() || s.is("grants-never-end"): // a subscription has no grant during verification
		return false
	case s.is("refresh-no-extension"):
		ends = sub.lapses
	case s.is("grants-end-early"):
		ends = ends.Add(-leastGrant * 3 / 4)
	}
	return s.now().After(ends)
}

// isSent reports whether another subscription of the callback has sent the event, with a fault.
func (s *Server) isSent(sub *subscription, e event) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := fmt.Sprint(sub.url, e.position)
	first, sent := s.sent[key]
	if !sent {
		s.sent[key] = sub.id
	}
	return sent && first != sub.id
}

// take settles an event.
func (s *Server) take(sub *subscription, e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(sub.unacknowledged, e.position)
}

// isFinal reports whether a response with the status completes the delivery of an event.
func (s *Server) isFinal(status int) bool {
	if s.is(fmt.Sprintf("final-%d", status)) || s.is("final-302") && status/100 == 3 || s.is("final-4xx") && status/100 == 4 {
		return true
	}
	switch status {
	case http.StatusGone:
		return !s.is("410-retried")
	case http.StatusRequestEntityTooLarge:
		return !s.is("413-retried")
	}
	return status/100 == 2 || s.is("retry-never")
}

// retry retries an event with increasing delays until its delivery is complete.
func (s *Server) retry(ctx context.Context, sub *subscription, e event, status int) {
	pause := s.o.Retry
	for attempt := 2; !s.isFinal(status); attempt++ {
		if s.is("retry-no-pause") {
			pause = 100 * time.Millisecond
		}
		s.mu.Lock()
		wait := max(pause, time.Until(sub.notBefore[e.position]))
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		pause *= 2
		status = s.attempt(ctx, sub, e, attempt)
	}
	s.take(sub, e)
}

// attempt posts an event once. It returns the status, or 0 if it received no response.
func (s *Server) attempt(ctx context.Context, sub *subscription, e event, attempt int) int {
	id := fmt.Sprintf("evt_%d", e.position)
	if s.is("retry-new-webhook-id") && attempt > 1 {
		id = fmt.Sprintf("evt_%d_again_%d", e.position, attempt)
	}
	o := s.occurrence(e)
	s.mu.Lock()
	mark := e.position
	for p := range sub.unacknowledged {
		if p < e.position {
			mark = min(mark, p-1)
		}
	}
	s.mu.Unlock()
	if s.is("delivery-cursor-passes-refused") {
		mark = e.position
	}
	if s.is("delivery-cursor-ahead") {
		mark = e.position + 3
	}
	o["cursor"] = cursorOf(sub.name, mark)
	switch {
	case s.is("deliveries-no-cursor"):
		delete(o, "cursor")
	case s.is("webhook-cursor-null"):
		o["cursor"] = nil
	case s.is("delivery-data-invalid"):
		o["data"] = map[string]any{}
	case s.is("event-ids-webhooks-others"):
		o["eventId"] = fmt.Sprintf("hook_%d", e.position)
	case s.is("event-ids-webhooks-spaces"):
		o["eventId"] = fmt.Sprintf("evt %d", e.position)
	case s.is("timestamps-webhooks-others"):
		o["timestamp"] = e.at.Add(time.Second).UTC().Format(time.RFC3339Nano)
	case s.is("retry-another-body") && attempt > 1:
		o["attempt"] = attempt
	}
	body, _ := json.Marshal(s.applyChange("delivery", o))
	s.mu.Lock()
	ring := sub.ring
	s.mu.Unlock()
	if s.is("callback-once") && s.isSent(sub, e) {
		return http.StatusNoContent
	}
	m := webhook.Message{ID: id, Subscription: sub.id, Body: body}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, sub.url, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	if s.is("deliveries-by-put") {
		req.Method = http.MethodPut
	}
	at := s.now()
	if s.is("retry-old-timestamp") {
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
	if s.is("old-timestamp") {
		at = at.Add(-time.Hour)
	}
	if (webhook.Signer{Ring: ring}).Sign(req.Header, m, at) != nil {
		return 0
	}
	switch {
	case s.is("retry-no-subscription-header") && attempt > 1:
		req.Header.Del(wire.HeaderSubscriptionID)
	case s.is("retry-unsigned") && attempt > 1:
		req.Header.Del(wire.HeaderWebhookSignature)
	case s.is("times-milliseconds"):
		req.Header.Set(wire.HeaderWebhookTimestamp, strconv.FormatInt(at.UnixMilli(), 10))
	case s.is("no-subscription-header"):
		req.Header.Del(wire.HeaderSubscriptionID)
	case s.is("secret-in-delivery"):
		req.Header.Set("X-Secret", sub.secret)
	case s.is("another-content-type"):
		req.Header.Set("Content-Type", "text/plain")
	}
	s.changeHeaders(req.Header)
	client := *s.o.Client
	if !s.is("redirects-deliveries-followed") {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	res, err := client.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if now := time.Now(); !s.is("retry-after-ignored") {
		pause, _ := wire.RetryAfter(res.Header.Get("Retry-After"), now)
		s.mu.Lock()
		sub.notBefore[e.position] = now.Add(pause)
		s.mu.Unlock()
	}
	if said, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10)); s.is("endpoint-text-in-status") && len(said) > 0 {
		s.mu.Lock()
		sub.last = string(said)
		s.mu.Unlock()
	}
	return res.StatusCode
}
