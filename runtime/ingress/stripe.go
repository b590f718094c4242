package ingress

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// StripeOptions configure [NewStripe].
type StripeOptions struct {
	// Secrets are the accepted signing secrets of the endpoint as Stripe shows them, whsec_ included; one of
	// them must have signed. Several are for the time of a rotation.
	Secrets []string
	// Tolerance is how far the timestamp may be from this clock; 0 means DefaultTolerance.
	Tolerance time.Duration
}

// A Stripe verifies webhooks of Stripe by the v1 signatures of Stripe-Signature. The event's type is the event,
// its id (evt_…) the id, created the time. Events of both generations are read, snapshot and thin ones.
type Stripe struct {
	service
	tolerance time.Duration
}

// NewStripe makes the service. No secret, or one of less than 8 bytes, is an error.
func NewStripe(o StripeOptions) (*Stripe, error) {
	s, err := newService(ProviderStripe, o.Secrets)
	if err != nil {
		return nil, err
	}
	return &Stripe{s, o.Tolerance}, nil
}

// Receive checks Stripe-Signature and reads the event that the body is.
func (s *Stripe) Receive(r *http.Request) (Result, error) {
	if err := CheckJSON(r); err != nil {
		return Result{}, err
	}
	text, err := header(r.Header, "Stripe-Signature")
	if err != nil {
		return Result{}, err
	}
	stamp, signatures, err := stripeSignature(text)
	if err != nil {
		return Result{}, err
	}
	if err := fresh(stamp, s.tolerance); err != nil {
		return Result{}, err
	}
	body, err := s.open(r, newSHA256, signatures, stamp+".")
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
	return delivered(Delivery{ID: b.ID, Event: b.Type, Time: moment(b.Created), Body: body}), nil
}

// stripeSignature reads t=TIME,v1=HEX,…: one time, and signatures of which those of other schemes, and v1 ones
// that are no hex, are passed over.
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
