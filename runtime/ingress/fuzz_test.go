package ingress_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
)

// Whatever stands in the headers that authenticate: nobody without the secret is let in, and nothing panics.
func FuzzSignatureHeaders(f *testing.F) {
	const unknown = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	var services []ingress.Service
	for _, make := range []func() (ingress.Service, error){
		func() (ingress.Service, error) {
			return ingress.NewGitHub(ingress.GitHubOptions{Secrets: []string{unknown}})
		},
		func() (ingress.Service, error) {
			return ingress.NewStripe(ingress.StripeOptions{Secrets: []string{unknown}})
		},
		func() (ingress.Service, error) {
			return ingress.NewSlack(ingress.SlackOptions{Secrets: []string{unknown}})
		},
		func() (ingress.Service, error) {
			return ingress.NewGitLab(ingress.GitLabOptions{Tokens: []string{unknown}, SigningTokens: []string{unknown}})
		},
		func() (ingress.Service, error) {
			return ingress.NewStandardWebhooks(ingress.StandardWebhooksOptions{Secrets: []string{unknown}})
		},
		func() (ingress.Service, error) {
			return ingress.NewHMAC(ingress.HMACOptions{Secrets: []string{unknown}, Header: "X-Signature", Encoding: "base64", Event: "/type"})
		},
		func() (ingress.Service, error) {
			return ingress.NewCloudEvents(ingress.CloudEventsOptions{Tokens: []string{unknown}})
		},
		func() (ingress.Service, error) {
			return ingress.NewDiscord(ingress.DiscordOptions{PublicKeys: []string{strings.Repeat("17", 32)}})
		},
		func() (ingress.Service, error) {
			return ingress.NewSNS(ingress.SNSOptions{Topics: []string{topicARN}, Client: &http.Client{Transport: &awsHost{}}})
		},
	} {
		s, err := make()
		if err != nil {
			f.Fatal(err)
		}
		services = append(services, s)
	}
	f.Add("sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", "1700000000", "id", []byte(`{"type":"a"}`))
	f.Add("t=1700000000,v1=00,v1=zz,v0=", "", "", []byte(`{}`))
	f.Add("v0=a2114d57", "+1", "\x00", []byte(``))
	f.Add("v1,AAAA v1a,BBBB v1,", "-1", "é", []byte(`[`))
	f.Fuzz(func(t *testing.T, signature, stamp, id string, body []byte) {
		h := http.Header{}
		for _, name := range []string{"X-Hub-Signature-256", "Stripe-Signature", "X-Slack-Signature", "X-Gitlab-Token", "Webhook-Signature", "Svix-Signature", "X-Signature", "X-Signature-Ed25519", "X-Amz-Sns-Message-Type"} {
			h.Set(name, signature)
		}
		h.Set("Authorization", "Bearer "+signature)
		for _, name := range []string{"X-Slack-Request-Timestamp", "Webhook-Timestamp", "Svix-Timestamp", "X-Signature-Timestamp"} {
			h.Set(name, stamp)
		}
		for _, name := range []string{"Webhook-Id", "Svix-Id", "X-Github-Delivery", "X-Github-Event", "Ce-Id", "Ce-Source", "Ce-Type"} {
			h.Set(name, id)
		}
		for _, s := range services {
			if signature != unknown && verify(s, h, body) == nil {
				t.Errorf("%s lets it in", s.Provider())
			}
		}
	})
}
