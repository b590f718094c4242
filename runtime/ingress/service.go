package ingress

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"
)

// Words that event files name services by.
const (
	ProviderGitHub           = "github"
	ProviderStripe           = "stripe"
	ProviderSlack            = "slack"
	ProviderGitLab           = "gitlab"
	ProviderStandardWebhooks = "standard-webhooks"
	ProviderHMAC             = "hmac"
	ProviderCloudEvents      = "cloudevents"
)

// Errors of [Service.Verify]. They are for the operator's log: whoever sent the message is told 401, whichever
// it was.
var (
	// ErrHeaders is a message whose authenticating headers are missing, repeated or malformed.
	ErrHeaders = errors.New("ingress: the headers that authenticate are missing or malformed")
	// ErrStale is a message whose timestamp is too far from the present.
	ErrStale = errors.New("ingress: the timestamp is too old or too new")
	// ErrSignature is a message that no accepted secret has signed.
	ErrSignature = errors.New("ingress: no signature matches")
)

// DefaultTolerance is how far the timestamp of a message may be from this clock, either way.
const DefaultTolerance = 5 * time.Minute

// A Service verifies the webhooks of one service and reads what they say about themselves. It is safe for
// concurrent use.
type Service interface {
	// Provider is the word that routes name the service by.
	Provider() string
	// Verify checks that the service sent the body, which is the bytes as received. Errors are [ErrHeaders],
	// [ErrStale] and [ErrSignature], or wrap one of them.
	Verify(h http.Header, body []byte) error
	// Delivery reads a verified message. The error says what is missing or malformed, and never repeats a value.
	Delivery(h http.Header, body []byte) (Delivery, error)
}

// hopeless is why no body could be verified with these headers, so that none need be read. Services of others are
// asked with the body only.
func hopeless(s Service, h http.Header) error {
	byToken := false
	switch s := s.(type) {
	case *GitHub, *Stripe, *Slack, *StandardWebhooks, *HMAC:
	case *GitLab:
		byToken = !s.isSigned(h)
	case *CloudEvents:
		byToken = true
	default:
		return nil
	}
	if err := s.Verify(h, nil); byToken || !errors.Is(err, ErrSignature) {
		return err
	}
	return nil
}

// A Delivery is what a verified message says about itself.
type Delivery struct {
	// Provider is the service's word.
	Provider string
	// ID is the service's id of the delivery, the same when it is delivered again. It is empty where routes say
	// where the id is (see [From]).
	ID string
	// Event is the service's name of what happened, such as "issues" or "invoice.paid"; Action tells apart what
	// the service sends under one name, such as "opened", and is empty where it does not.
	Event, Action string
	// Time is when it happened according to the service; zero where it does not say.
	Time time.Time
	// Challenge is set for a message that is no event and only wants this text back (Slack's url_verification).
	Challenge string
}

// A service is what all services have in common.
type service struct {
	provider string
	secrets  [][]byte
}

// Provider returns the word that routes name the service by.
func (s *service) Provider() string { return s.provider }

// Format writes the provider's word, so that a service in a log shows no secret.
func (s *service) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "ingress."+s.provider) }

// minSecret is how many bytes a secret has at least.
const minSecret = 8

// newService refuses what would let everybody in.
func newService(provider string, secrets []string) (service, error) {
	s := service{provider: provider}
	if len(secrets) == 0 {
		return s, needsSecret(provider)
	}
	for i, text := range secrets {
		if len(text) < minSecret {
			return s, fmt.Errorf("ingress: %s: secret %d of %d has %d bytes, fewer than %d: it could be guessed",
				provider, i+1, len(secrets), len(text), minSecret)
		}
		s.secrets = append(s.secrets, []byte(text))
	}
	return s, nil
}

// needsSecret is the error of a service that nothing could authenticate to.
func needsSecret(provider string) error {
	return fmt.Errorf("ingress: %s: no secret given: without one anybody could send events", provider)
}

// signed reports whether one of the secrets makes one of the signatures over the parts of the message. Every
// secret is tried against every signature, whether or not one matched before.
func (s *service) signed(newHash func() hash.Hash, signatures [][]byte, parts ...[]byte) bool {
	matched := false
	for _, secret := range s.secrets {
		mac := hmac.New(newHash, secret)
		for _, p := range parts {
			mac.Write(p)
		}
		want := mac.Sum(nil)
		for _, got := range signatures {
			if hmac.Equal(got, want) {
				matched = true
			}
		}
	}
	return matched
}

// hasToken reports whether a token is one of those accepted, in constant time: hashes have one length, so that the
// comparison tells nothing of that of the token.
func (s *service) hasToken(token string) bool {
	got := sha256.Sum256([]byte(token))
	matched := 0
	for _, secret := range s.secrets {
		want := sha256.Sum256(secret)
		matched |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return matched == 1
}

// Bounds of headers in bytes, and of the signatures in one of them.
const (
	maxHeader     = 4 << 10
	maxSignatures = 16
)

// header returns the value of a header that must be there once, within the bound.
func header(h http.Header, name string) (string, error) {
	values := h.Values(name)
	if len(values) != 1 || values[0] == "" || len(values[0]) > maxHeader {
		return "", ErrHeaders
	}
	return values[0], nil
}

// seconds reads a Unix time of plain digits.
func seconds(text string) (time.Time, error) {
	if len(text) == 0 || len(text) > 12 {
		return time.Time{}, ErrHeaders
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return time.Time{}, ErrHeaders
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, ErrHeaders
	}
	return time.Unix(n, 0), nil
}

// fresh checks a timestamp against this clock.
func fresh(at time.Time, tolerance time.Duration) error {
	if tolerance <= 0 {
		tolerance = DefaultTolerance
	}
	if d := time.Since(at); d > tolerance || d < -tolerance {
		return ErrStale
	}
	return nil
}

var newSHA256 = sha256.New
