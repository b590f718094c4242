package ingress

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// SlackOptions configure [NewSlack].
type SlackOptions struct {
	// Secrets are the accepted signing secrets of the app; one of them must have signed. Several are for the time
	// of a rotation.
	Secrets []string
	// Tolerance is how far the timestamp may be from this clock; 0 means DefaultTolerance.
	Tolerance time.Duration
}

// A Slack verifies requests of Slack's Events API by the v0 signature of X-Slack-Signature. The type of the
// inner event is the event, its subtype the action, event_id the id, event_time the time. A url_verification is
// answered once its signature holds. Slash commands and interactive components are no events and not read.
type Slack struct {
	service
	tolerance time.Duration
}

// NewSlack makes the service. No secret, or one of less than 8 bytes, is an error.
func NewSlack(o SlackOptions) (*Slack, error) {
	s, err := newService(ProviderSlack, o.Secrets)
	if err != nil {
		return nil, err
	}
	return &Slack{s, o.Tolerance}, nil
}

// Verify checks X-Slack-Request-Timestamp and X-Slack-Signature.
func (s *Slack) Verify(h http.Header, body []byte) error {
	stamp, err := header(h, "X-Slack-Request-Timestamp")
	if err != nil {
		return err
	}
	text, err := header(h, "X-Slack-Signature")
	if err != nil {
		return err
	}
	coded, ok := strings.CutPrefix(text, "v0=")
	signature, err := hex.DecodeString(coded)
	if !ok || err != nil || len(signature) == 0 {
		return ErrHeaders
	}
	at, err := seconds(stamp)
	if err != nil {
		return err
	}
	if err := fresh(at, s.tolerance); err != nil {
		return err
	}
	if !s.signed(newSHA256, [][]byte{signature}, []byte("v0:"+stamp+":"), body) {
		return ErrSignature
	}
	return nil
}

// maxChallenge bounds the text that a url_verification wants back.
const maxChallenge = 1024

// Delivery reads the envelope of the Events API.
func (s *Slack) Delivery(_ http.Header, body []byte) (Delivery, error) {
	var b struct {
		Type      string         `json:"type"`
		Challenge string         `json:"challenge"`
		EventID   string         `json:"event_id"`
		EventTime jsontext.Value `json:"event_time"`
		Event     struct {
			Type    string `json:"type"`
			Subtype string `json:"subtype"`
		} `json:"event"`
	}
	if err := decode(body, &b); err != nil {
		return Delivery{}, err
	}
	d := Delivery{Provider: s.provider}
	switch b.Type {
	case "url_verification":
		if b.Challenge == "" || len(b.Challenge) > maxChallenge {
			return d, errors.New("the challenge is missing or too long")
		}
		d.Event, d.Challenge = b.Type, b.Challenge
		return d, nil
	case "event_callback":
		d.ID, d.Event, d.Action, d.Time = b.EventID, b.Event.Type, b.Event.Subtype, moment(b.EventTime)
		if d.ID == "" || d.Event == "" {
			return d, errors.New("event_id or the type of the event is missing")
		}
		return d, nil
	}
	// Such as app_rate_limited: about the subscription, not about the workspace, and without an id.
	if d.Event = b.Type; d.Event == "" {
		return d, errors.New("the type is missing")
	}
	d.ID = digest(body)
	return d, nil
}
