package ingress

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
)

// GitHubOptions configure [NewGitHub].
type GitHubOptions struct {
	// Secrets are the accepted secrets; one of them must have signed. Several are for the time of a rotation.
	Secrets []string
}

// A GitHub verifies webhooks of GitHub by X-Hub-Signature-256, an HMAC-SHA-256 over the body. The older
// X-Hub-Signature of SHA-1 is ignored. X-GitHub-Event is the event, the body's action the action,
// X-GitHub-Delivery the id.
//
// GitHub signs neither a time nor these headers: whoever sees a message on its way could send it again under
// another id, so its URL must be https.
type GitHub struct{ service }

// NewGitHub makes the service. No secret, or one of less than 8 bytes, is an error.
func NewGitHub(o GitHubOptions) (*GitHub, error) {
	s, err := newService(ProviderGitHub, o.Secrets)
	if err != nil {
		return nil, err
	}
	return &GitHub{s}, nil
}

// Verify checks X-Hub-Signature-256.
func (g *GitHub) Verify(h http.Header, body []byte) error {
	text, err := header(h, "X-Hub-Signature-256")
	if err != nil {
		return err
	}
	coded, ok := strings.CutPrefix(text, "sha256=")
	signature, err := hex.DecodeString(coded)
	if !ok || err != nil || len(signature) == 0 {
		return ErrHeaders
	}
	if !g.signed(newSHA256, [][]byte{signature}, body) {
		return ErrSignature
	}
	return nil
}

// Delivery reads the event and the id from their headers, the action from the body.
func (g *GitHub) Delivery(h http.Header, body []byte) (Delivery, error) {
	var b struct {
		Action string `json:"action"`
	}
	if err := decode(body, &b); err != nil {
		return Delivery{}, err
	}
	d := Delivery{Provider: g.provider, ID: h.Get("X-GitHub-Delivery"), Event: h.Get("X-GitHub-Event"), Action: b.Action}
	if d.ID == "" || d.Event == "" {
		return d, errors.New("X-GitHub-Delivery or X-GitHub-Event is missing")
	}
	return d, nil
}
