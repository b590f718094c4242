package ingress

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// StripeOptions configures [NewStripe].
type StripeOptions struct {
	// Secrets lists the accepted signing secrets of the endpoint in the form that Stripe shows, including whsec_. The
	// request must be signed with one of these secrets. List more than one during rotation.
	Secrets []string
	// Tolerance is the maximum difference between a timestamp and the local clock. If it is 0, DefaultTolerance is
	// used.
	Tolerance time.Duration
}

// A Stripe verifies webhooks from Stripe with the v1 signatures in Stripe-Signature. The delivery's event, id and time
// are the event's type, id (evt_…) and created. It supports both snapshot and thin events.
type Stripe struct {
	serviceBase
	tolerance time.Duration
}

// NewStripe returns the service. At least one secret is required, and each must have at least 8 bytes.
func NewStripe(o StripeOptions) (*Stripe, error) {
	s, err := newService(ProviderStripe, o.Secrets)
	if err != nil {
		return nil, err
	}
	return &Stripe{s, o.Tolerance}, nil
}

// Receive verifies Stripe-Signature and decodes the event in the body.
func (s *Stripe) Receive(r *http.Request) (Result, error) {
	if err := CheckJSON(r); err != nil {
		return Result{}, err
	}
	text, err := singleHeader(r.Header, "Stripe-Signature")
	if err != nil {
		return Result{}, err
	}
	stamp, signatures, err := stripeSignature(text)
	if err != nil {
		return Result{}, err
	}
	if err := checkFresh(stamp, s.tolerance); err != nil {
		return Result{}, err
	}
	body, err := s.verifiedBody(r, newSHA256, signatures, stamp+".")
	if err != nil {
		return Result{}, err
	}
	var b struct {
		ID      string         `json:"id"`
		Type    string         `json:"type"`
		Created jsontext.Value `json:"created"`
	}
	if err := decode(body, &b); err != nil {
		return Result{}, err
	}
	if b.ID == "" || b.Type == "" {
		return Result{}, errors.New("id or type of the event is missing")
	}
	return singleDelivery(Delivery{ID: b.ID, Event: b.Type, Time: parseTime(b.Created), Body: body}), nil
}

// stripeSignature parses t=TIME,v1=HEX,…, which has one time and any number of signatures. It skips signatures of other
// schemes and v1 signatures that are not hex.
func stripeSignature(text string) (stamp string, signatures [][]byte, err error) {
	for part := range strings.SplitSeq(text, ",") {
		scheme, value, ok := strings.Cut(part, "=")
		switch {
		case !ok || strings.Contains(value, "="):
			return "", nil, ErrHeaders
		case scheme == "t" && stamp == "":
			stamp = value
		case scheme == "t":
			return "", nil, ErrHeaders
		case scheme == "v1":
			if signature, err := hex.DecodeString(value); err == nil && len(signature) > 0 {
				signatures = append(signatures, signature)
			}
		}
	}
	if stamp == "" || len(signatures) == 0 || len(signatures) > maxSignatures {
		return "", nil, ErrHeaders
	}
	return stamp, signatures, nil
}
