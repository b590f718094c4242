package ingress_test

import (
	"crypto"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

const (
	whsec    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherKey = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
)

func must[S ingress.Service](t *testing.T) func(s S, err error) ingress.Service {
	return func(s S, err error) ingress.Service {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func standardSignature(t *testing.T, secret, id, stamp, body string) string {
	t.Helper()
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	raw := sum(string(key), id, ".", stamp, ".", body)
	var b []byte
	if _, err := fmt.Sscanf(raw, "%x", &b); err != nil {
		t.Fatal(err)
	}
	return "v1," + base64.StdEncoding.EncodeToString(b)
}

// A message that a service sends, with what has to be refused of it.
type message struct {
	service func(t *testing.T, secrets ...string) ingress.Service
	// secrets are two that the service may have.
	secrets [2]string
	body    string
	// sign gives the headers of the body, signed with a secret at an offset from now.
	sign func(t *testing.T, secret, body string, at time.Duration) map[string]string
	// timed tells that a message is only good for a while.
	timed bool
	// signature names the header that authenticates.
	signature             string
	id, event, action     string
	wantTime, unsignedEnd bool
}

func messages() map[string]message {
	return map[string]message{
		"github": {
			service: func(t *testing.T, s ...string) ingress.Service { return gitHub(t, s...) },
			secrets: [2]string{secret, "another one"}, body: opened, signature: "X-Hub-Signature-256", id: "d-1", event: "issues", action: "opened",
			sign: func(_ *testing.T, secret, body string, _ time.Duration) map[string]string {
				return map[string]string{"X-GitHub-Event": "issues", "X-GitHub-Delivery": "d-1", "X-Hub-Signature-256": "sha256=" + sum(secret, body)}
			},
		},
		"stripe": {
			service: func(t *testing.T, s ...string) ingress.Service {
				return must[*ingress.Stripe](t)(ingress.NewStripe(ingress.StripeOptions{Secrets: s}))
			},
			secrets: [2]string{"whsec_test", "whsec_other"}, timed: true, signature: "Stripe-Signature", wantTime: true,
			body: `{"id":"evt_1","object":"event","type":"invoice.paid","created":1700000000,"data":{"object":{}}}`, id: "evt_1", event: "invoice.paid",
			sign: func(_ *testing.T, secret, body string, at time.Duration) map[string]string {
				stamp := unix(at)
				// As while Stripe rolls a secret: one signature for each, and the test scheme v0.
				return map[string]string{"Stripe-Signature": "t=" + stamp + ",v0=00,v1=" + sum("rolled", stamp, ".", body) + ",v1=" + sum(secret, stamp, ".", body)}
			},
		},
		"slack": {
			service: func(t *testing.T, s ...string) ingress.Service {
				return must[*ingress.Slack](t)(ingress.NewSlack(ingress.SlackOptions{Secrets: s}))
			},
			secrets: [2]string{"8f742231b10e8888abcd99yyyzzz85a5", "another one"}, timed: true, signature: "X-Slack-Signature", wantTime: true,
			body: `{"type":"event_callback","event_id":"Ev1","event_time":1700000000,"event":{"type":"message","subtype":"channel_join"}}`,
			id:   "Ev1", event: "message", action: "channel_join",
			sign: func(_ *testing.T, secret, body string, at time.Duration) map[string]string {
				stamp := unix(at)
				return map[string]string{"X-Slack-Request-Timestamp": stamp, "X-Slack-Signature": "v0=" + sum(secret, "v0:", stamp, ":", body)}
			},
		},
		"gitlab token": {
			service: func(t *testing.T, s ...string) ingress.Service {
				return must[*ingress.GitLab](t)(ingress.NewGitLab(ingress.GitLabOptions{Tokens: s}))
			},
			secrets: [2]string{"one token", "another token"}, signature: "X-Gitlab-Token", unsignedEnd: true,
			body: `{"object_kind":"issue","object_attributes":{"action":"open"}}`, id: "key-1", event: "issue", action: "open",
			sign: func(_ *testing.T, secret, _ string, _ time.Duration) map[string]string {
				return map[string]string{"X-Gitlab-Token": secret, "Idempotency-Key": "key-1"}
			},
		},
		"cloudevents": {
			service: func(t *testing.T, s ...string) ingress.Service {
				return must[*ingress.CloudEvents](t)(ingress.NewCloudEvents(ingress.CloudEventsOptions{Tokens: s}))
			},
			secrets: [2]string{"one token", "another token"}, signature: "Authorization", unsignedEnd: true, wantTime: true,
			body: `{"specversion":"1.0","id":"1","source":"/shop","type":"order.created","time":"2023-11-14T22:13:20Z"}`, id: "/shop|1", event: "order.created",
			sign: func(_ *testing.T, secret, _ string, _ time.Duration) map[string]string {
				return map[string]string{"Authorization": "Bearer " + secret, "Content-Type": "application/cloudevents+json"}
			},
		},
		"gitlab signed": {
			service: func(t *testing.T, s ...string) ingress.Service {
				return must[*ingress.GitLab](t)(ingress.NewGitLab(ingress.GitLabOptions{SigningTokens: s}))
			},
			secrets: [2]string{whsec, otherKey}, timed: true, signature: "Webhook-Signature",
			body: `{"event_name":"project_create"}`, id: "msg_1", event: "project_create",
			sign: func(t *testing.T, secret, body string, at time.Duration) map[string]string {
				stamp := unix(at)
				return map[string]string{"webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": standardSignature(t, secret, "msg_1", stamp, body)}
			},
		},
		"standard": {
			service: func(t *testing.T, s ...string) ingress.Service {
				return must[*ingress.StandardWebhooks](t)(ingress.NewStandardWebhooks(ingress.StandardWebhooksOptions{Secrets: s}))
			},
			secrets: [2]string{whsec, otherKey}, timed: true, signature: "Webhook-Signature", wantTime: true,
			body: `{"type":"user.created","timestamp":"2023-11-14T22:13:20Z","data":{}}`, id: "msg_1", event: "user.created",
			sign: func(t *testing.T, secret, body string, at time.Duration) map[string]string {
				stamp := unix(at)
				return map[string]string{"webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": standardSignature(t, secret, "msg_1", stamp, body)}
			},
		},
		"svix": {
			service: func(t *testing.T, s ...string) ingress.Service {
				return must[*ingress.StandardWebhooks](t)(ingress.NewStandardWebhooks(ingress.StandardWebhooksOptions{Secrets: s}))
			},
			secrets: [2]string{whsec, otherKey}, timed: true, signature: "Svix-Signature",
			body: `{"type":"user.created","data":{}}`, id: "msg_1", event: "user.created",
			sign: func(t *testing.T, secret, body string, at time.Duration) map[string]string {
				stamp := unix(at)
				return map[string]string{"svix-id": "msg_1", "svix-timestamp": stamp, "svix-signature": standardSignature(t, secret, "msg_1", stamp, body)}
			},
		},
		"hmac": {
			service: func(t *testing.T, s ...string) ingress.Service {
				return must[*ingress.HMAC](t)(ingress.NewHMAC(ingress.HMACOptions{Secrets: s, Header: "X-Signature", Prefix: "sha512=", Encoding: "base64",
					Hash: crypto.SHA512, Event: "X-Topic", Action: "/what"}))
			},
			secrets: [2]string{"secret 1", "secret 2"}, signature: "X-Signature", body: `{"what":"made"}`, event: "order", action: "made",
			sign: func(_ *testing.T, secret, body string, _ time.Duration) map[string]string {
				mac := hmac.New(sha512.New, []byte(secret))
				mac.Write([]byte(body))
				return map[string]string{"X-Topic": "order", "X-Signature": "sha512=" + base64.StdEncoding.EncodeToString(mac.Sum(nil))}
			},
		},
	}
}

func headerOf(m map[string]string) http.Header {
	h := http.Header{}
	for k, v := range m {
		h.Set(k, v)
	}
	return h
}

// Every service: what it signs is verified and read; what another signs, a changed body, an old or a future
// message, a missing, doubled, empty or mangled header is not.
func TestServices(t *testing.T) {
	for name, m := range messages() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := m.service(t, m.secrets[:]...)
				verdict := func(h map[string]string, body string) error { return verify(s, headerOf(h), []byte(body)) }
				for _, secret := range m.secrets { // both, as during a rotation
					h := m.sign(t, secret, m.body, 0)
					if err := verdict(h, m.body); err != nil {
						t.Fatalf("what is signed is refused: %v", err)
					}
					d, err := read(s, headerOf(h), []byte(m.body))
					if err != nil || d.ID != m.id || d.Event != m.event || d.Action != m.action || string(d.Body) != m.body {
						t.Errorf("read %+v, %v", d, err)
					}
					if m.wantTime && d.Time.Unix() != 1700000000 {
						t.Errorf("the time is %v", d.Time)
					}
				}
				good := m.sign(t, m.secrets[0], m.body, 0)
				third := m.secrets[0] + "x"
				if m.secrets[0] == whsec {
					third = "whsec_" + base64.StdEncoding.EncodeToString([]byte("a third key of 26 bytes .."))
				}
				if err := verdict(m.sign(t, third, m.body, 0), m.body); !errors.Is(err, ingress.ErrSignature) {
					t.Errorf("another secret: %v", err)
				}
				one := m.service(t, m.secrets[0])
				if verify(one, headerOf(m.sign(t, m.secrets[1], m.body, 0)), []byte(m.body)) == nil {
					t.Error("a secret that is no longer accepted is")
				}
				if err := verdict(good, m.body+" "); err == nil != m.unsignedEnd {
					t.Errorf("a changed body: %v", err)
				}
				for _, at := range []time.Duration{-6 * time.Minute, 6 * time.Minute} {
					if err := verdict(m.sign(t, m.secrets[0], m.body, at), m.body); m.timed != errors.Is(err, ingress.ErrStale) {
						t.Errorf("sent at %v from now: %v", at, err)
					}
				}
				value := good[headerKey(good, m.signature)]
				for _, wrong := range []string{"", "x", value + "0", value[:len(value)-1], strings.Replace(value, "=", "", 1), "sha256=", "sha256=zz", "t=1", "t=,v1=", ",", "=",
					"v0=", "v1,", strings.Repeat(value+",", 300)} {
					if wrong == value {
						continue
					}
					h := maps.Clone(good)
					h[headerKey(good, m.signature)] = wrong
					if verdict(h, m.body) == nil {
						t.Errorf("%s %.80q is accepted", m.signature, wrong)
					}
				}
				h := headerOf(good)
				h.Add(m.signature, value)
				if err := verify(s, h, []byte(m.body)); !errors.Is(err, ingress.ErrHeaders) {
					t.Errorf("a header that is there twice: %v", err)
				}
				h.Del(m.signature)
				if err := verify(s, h, []byte(m.body)); !errors.Is(err, ingress.ErrHeaders) {
					t.Errorf("a message without a signature: %v", err)
				}
				for _, body := range []string{"", "null", "[]", `"x"`, "{", "{}", `{"a":1,"a":2}`, "{}{}", "{\"a\":\"\xff\"}", strings.Repeat(`{"a":`, 2000)} {
					if _, err := read(s, headerOf(m.sign(t, m.secrets[0], body, 0)), []byte(body)); err == nil && (body != "{}" || m.event == "") {
						if name == "github" && body == "{}" { // such as a ping of no action
							continue
						}
						t.Errorf("a body %.20q is read", body)
					} else if err != nil && strings.Contains(err.Error(), "\xff") {
						t.Errorf("the error repeats the body: %v", err)
					}
				}
				for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
					if text := fmt.Sprintf(verb, s); strings.Contains(text, m.secrets[0]) || strings.Contains(text, fmt.Sprint([]byte(m.secrets[0]))) {
						t.Errorf("%s shows a secret: %s", verb, text)
					}
				}
			})
		})
	}
}

// Senders show the base64 of a secret with or without whsec_, and the reference libraries of Standard Webhooks take
// both.
func TestSecretsWithoutPrefix(t *testing.T) {
	m := messages()["standard"]
	for _, text := range []string{whsec, strings.TrimPrefix(whsec, "whsec_")} {
		h := headerOf(m.sign(t, whsec, m.body, 0))
		if err := verify(m.service(t, text), h, []byte(m.body)); err != nil {
			t.Errorf("a secret of %d bytes: %v", len(text), err)
		}
		if err := verify(m.service(t, strings.TrimPrefix(otherKey, "whsec_")), h, []byte(m.body)); !errors.Is(err, ingress.ErrSignature) {
			t.Errorf("another secret: %v", err)
		}
	}
	for _, text := range []string{"", "whsec_", "MfKQ9r8GKYqrTwjU", "not base64 at all, and long"} {
		if _, err := ingress.NewStandardWebhooks(ingress.StandardWebhooksOptions{Secrets: []string{text}}); err == nil || len(text) > len("whsec_") && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Services that rotate a secret send several signatures in one header: one valid signature suffices.
func TestSeveralSignatures(t *testing.T) {
	const body = `{"id":"1"}`
	good, wrong := sum(secret, body), sum("rolled over", body)
	for _, c := range []struct {
		prefix, value string
		want          error
	}{
		{"v1=", "v1=" + wrong + ",v1=" + good, nil}, {"v1=", "v1=" + good + ", v1=" + wrong, nil}, {"v1=", "t=17,v1=" + wrong + ",v0=zz,v1=" + good, nil},
		{"v1=", "v1=" + good + " v1=" + wrong, nil}, {"v1,", "v1," + wrong + " v1," + good, nil}, {"", wrong + "," + good, nil}, {"v1=", "v1=zz,v1=" + good, nil},
		{"v1=", "v1=" + wrong + ",v1=" + wrong, ingress.ErrSignature}, {"v1=", "v0=" + good, ingress.ErrHeaders}, {"v1=", ",", ingress.ErrHeaders},
		{"v1=", strings.Repeat("v1="+wrong+",", 17) + "v1=" + good, ingress.ErrHeaders}, {"v1,", "v1," + wrong + ",v1," + good, ingress.ErrHeaders},
	} {
		s := must[*ingress.HMAC](t)(ingress.NewHMAC(ingress.HMACOptions{Secrets: []string{secret}, Header: "X-Signature", Prefix: c.prefix}))
		if err := verify(s, headerOf(map[string]string{"X-Signature": c.value}), []byte(body)); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("prefix %q, %.200s: %v, want %v", c.prefix, c.value, err, c.want)
		}
	}
}

// The first bytes of a right signature are none (M1).
func TestCutSignatures(t *testing.T) {
	all := messages()
	plain := all["hmac"]
	plain.service = func(t *testing.T, s ...string) ingress.Service {
		return must[*ingress.HMAC](t)(ingress.NewHMAC(ingress.HMACOptions{Secrets: s, Header: "X-Signature"}))
	}
	plain.sign = func(_ *testing.T, secret, body string, _ time.Duration) map[string]string {
		return map[string]string{"X-Signature": sum(secret, body)}
	}
	all["hmac in hex"] = plain
	for name, m := range all {
		if m.unsignedEnd { // a token
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := m.service(t, m.secrets[0])
			h := m.sign(t, m.secrets[0], m.body, 0)
			key := headerKey(h, m.signature)
			value := h[key]
			start := strings.LastIndexAny(value, "=,") + 1
			decode, encode := hex.DecodeString, hex.EncodeToString
			if name == "hmac" || strings.HasPrefix(value, "v1,") {
				start = strings.IndexAny(value, "=,") + 1
				decode, encode = base64.StdEncoding.DecodeString, base64.StdEncoding.EncodeToString
			}
			whole, err := decode(value[start:])
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 2, 16, len(whole) - 1, len(whole)} {
				h[key] = value[:start] + encode(whole[:n])
				if err := verify(s, headerOf(h), []byte(m.body)); (err == nil) != (n == len(whole)) {
					t.Errorf("%d of %d bytes: %v", n, len(whole), err)
				}
			}
		})
	}
}

// What the headers alone decide is decided before a byte of the body is read (S2); a token needs none.
func TestHeadersBeforeBodies(t *testing.T) {
	for name, m := range messages() {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, m.service(t, m.secrets[0]), ingress.Options{}, ingress.From{Provider: m.service(t, m.secrets[0]).Provider(), ID: "/id"})
			good := m.sign(t, m.secrets[0], m.body, 0)
			key := headerKey(good, m.signature)
			cases := map[string]map[string]string{"no signature": maps.Clone(good), "a malformed one": maps.Clone(good)}
			delete(cases["no signature"], key)
			cases["a malformed one"][key] = "?"
			if m.timed {
				cases["an old one"] = m.sign(t, m.secrets[0], m.body, -time.Hour)
			}
			for what, h := range cases {
				body := &endless{}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", body)
				r.Header = headerOf(h)
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				f.ServeHTTP(w, r)
				signed := strings.HasPrefix(key, "webhook-") || strings.HasPrefix(key, "svix-") // "?" is passed over among signatures
				if w.Code != http.StatusUnauthorized && !(signed && what == "a malformed one") || w.Code == http.StatusUnauthorized && body.read > 0 {
					t.Errorf("%s: %d after %d bytes", what, w.Code, body.read)
				}
			}
		})
	}
}

func headerKey(h map[string]string, name string) string {
	for k := range h {
		if strings.EqualFold(k, name) {
			return k
		}
	}
	return name
}

// Nobody is let in by mistake: no secret, an empty one, a malformed one, options that mean nothing.
func TestServicesNeedSecrets(t *testing.T) {
	for name, make := range map[string]func(...string) (ingress.Service, error){
		"github": func(s ...string) (ingress.Service, error) {
			return ingress.NewGitHub(ingress.GitHubOptions{Secrets: s})
		},
		"stripe": func(s ...string) (ingress.Service, error) {
			return ingress.NewStripe(ingress.StripeOptions{Secrets: s})
		},
		"slack": func(s ...string) (ingress.Service, error) {
			return ingress.NewSlack(ingress.SlackOptions{Secrets: s})
		},
		"gitlab": func(s ...string) (ingress.Service, error) {
			return ingress.NewGitLab(ingress.GitLabOptions{Tokens: s})
		},
		"gitlab signed": func(s ...string) (ingress.Service, error) {
			return ingress.NewGitLab(ingress.GitLabOptions{SigningTokens: s})
		},
		"cloudevents": func(s ...string) (ingress.Service, error) {
			return ingress.NewCloudEvents(ingress.CloudEventsOptions{Tokens: s})
		},
		"standard": func(s ...string) (ingress.Service, error) {
			return ingress.NewStandardWebhooks(ingress.StandardWebhooksOptions{Secrets: s})
		},
		"hmac": func(s ...string) (ingress.Service, error) {
			return ingress.NewHMAC(ingress.HMACOptions{Secrets: s, Header: "X-S"})
		},
	} {
		for _, secrets := range [][]string{nil, {""}, {whsec, ""}, {"s"}, {whsec, "7 bytes"}} { // S9
			if _, err := make(secrets...); err == nil {
				t.Errorf("%s: secrets %q are accepted", name, secrets)
			}
		}
		if _, err := make(whsec, otherKey); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []ingress.HMACOptions{
		{}, {Header: "X S"}, {Header: "X", Encoding: "base32"}, {Header: "X", Hash: crypto.SHA1}, {Header: "X", Hash: 99}, {Header: "X", Event: "/~2"}, {Header: "X", Action: "a b"},
	} {
		o.Secrets = []string{secret}
		if _, err := ingress.NewHMAC(o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	if _, err := ingress.NewStandardWebhooks(ingress.StandardWebhooksOptions{Secrets: []string{"whsec_short"}}); err == nil || strings.Contains(err.Error(), "short") {
		t.Errorf("a malformed secret: %v", err)
	}
	if _, err := ingress.NewStandardWebhooks(ingress.StandardWebhooksOptions{Keys: []webhook.PublicKey{{}}}); err != nil {
		t.Errorf("keys alone: %v", err)
	}
}

// GitHub's own example of its documentation, and Slack's.
func TestPublishedSignatures(t *testing.T) {
	h := headerOf(map[string]string{"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"})
	if err := verify(gitHub(t), h, []byte("Hello, World!")); err != nil {
		t.Error(err)
	}
	slack, err := ingress.NewSlack(ingress.SlackOptions{Secrets: []string{"8f742231b10e8888abcd99yyyzzz85a5"}, Tolerance: 100 * 365 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	body := "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA" +
		"&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
		"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	h = headerOf(map[string]string{"X-Slack-Request-Timestamp": "1531420618",
		"X-Slack-Signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"})
	if err := verify(slack, h, []byte(body)); err != nil {
		t.Error(err)
	}
}

// Stripe's thin events have their time as text, a GitLab without an Idempotency-Key an id of its body, and Slack's
// messages about the subscription one as well.
func TestOtherForms(t *testing.T) {
	stripe := must[*ingress.Stripe](t)(ingress.NewStripe(ingress.StripeOptions{Secrets: []string{secret}}))
	fromStripe := func(body string) (ingress.Delivery, error) {
		return read(stripe, headerOf(messages()["stripe"].sign(t, secret, body, 0)), []byte(body))
	}
	d, err := fromStripe(`{"id":"evt_2","object":"v2.core.event","type":"v1.billing.meter.error_report_triggered","created":"2024-09-17T06:20:52.246Z"}`)
	if err != nil || d.ID != "evt_2" || !d.Time.Equal(time.Date(2024, 9, 17, 6, 20, 52, 246e6, time.UTC)) {
		t.Errorf("%+v %v", d, err)
	}
	for _, created := range []string{`"soon"`, `-5`, `1e99`, `999999999999999`, `{}`, `null`} {
		if d, err := fromStripe(`{"id":"e","type":"t","created":` + created + `}`); err != nil || !d.Time.IsZero() {
			t.Errorf("created %s: %+v %v", created, d, err)
		}
	}
	gitlab := must[*ingress.GitLab](t)(ingress.NewGitLab(ingress.GitLabOptions{Tokens: []string{secret}}))
	ids := map[string]bool{}
	for _, body := range []string{`{"object_kind":"push"}`, `{"object_kind":"push","ref":"a"}`, `{"object_kind":"push"}`} {
		d, err := read(gitlab, headerOf(map[string]string{"X-Gitlab-Token": secret, "X-Gitlab-Event-UUID": "u", "webhook-id": "unsigned"}), []byte(body))
		if err != nil || !strings.HasPrefix(d.ID, "sha256-") {
			t.Errorf("%+v %v", d, err)
		}
		ids[d.ID] = true
	}
	if len(ids) != 2 {
		t.Errorf("two different bodies have the ids %v", ids)
	}
	slack := must[*ingress.Slack](t)(ingress.NewSlack(ingress.SlackOptions{Secrets: []string{secret}}))
	fromSlack := func(body string) (ingress.Delivery, error) {
		return read(slack, headerOf(messages()["slack"].sign(t, secret, body, 0)), []byte(body))
	}
	if d, err := fromSlack(`{"type":"app_rate_limited","minute_rate_limited":1518467820}`); err != nil || d.Event != "app_rate_limited" || d.ID == "" {
		t.Errorf("%+v %v", d, err)
	}
	for _, body := range []string{`{"type":"url_verification"}`, `{"type":"url_verification","challenge":"` + strings.Repeat("x", 2000) + `"}`, `{"type":"url_verification","challenge":7}`} {
		if result, err := slack.Receive(request(headerOf(messages()["slack"].sign(t, secret, body, 0)), []byte(body))); err == nil || result.Answer != nil {
			t.Errorf("%.60s is taken for a challenge", body)
		}
	}
}
