package ingress

import (
	"errors"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// GitLabOptions configure [NewGitLab].
type GitLabOptions struct {
	// Tokens are the accepted secret tokens, which GitLab sends as they are in X-Gitlab-Token.
	Tokens []string
	// SigningTokens are the accepted signing tokens (whsec_…) of webhooks that follow Standard Webhooks. Prefer
	// them: they cover the body, and a time. When both kinds are given either will do.
	SigningTokens []string
	// Tolerance is how far the timestamp of a signed message may be from this clock; 0 means DefaultTolerance.
	Tolerance time.Duration
}

// A GitLab verifies webhooks of GitLab, by X-Gitlab-Token or by the headers of Standard Webhooks. The body's
// object_kind (event_name of system hooks) is the event, the action of its object_attributes the action. The id is
// the webhook-id of a signed message, the Idempotency-Key of others, and without one it is made of the body.
type GitLab struct {
	service // its secrets are the tokens
	signing *StandardWebhooks
}

// NewGitLab makes the service; it is an error to give neither kind of token, or an empty or malformed one.
func NewGitLab(o GitLabOptions) (*GitLab, error) {
	g := &GitLab{service: service{provider: ProviderGitLab}}
	var err error
	if len(o.Tokens) > 0 || len(o.SigningTokens) == 0 {
		if g.service, err = newService(ProviderGitLab, o.Tokens); err != nil {
			return nil, err
		}
	}
	if len(o.SigningTokens) > 0 {
		signing := StandardWebhooksOptions{Secrets: o.SigningTokens, Tolerance: o.Tolerance}
		if g.signing, err = newStandard(ProviderGitLab, signing); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Verify checks the signature where there is one and signing tokens are accepted, else X-Gitlab-Token.
func (g *GitLab) Verify(h http.Header, body []byte) error {
	if g.isSigned(h) {
		return g.signing.Verify(h, body)
	}
	if len(g.secrets) == 0 {
		return ErrHeaders
	}
	token, err := header(h, "X-Gitlab-Token")
	if err != nil {
		return err
	}
	if !g.hasToken(token) {
		return ErrSignature
	}
	return nil
}

func (g *GitLab) isSigned(h http.Header) bool {
	return g.signing != nil && h.Get(wire.HeaderWebhookSignature) != ""
}

// Delivery reads the event from the body.
func (g *GitLab) Delivery(h http.Header, body []byte) (Delivery, error) {
	var b struct {
		Kind       string `json:"object_kind"`
		Name       string `json:"event_name"`
		Attributes struct {
			Action string `json:"action"`
		} `json:"object_attributes"`
	}
	if err := decode(body, &b); err != nil {
		return Delivery{}, err
	}
	d := Delivery{Provider: g.provider, Event: b.Kind, Action: b.Attributes.Action}
	if d.Event == "" {
		d.Event = b.Name
	}
	if d.Event == "" {
		return d, errors.New("object_kind is missing")
	}
	switch key := h.Get("Idempotency-Key"); {
	case g.isSigned(h):
		d.ID = h.Get(wire.HeaderWebhookID)
	case key != "":
		d.ID = key
	default: // X-Gitlab-Event-UUID is shared by what a webhook itself sets off
		d.ID = digest(body)
	}
	return d, nil
}
