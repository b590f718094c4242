package clients

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/useragent"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

const (
	// defaultGrant is the lifetime of a subscription unless the scene sets one.
	defaultGrant = time.Hour
	// answerTime is the timeout of a callback. maxAnswer limits how much of its response is read.
	answerTime, maxAnswer = 10 * time.Second, 64 << 10
	// maxAttempts is the maximum number of delivery attempts. retryPause is the delay between them. deliveryTick is the
	// interval at which subscriptions are examined for new events.
	maxAttempts, retryPause, deliveryTick = 5, time.Second, 10 * time.Millisecond
)

// A hook is a webhook subscription. The stage's mutex guards it.
type hook struct {
	url, id string
	keys    webhook.Ring
	expires time.Time
	// delivered is the number of delivered positions. attempts is the number of attempts to deliver the next position.
	// nextAttempt is the time of the next attempt.
	delivered   int
	attempts    int
	nextAttempt time.Time
	ended       bool
}

// A subscription holds the relevant parameters of events/subscribe and events/unsubscribe.
type subscription struct {
	Delivery struct {
		Mode   string `json:"mode"`
		URL    string `json:"url"`
		Secret string `json:"secret"`
	} `json:"delivery"`
	TTL *float64 `json:"ttlMs"`
}

func (a *clientCall) subscription() (p subscription) {
	text, _ := json.Marshal(a.params) // of raw values that were read
	_ = json.Unmarshal(text, &p)
	return p
}

// checkCallback returns an error that describes an invalid callback URL (SUB-3), or nil.
func checkCallback(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https":
		return fmt.Errorf("%q is not an absolute https URL", text)
	case u.User != nil:
		return errors.New("it has a user")
	case u.Fragment != "":
		return errors.New("it has a fragment")
	}
	return nil
}

// subscribe creates a subscription or refreshes a live one.
func (s *stage) subscribe(a *clientCall) reply {
	p := a.subscription()
	secret, err := webhook.ParseSecret(p.Delivery.Secret)
	urlErr := checkCallback(p.Delivery.URL)
	s.mu.Lock()
	if err != nil {
		s.noteOddity(invalidSecret, err.Error(), a)
	}
	if urlErr != nil {
		s.noteOddity(invalidCallback, urlErr.Error(), a)
	}
	s.mu.Unlock()
	if err != nil || urlErr != nil || p.Delivery.Mode != wire.ModeWebhook {
		return refuse(a, wire.Sketch.Code(wire.InvalidParams), "InvalidParams", "null")
	}
	pos, stale := s.startOf(a)
	s.mu.Lock()
	h := s.hooks[p.Delivery.URL]
	fresh := h == nil
	if fresh {
		h = &hook{url: p.Delivery.URL, id: "sub_" + newToken(), keys: webhook.NewRing(secret), ended: true}
		if s.acceptsHostile {
			h.id = "sub_1" // as in hostileserver's answers
		}
		s.hooks[p.Delivery.URL] = h
	}
	s.mu.Unlock()
	return func(w http.ResponseWriter, r *http.Request) {
		if fresh {
			if reason := s.sendChallenge(r.Context(), h); reason != "" {
				refuse(a, wire.Sketch.Code(wire.CallbackEndpointError), "CallbackEndpointError", fmt.Sprintf(`{"reason":%q}`, reason))(w, r)
				s.mu.Lock()
				s.noteOddity(failedChallenge, string(reason), a)
				delete(s.hooks, h.url)
				s.mu.Unlock()
				return
			}
			s.run.note(answersChallenge)
		}
		grant := cmp.Or(s.grant, defaultGrant)
		if p.TTL != nil && *p.TTL >= 0 {
			grant = min(grant, time.Duration(*p.TTL*float64(time.Millisecond)))
		}
		s.mu.Lock()
		if h.ended || time.Now().After(h.expires) {
			h.delivered, h.attempts, h.ended = pos, 0, false
		}
		h.keys = h.keys.Rotate(secret, time.Now(), defaultGrant)
		expires := time.Now().Add(grant)
		if h.expires = expires; s.acceptsHostile {
			h.expires = expires.Add(defaultGrant)
		}
		at := h.delivered
		s.notifyLocked()
		s.mu.Unlock()
		s.resultReply(a, fmt.Sprintf(`{"id":%q,"refreshBefore":%q,"cursor":%s,"truncated":%v%s}`, h.id, expires.UTC().Format(time.RFC3339Nano),
			s.cursorAt(at), stale, s.unknownMembers()))(w, r)
	}
}

func (s *stage) unsubscribe(a *clientCall) reply {
	p := a.subscription()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hooks[p.Delivery.URL]
	if h == nil || h.ended {
		return refuse(a, wire.Sketch.Code(wire.NotFound), "NotFound", `{"kind":"subscription"}`)
	}
	h.ended = true
	return s.resultReply(a, `{}`)
}

// deliver sends new events to all subscriptions until ctx is done.
func (s *stage) deliver(ctx context.Context) {
	for sleep(ctx, deliveryTick) {
		var due []*hook
		s.mu.Lock()
		for _, h := range s.hooks {
			now := time.Now()
			if !h.ended && !now.After(h.expires) && !now.Before(h.nextAttempt) && h.delivered < len(s.log) {
				due = append(due, h)
			}
		}
		s.mu.Unlock()
		for _, h := range due {
			s.tryDelivery(ctx, h)
		}
	}
}

// tryDelivery makes one attempt to deliver the next position.
func (s *stage) tryDelivery(ctx context.Context, h *hook) {
	s.mu.Lock()
	pos := h.delivered + 1
	e := s.log[pos-1]
	s.mu.Unlock()
	_, repeated := s.markTime("sent " + e.id)
	webhookID := e.id
	if repeated && pos%2 == 0 {
		webhookID = newToken() // a client recognizes an event by its eventId (D10)
	}
	status := http.StatusOK
	if e.id != "" {
		status, _ = s.post(ctx, h, webhookID, []byte(s.occurrence(e, s.cursorAt(pos))))
	}
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.attempts++; status/100 == 2 || h.attempts == maxAttempts {
		h.delivered, h.attempts = pos, 0
		if status/100 == 2 {
			s.marks["sent "+e.id] = s.now()
		}
	} else {
		h.nextAttempt = time.Now().Add(retryPause)
	}
	s.notifyLocked()
}

// sendEnvelope sends a control envelope to all subscriptions, and records a mark if a callback accepted it. A
// termination ends the subscriptions.
func (s *stage) sendEnvelope(ctx context.Context, kind, members string) {
	s.mu.Lock()
	var all []*hook
	for _, h := range s.hooks {
		if !h.ended {
			all = append(all, h)
			h.ended = kind == wire.EnvelopeTerminated
		}
	}
	s.mu.Unlock()
	for _, h := range all {
		if status, _ := s.post(ctx, h, webhook.NewMessageID(kind), fmt.Appendf(nil, `{"type":%q%s}`, kind, members)); status/100 == 2 {
			s.mark(kind + " taken")
		}
	}
}

// sendChallenge sends a challenge to a callback. It returns the failure category, if any.
func (s *stage) sendChallenge(ctx context.Context, h *hook) wire.Category {
	nonce := newToken()
	status, body := s.post(ctx, h, webhook.NewMessageID(wire.EnvelopeVerification),
		fmt.Appendf(nil, `{"type":%q,"challenge":%q}`, wire.EnvelopeVerification, nonce))
	var answer wire.ChallengeAnswer
	switch {
	case status == 0:
		return wire.ConnectionRefused
	case status/100 != 2 || json.Unmarshal(body, &answer) != nil || answer.Challenge != nonce:
		return wire.ChallengeFailed
	}
	return ""
}

// post sends a signed body to a callback. The status is 0 if the callback is unreachable.
func (s *stage) post(ctx context.Context, h *hook, id string, body []byte) (status int, answer []byte) {
	s.mu.Lock()
	keys := h.keys
	s.mu.Unlock()
	return s.postSigned(ctx, h, keys, time.Now(), id, body)
}

// postSigned is like post, but signs with the given secrets and time.
func (s *stage) postSigned(ctx context.Context, h *hook, keys webhook.Ring, at time.Time, id string, body []byte) (status int, answer []byte) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	req, err := webhook.Signer{Ring: keys}.NewRequestAt(ctx, h.url, webhook.Message{ID: id, Subscription: h.id, Body: body}, at)
	if err != nil {
		return 0, nil
	}
	req.Header.Set(headerContentType, s.contentType("application/json"))
	req.Header.Set("User-Agent", useragent.Default())
	// Accept any certificate. The checks do not depend on the callback's identity.
	transport := &http.Transport{DialContext: s.run.rig.dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	client := &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return 0, nil
	}
	defer res.Body.Close()
	answer, _ = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, answer
}
