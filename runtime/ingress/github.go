package ingress

import (
	"errors"
	"net/http"
)

// GitHubOptions configures [NewGitHub].
type GitHubOptions struct {
	// Secrets lists the accepted secrets. The request must be signed with one of these secrets. List more than one
	// during rotation.
	Secrets []string
}

// A GitHub verifies webhooks from GitHub with X-Hub-Signature-256, an HMAC-SHA-256 of the body. It ignores the older
// X-Hub-Signature with SHA-1. It accepts both content types of GitHub: JSON, and forms with the JSON in the field payload.
// The delivery's event is X-GitHub-Event, its action is the body's action, and its id is X-GitHub-Delivery.
//
// GitHub signs neither these headers nor a time. Anyone who sees a message in transit can replay it with another id, so
// the URL must be https.
type GitHub struct{ serviceBase }

// NewGitHub returns the service. At least one secret is required, and each must have at least 8 bytes.
func NewGitHub(o GitHubOptions) (*GitHub, error) {
	s, err := newService(ProviderGitHub, o.Secrets)
	if err != nil {
		return nil, err
	}
	return &GitHub{s}, nil
}

// MaxBody returns 25 MB, the maximum size of a body from GitHub.
func (*GitHub) MaxBody() int64 { return 25 << 20 }

// Receive checks X-Hub-Signature-256. It reads the event and the id from their headers, and the action from the body.
func (g *GitHub) Receive(r *http.Request) (Result, error) {
	form, check := isForm(r), CheckJSON
	if form {
		check = checkPost
	}
	if err := check(r); err != nil {
		return Result{}, err
	}
	signature, err := hexHeader(r.Header, "X-Hub-Signature-256", "sha256=")
	if err != nil {
		return Result{}, err
	}
	body, err := g.verifiedBody(r, newSHA256, [][]byte{signature}, "")
	if err != nil {
		return Result{}, err
	}
	if form {
		if body, err = formPayload(body); err != nil {
			return Result{}, err
		}
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
	return singleDelivery(d), nil
}
