package ingress

import (
	"errors"
	"net/http"
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

// Receive checks X-Slack-Request-Timestamp and X-Slack-Signature, and reads the envelope of the Events API.
func (s *Slack) Receive(r *http.Request) (Result, error) {
	if err := CheckJSON(r); err != nil {
		return Result{}, err
	}
	stamp, err := freshHeader(r.Header, "X-Slack-Request-Timestamp", s.tolerance)
	if err != nil {
		return Result{}, err
	}
	signature, err := hexHeader(r.Header, "X-Slack-Signature", "v0=")
	if err != nil {
		return Result{}, err
	}
	body, err := s.open(r, newSHA256, [][]byte{signature}, "v0:"+stamp+":")
	if err != nil {
		return Result{}, err
	}
	return slackEnvelope(body)
}

// maxChallenge bounds the text that a url_verification wants back.
const maxChallenge = 1024

// slackEnvelope reads the body of a verified request.
func slackEnvelope(body []byte) (Result, error) {
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
		return Result{}, err
	}
	d := Delivery{ID: b.EventID, Event: b.Event.Type, Action: b.Event.Subtype, Time: moment(b.EventTime), Body: body}
	switch {
	case b.Type == "":
		return Result{}, errors.New("the type is missing")
	case b.Type == "url_verification" && (b.Challenge == "" || len(b.Challenge) > maxChallenge):
		return Result{}, errors.New("the challenge is missing or too long")
	case b.Type == "url_verification":
		plain := http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
		return Result{Answer: &Answer{Header: plain, Body: []byte(b.Challenge)}}, nil
	case b.Type != "event_callback":
		// Such as app_rate_limited: about the subscription, not about the workspace, and without an id.
		return delivered(Delivery{ID: digest(body), Event: b.Type, Body: body}), nil
	case d.ID == "" || d.Event == "":
		return Result{}, errors.New("event_id or the type of the event is missing")
	}
	return delivered(d), nil
}
