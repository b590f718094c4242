package ingress

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// GitLabOptions configures [NewGitLab].
type GitLabOptions struct {
	// Tokens lists the accepted secret tokens, which GitLab sends in X-Gitlab-Token.
	Tokens []string
	// SigningTokens lists the accepted signing tokens (whsec_…) of webhooks that follow Standard Webhooks. Prefer them,
	// because their signatures cover the body and a time. If both kinds are set, a token of either kind is accepted.
	SigningTokens []string
	// Tolerance is the maximum difference between a signed timestamp and the local clock. If it is 0, DefaultTolerance
	// is used.
	Tolerance time.Duration
}

// A GitLab verifies webhooks from GitLab with X-Gitlab-Token or the headers of Standard Webhooks. The delivery's event
// is the body's object_kind (or event_name for system hooks), and its action is the action in object_attributes. The id
// is the webhook-id of a signed message or the Idempotency-Key. If both are missing, it is a hash of the body.
type GitLab struct {
	serviceBase // with the tokens as secrets
	signing     *StandardWebhooks
}

// NewGitLab returns a GitLab service. At least one token of either kind is required. It returns an error if a token is
// short or malformed.
func NewGitLab(o GitLabOptions) (*GitLab, error) {
	g := &GitLab{serviceBase: serviceBase{provider: ProviderGitLab}}
	var err error
	if len(o.Tokens) > 0 || len(o.SigningTokens) == 0 {
		if g.serviceBase, err = newService(ProviderGitLab, o.Tokens); err != nil {
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

// MaxBody returns 25 MB, the maximum size of a body from GitLab.
func (*GitLab) MaxBody() int64 { return 25 << 20 }

// Receive verifies the request and decodes the event from the body. It verifies the signature if the request is signed
// and signing tokens are configured. Otherwise, it checks X-Gitlab-Token.
func (g *GitLab) Receive(r *http.Request) (Result, error) {
	if err := CheckJSON(r); err != nil {
		return Result{}, err
	}
	id, body, err := g.verifyRequest(r)
	if err != nil {
		return Result{}, err
	}
	var b struct {
		Kind       string `json:"object_kind"`
		Name       string `json:"event_name"`
		Attributes struct {
			Action string `json:"action"`
		} `json:"object_attributes"`
	}
	if err := decode(body, &b); err != nil {
		return Result{}, err
	}
	d := Delivery{ID: cmp.Or(id, r.Header.Get("Idempotency-Key")), Event: cmp.Or(b.Kind, b.Name), Action: b.Attributes.Action, Body: body}
	if d.Event == "" {
		return Result{}, errors.New("object_kind is missing")
	}
	if d.ID == "" { // X-Gitlab-Event-UUID is not unique: events triggered by a webhook share it
		d.ID = bodyID(body)
	}
	return singleDelivery(d), nil
}

// verifyRequest verifies a request and returns its body, and its webhook-id if the request is signed.
func (g *GitLab) verifyRequest(r *http.Request) (id string, body []byte, err error) {
	if g.signing != nil && r.Header.Get(wire.HeaderWebhookSignature) != "" {
		return g.signing.verifyRequest(r)
	}
	if len(g.secrets) == 0 {
		return "", nil, ErrHeaders
	}
	token, err := singleHeader(r.Header, "X-Gitlab-Token")
	if err != nil {
		return "", nil, err
	}
	if !g.hasToken(token) {
		return "", nil, ErrSignature
	}
	if body, err = io.ReadAll(r.Body); err == nil {
		body, err = Unpack(r, body)
	}
	return "", body, err
}
