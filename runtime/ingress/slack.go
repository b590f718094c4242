package ingress

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// SlackOptions configures [NewSlack].
type SlackOptions struct {
	// Secrets lists the accepted signing secrets of the app. The request must be signed with one of these secrets. List
	// more than one during rotation.
	Secrets []string
	// Tolerance is the maximum difference between a timestamp and the local clock. If it is 0, DefaultTolerance is
	// used.
	Tolerance time.Duration
}

// A Slack verifies requests from Slack's Events API with the v0 signature in X-Slack-Signature. The delivery's event is
// the type of the inner event, its action is the subtype, its id is event_id, and its time is event_time. Receive
// responds to a url_verification with a valid signature. Slash commands and interactive components are not events and
// are not supported.
type Slack struct {
	serviceBase
	tolerance time.Duration
}

// NewSlack returns the service. At least one secret is required, and each must have at least 8 bytes.
func NewSlack(o SlackOptions) (*Slack, error) {
	s, err := newService(ProviderSlack, o.Secrets)
	if err != nil {
		return nil, err
	}
	return &Slack{s, o.Tolerance}, nil
}

// Receive verifies X-Slack-Request-Timestamp and X-Slack-Signature, and decodes the envelope of the Events API.
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
	body, err := s.verifiedBody(r, newSHA256, [][]byte{signature}, "v0:"+stamp+":")
	if err != nil {
		return Result{}, err
	}
	return slackEnvelope(body)
}

// maxChallenge is the maximum length of the challenge in a url_verification, in bytes.
const maxChallenge = 1024

// slackEnvelope decodes the body of a verified request.
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
	d := Delivery{ID: b.EventID, Event: b.Event.Type, Action: b.Event.Subtype, Time: parseTime(b.EventTime), Body: body}
	switch {
	case b.Type == "":
		return Result{}, errors.New("the type is missing")
	case b.Type == "url_verification" && (b.Challenge == "" || len(b.Challenge) > maxChallenge):
		return Result{}, errors.New("the challenge is missing or too long")
	case b.Type == "url_verification":
		plain := http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
		return Result{Answer: &Answer{Header: plain, Body: []byte(b.Challenge)}}, nil
	case b.Type != "event_callback":
		// For example app_rate_limited, which concerns the subscription, not the workspace, and has no id.
		return singleDelivery(Delivery{ID: bodyID(body), Event: b.Type, Body: body}), nil
	case d.ID == "" || d.Event == "":
		return Result{}, errors.New("event_id or the type of the event is missing")
	}
	return singleDelivery(d), nil
}
