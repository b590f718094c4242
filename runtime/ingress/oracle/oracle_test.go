package oracle

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-github/v75/github"
	"github.com/slack-go/slack"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stripe/stripe-go/v83/webhook"
	svix "github.com/svix/svix-webhooks/go"

	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
)

const (
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
	other  = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	body   = `{"type":"invoice.paid","id":"evt_1","object":"event","api_version":"x"}`
)

// An oracle is a service's own library: what it signs, and what it says about a message.
type oracle struct {
	service func(secret string) (ingress.Service, error)
	// sign is nil where the library only verifies; then the signature is made by its documentation.
	sign   func(t *testing.T, secret string, at time.Time, body []byte) http.Header
	accept func(secret string, h http.Header, body []byte) error
	// headers are those that authenticate.
	headers []string
}

func sum(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

// verify returns the error of a request that is not verified.
func verify(s ingress.Service, h http.Header, body string) error {
	_, err := s.Receive(request(h, body))
	if errors.Is(err, ingress.ErrHeaders) || errors.Is(err, ingress.ErrStale) || errors.Is(err, ingress.ErrSignature) {
		return err
	}
	return nil
}

func request(h http.Header, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header = h.Clone()
	r.Header.Set("Content-Type", "application/json")
	return r
}

var oracles = map[string]oracle{
	"github": {
		service: func(s string) (ingress.Service, error) {
			return ingress.NewGitHub(ingress.GitHubOptions{Secrets: []string{s}})
		},
		sign: func(_ *testing.T, s string, _ time.Time, b []byte) http.Header {
			return header("X-Hub-Signature-256", "sha256="+sum(s, string(b)))
		},
		accept: func(s string, h http.Header, b []byte) error {
			return github.ValidateSignature(h.Get("X-Hub-Signature-256"), b, []byte(s))
		},
		headers: []string{"X-Hub-Signature-256"},
	},
	"stripe": {
		service: func(s string) (ingress.Service, error) {
			return ingress.NewStripe(ingress.StripeOptions{Secrets: []string{s}})
		},
		sign: func(_ *testing.T, s string, at time.Time, b []byte) http.Header {
			signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: b, Secret: s, Timestamp: at})
			return header("Stripe-Signature", signed.Header)
		},
		accept: func(s string, h http.Header, b []byte) error {
			return webhook.ValidatePayload(b, h.Get("Stripe-Signature"), s)
		},
		headers: []string{"Stripe-Signature"},
	},
	"slack": {
		service: func(s string) (ingress.Service, error) {
			return ingress.NewSlack(ingress.SlackOptions{Secrets: []string{s}})
		},
		sign: func(_ *testing.T, s string, at time.Time, b []byte) http.Header {
			stamp := fmt.Sprint(at.Unix())
			return header("X-Slack-Request-Timestamp", stamp, "X-Slack-Signature", "v0="+sum(s, "v0:"+stamp+":"+string(b)))
		},
		accept: func(s string, h http.Header, b []byte) error {
			v, err := slack.NewSecretsVerifier(h, s)
			if err != nil {
				return err
			}
			if _, err := v.Write(b); err != nil {
				return err
			}
			return v.Ensure()
		},
		headers: []string{"X-Slack-Request-Timestamp", "X-Slack-Signature"},
	},
	"svix": {
		service: func(s string) (ingress.Service, error) {
			return ingress.NewStandardWebhooks(ingress.StandardWebhooksOptions{Secrets: []string{s}})
		},
		sign: func(t *testing.T, s string, at time.Time, b []byte) http.Header {
			w, err := svix.NewWebhook(s)
			if err != nil {
				t.Fatal(err)
			}
			signature, err := w.Sign("msg_1", at, b)
			if err != nil {
				t.Fatal(err)
			}
			return header("svix-id", "msg_1", "svix-timestamp", fmt.Sprint(at.Unix()), "svix-signature", signature)
		},
		accept: func(s string, h http.Header, b []byte) error {
			w, err := svix.NewWebhook(s)
			if err != nil {
				return err
			}
			return w.Verify(b, h)
		},
		headers: []string{"Svix-Id", "Svix-Timestamp", "Svix-Signature"},
	},
	"standard": {
		service: func(s string) (ingress.Service, error) {
			return ingress.NewStandardWebhooks(ingress.StandardWebhooksOptions{Secrets: []string{s}})
		},
		sign: func(t *testing.T, s string, at time.Time, b []byte) http.Header {
			w, err := standardwebhooks.NewWebhook(s)
			if err != nil {
				t.Fatal(err)
			}
			signature, err := w.Sign("msg_1", at, b)
			if err != nil {
				t.Fatal(err)
			}
			return header("webhook-id", "msg_1", "webhook-timestamp", fmt.Sprint(at.Unix()), "webhook-signature", signature)
		},
		accept: func(s string, h http.Header, b []byte) error {
			w, err := standardwebhooks.NewWebhook(s)
			if err != nil {
				return err
			}
			return w.Verify(b, h)
		},
		headers: []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"},
	},
}

// What a library signs is verified; what it refuses for its secret, its body or its age is refused.
func TestAgree(t *testing.T) {
	for name, o := range oracles {
		t.Run(name, func(t *testing.T) {
			s, err := o.service(secret)
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			for _, c := range []struct {
				what, secret, body string
				at                 time.Time
			}{
				{"good", secret, body, now}, {"a minute old", secret, body, now.Add(-time.Minute)}, {"another secret", other, body, now},
				{"another body", secret, body + " ", now}, {"ten minutes old", secret, body, now.Add(-10 * time.Minute)},
			} {
				h := o.sign(t, c.secret, c.at, []byte(body))
				ours, theirs := verify(s, h, c.body), o.accept(secret, h, []byte(c.body))
				if (ours == nil) != (theirs == nil) {
					t.Errorf("%s: ours %v, theirs %v", c.what, ours, theirs)
				}
				if c.what == "good" && ours != nil {
					t.Errorf("what is good is refused: %v", ours)
				}
			}
		})
	}
}

// What is verified here the library verifies too, whatever is done to the headers.
func TestNeverWeaker(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pieces := []string{",", " ", "=", "v1", "v0", "v1a,", "t=", "sha256=", "sha1=", "0", "+", "-", "\t", "é", "AAAA", "v1=00,", "v0=", "\x00"}
	mutate := func(text string) string {
		switch i := r.IntN(len(text) + 1); r.IntN(5) {
		case 0:
			return text[:i]
		case 1:
			return text[i:]
		case 2:
			return text[:i] + pieces[r.IntN(len(pieces))] + text[i:]
		case 3:
			return text + pieces[r.IntN(len(pieces))] + text
		default:
			return strings.ToUpper(text[:i]) + text[i:]
		}
	}
	for name, o := range oracles {
		t.Run(name, func(t *testing.T) {
			s, err := o.service(secret)
			if err != nil {
				t.Fatal(err)
			}
			accepted := 0
			for range 5000 {
				h := o.sign(t, secret, time.Now(), []byte(body))
				for range 1 + r.IntN(2) {
					at := o.headers[r.IntN(len(o.headers))]
					h.Set(at, mutate(h.Get(at)))
				}
				if verify(s, h, body) != nil {
					continue
				}
				accepted++
				if err := o.accept(secret, h, []byte(body)); err != nil {
					t.Fatalf("%q is verified, and the library says %v", h, err)
				}
			}
			if accepted == 0 || accepted == 5000 {
				t.Errorf("%d of 5,000 are verified: the test tells nothing", accepted)
			}
		})
	}
}
