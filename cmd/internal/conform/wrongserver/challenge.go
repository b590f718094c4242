package wrongserver

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// verifyCallback sends the challenge and checks the response.
func (s *Server) verifyCallback(ctx context.Context, sub *subscription) error {
	if s.is("no-challenge") {
		return nil
	}
	nonce := webhook.NewMessageID("nonce")
	if s.is("nonce-shared") {
		nonce = "nonce_1234567890"
	}
	body, _ := webhook.Verification(nonce)
	m := webhook.Message{ID: webhook.NewMessageID(wire.EnvelopeVerification), Subscription: sub.id, Body: body}
	if s.is("challenge-webhook-id") {
		m.ID = "evt_0"
	}
	ring := sub.ring
	if s.is("challenge-unsigned") {
		ring = webhook.NewRing(webhook.NewSecret())
	}
	req, err := webhook.Signer{Ring: ring}.NewRequest(ctx, sub.url, m)
	if err != nil {
		return newRefusal(wire.Internal, nil)
	}
	if s.is("challenge-no-subscription-id") {
		req.Header.Del(wire.HeaderSubscriptionID)
	}
	if s.is("challenges-one-webhook-id") {
		m.ID = "msg_verification_1"
		if req, err = (webhook.Signer{Ring: ring}).NewRequest(ctx, sub.url, m); err != nil {
			return newRefusal(wire.Internal, nil)
		}
	}
	client := *s.o.Client
	if client.Timeout = 4 * time.Second; s.is("challenge-waits") {
		client.Timeout = time.Minute
	}
	if !s.is("redirects-followed") {
		client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	}
	failed := map[string]string{"reason": string(wire.ChallengeFailed)}
	if s.is("another-reason") {
		failed["reason"] = "it said no"
	}
	res, err := client.Do(req)
	if err != nil {
		return newRefusal(wire.CallbackEndpointError, map[string]string{"reason": string(wire.ConnectionRefused)})
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 8<<10))
	var answer wire.ChallengeAnswer
	read := json.Unmarshal(text, &answer) == nil
	if s.is("echo-other-member") {
		answer.Challenge, read = nonce, bytes.Contains(text, []byte(nonce))
	}
	if s.is("challenge-no-response") && len(text) == 0 {
		answer.Challenge, read = nonce, true
	}
	status := res.StatusCode >= 200 && res.StatusCode < 300
	switch {
	case s.is("echo-201-refused"):
		status = res.StatusCode == http.StatusOK
	case s.is("echo-500-accepted"):
		status = status || res.StatusCode >= 500
	case s.is("echo-302-accepted"):
		status = status || res.StatusCode/100 == 3
	case s.is("echo-404-accepted"):
		status = status || res.StatusCode/100 == 4
	}
	if !status || !read || answer.Challenge != nonce {
		if s.is("challenge-sent-again") {
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
		if s.is("challenge-any-response") {
			return nil
		}
		if s.is("endpoint-text-in-error") {
			failed["text"] = string(text)
		}
		return newRefusal(wire.CallbackEndpointError, failed)
	}
	return nil
}
