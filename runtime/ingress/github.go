package ingress

import (
	"errors"
	"net/http"
)

// GitHubOptions configure [NewGitHub].
type GitHubOptions struct {
	// Secrets are the accepted secrets; one of them must have signed. Give several during a rotation.
	Secrets []string
}

// A GitHub verifies webhooks of GitHub by X-Hub-Signature-256, an HMAC-SHA-256 over the body. The older
// X-Hub-Signature of SHA-1 is ignored. X-GitHub-Event is the event, the body's action the action,
// X-GitHub-Delivery the id.
//
// GitHub signs neither a time nor these headers: anyone who sees a message in transit can send it again under
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

// MaxBody returns 25 MB, the largest body that GitHub sends.
func (*GitHub) MaxBody() int64 { return 25 << 20 }

// Receive checks X-Hub-Signature-256, and reads the event and the id from their headers and the action from the body.
func (g *GitHub) Receive(r *http.Request) (Result, error) {
	if err := CheckJSON(r); err != nil {
		return Result{}, err
	}
	signature, err := hexHeader(r.Header, "X-Hub-Signature-256", "sha256=")
	if err != nil {
		return Result{}, err
	}
	body, err := g.open(r, newSHA256, [][]byte{signature}, "")
	if err != nil {
		return Result{}, err
	}
	var b struct {
		Action string `json:"action"`
	}
	if err := decode(body, &b); err != nil {
		return Result{}, err
	}
	d := Delivery{ID: r.Header.Get("X-GitHub-Delivery"), Event: r.Header.Get("X-GitHub-Event"), Action: b.Action, Body: body}
	if d.ID == "" || d.Event == "" {
		return Result{}, errors.New("X-GitHub-Delivery or X-GitHub-Event is missing")
	}
	return delivered(d), nil
}
