package ingress

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// StandardWebhooksOptions configures [NewStandardWebhooks].
type StandardWebhooksOptions struct {
	// Secrets lists the accepted secrets, which are base64 of 24 to 64 bytes, with or without the prefix whsec_. If the
	// list is not empty, the message must have a v1 signature made with one of the secrets. List more than one during
	// rotation.
	Secrets []string
	// Keys lists the accepted public keys. If the list is not empty, the message must have a v1a signature made with
	// one of the keys.
	Keys []webhook.PublicKey
	// Tolerance is the maximum difference between a timestamp and the local clock. If it is 0, DefaultTolerance is
	// used.
	Tolerance time.Duration
}

// A StandardWebhooks verifies messages that follow the Standard Webhooks specification. These include messages from
// Svix and from services that send through Svix, which uses different names for the same headers, such as svix-id. The
// delivery's event is the body's type, its id is the webhook-id, and its time is the body's timestamp.
type StandardWebhooks struct {
	serviceBase
	verifier webhook.Verifier
}

// NewStandardWebhooks returns the service. It returns an error if no secret or key is given, or if a secret is
// malformed.
func NewStandardWebhooks(o StandardWebhooksOptions) (*StandardWebhooks, error) {
	return newStandard(ProviderStandardWebhooks, o)
}

func newStandard(provider string, o StandardWebhooksOptions) (*StandardWebhooks, error) {
	s := &StandardWebhooks{serviceBase{provider: provider}, webhook.Verifier{Keys: o.Keys, Tolerance: o.Tolerance}}
	for i, text := range o.Secrets {
		secret, err := webhook.ParseSecret(wire.SecretPrefix + strings.TrimPrefix(text, wire.SecretPrefix))
		if err != nil {
			return nil, fmt.Errorf("ingress: %s: secret %d of %d: %w", provider, i+1, len(o.Secrets), err)
		}
		s.verifier.Secrets = append(s.verifier.Secrets, secret)
	}
	if len(o.Secrets)+len(o.Keys) == 0 {
		return nil, missingSecretError(provider)
	}
	return s, nil
}

// svixNames maps the standard headers to Svix's names.
var svixNames = map[string]string{
	wire.HeaderWebhookID:        "svix-id",
	wire.HeaderWebhookTimestamp: "svix-timestamp",
	wire.HeaderWebhookSignature: "svix-signature",
}

// standardHeaders returns the three headers under their standard names. It uses Svix's headers if the standard headers
// are missing.
func standardHeaders(h http.Header) (http.Header, error) {
	prefer := func(name string) string { return name }
	if h.Get(wire.HeaderWebhookID) == "" && h.Get(wire.HeaderWebhookSignature) == "" {
		prefer = func(name string) string { return svixNames[name] }
	}
	out := make(http.Header, len(svixNames))
	for name := range svixNames {
		value, err := singleHeader(h, prefer(name))
		if err != nil {
			return nil, err
		}
		out.Set(name, value)
	}
	return out, nil
}

// Receive verifies the three headers and decodes the body in the recommended form, which has a type, timestamp and
// data.
func (s *StandardWebhooks) Receive(r *http.Request) (Result, error) {
	if err := CheckJSON(r); err != nil {
		return Result{}, err
	}
	id, body, err := s.verifyRequest(r)
	if err != nil {
		return Result{}, err
	}
	var b struct {
		Type      string         `json:"type"`
		Timestamp jsontext.Value `json:"timestamp"`
	}
	if err := decode(body, &b); err != nil {
		return Result{}, err
	}
	if b.Type == "" {
		return Result{}, errors.New("the type is missing")
	}
	return singleDelivery(Delivery{ID: id, Event: b.Type, Time: parseTime(b.Timestamp), Body: body}), nil
}

// verifyRequest verifies a request and returns its webhook-id and body.
func (s *StandardWebhooks) verifyRequest(r *http.Request) (id string, body []byte, err error) {
	h, err := standardHeaders(r.Header)
	if err != nil {
		return "", nil, err
	}
	// Check the headers before reading the body, because only the signature depends on the body.
	if err := s.verify(h, nil); err != nil && !errors.Is(err, ErrSignature) {
		return "", nil, err
	}
	if body, err = io.ReadAll(r.Body); err != nil {
		return "", nil, err
	}
	if err := s.verify(h, body); err != nil {
		return "", nil, err
	}
	body, err = Unpack(r, body)
	return h.Get(wire.HeaderWebhookID), body, err
}

func (s *StandardWebhooks) verify(h http.Header, body []byte) error {
	switch _, err := s.verifier.Verify(h, body); {
	case err == nil:
		return nil
	case errors.Is(err, webhook.ErrStale):
		return ErrStale
	case errors.Is(err, webhook.ErrSignature):
		return ErrSignature
	}
	return ErrHeaders
}
