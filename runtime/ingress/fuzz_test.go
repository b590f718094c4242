package ingress_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
)

// Bounds of a fuzzed request: bytes of its content, and all that is ever allocated for it.
const (
	maxFuzzed    = 1 << 20
	maxAllocated = 200 << 20
)

// fuzzedStatuses are the documented statuses of a handler, without 503: nothing fails here that would work later.
var fuzzedStatuses = []int{http.StatusOK, http.StatusAccepted, http.StatusNoContent, http.StatusBadRequest, http.StatusUnauthorized,
	http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}

// A sender is a service that signs fuzzed content.
type sender struct {
	name    string
	service func(t *testing.T) ingress.Service
	secrets []string
	// wrap makes a body of the service with a content and an id.
	wrap func(t *testing.T, content, id string) string
	// sign gives the header of a body. id is an unsigned header, unless the service signs one.
	sign func(t *testing.T, body, id string) map[string]string
	at   string // pointer to the content in what routes read
}

// senders are all services of the package, in each form of their requests.
func senders(f *testing.F) []sender {
	var all []sender
	for name, m := range messages() {
		all = append(all, sender{
			name:    name,
			service: func(t *testing.T) ingress.Service { return m.service(t, m.secrets[0]) },
			secrets: m.secrets[:],
			wrap: func(_ *testing.T, content, _ string) string {
				if name == "github" { // whose bodies need no members
					return content
				}
				return merge(m.body, content)
			},
			sign: func(t *testing.T, body, id string) map[string]string {
				h := m.sign(t, m.secrets[0], body, 0)
				for _, unsigned := range []string{"X-GitHub-Event", "X-GitHub-Delivery", "Idempotency-Key", "X-Topic"} {
					if h[unsigned] != "" {
						h[unsigned] = id
					}
				}
				if stamp := h["webhook-timestamp"]; stamp != "" {
					h["webhook-id"], h["webhook-signature"] = id, standardSignature(t, m.secrets[0], id, stamp, body)
				}
				return h
			},
		})
	}
	events := func(t *testing.T) ingress.Service { return cloudEvents(t, ingress.CloudEventsOptions{}) }
	plainEvent := messages()["cloudevents"].body
	_, key := discord(f)
	aws := newAWSHost(f, 24*time.Hour)
	all = append(all, sender{
		name: "cloudevents batch", service: events, secrets: []string{secret},
		wrap: func(_ *testing.T, content, _ string) string {
			return "[" + plainEvent + "," + merge(plainEvent, content) + "]"
		},
		sign: func(*testing.T, string, string) map[string]string {
			return headersOf(structured, "Content-Type", "application/cloudevents-batch+json")
		},
	}, sender{
		name: "cloudevents binary", service: events, secrets: []string{secret}, at: "/data",
		wrap: func(_ *testing.T, content, _ string) string { return content },
		sign: func(_ *testing.T, _, id string) map[string]string {
			return headersOf(binary, "Ce-Id", id, "Ce-Source", id, "Ce-Type", id, "Ce-Time", id, "Ce-Note", id)
		},
	}, sender{
		name:    "discord",
		service: func(t *testing.T) ingress.Service { return discordOf(t, key) },
		wrap: func(_ *testing.T, content, _ string) string {
			return merge(`{"type":1,"event":{"type":"APPLICATION_AUTHORIZED","timestamp":"2023-11-14T22:13:20.5"}}`, content)
		},
		sign: func(_ *testing.T, body, _ string) map[string]string { return discordHeader(key, body, 0) },
	}, sender{
		name: "sns", at: "/Message",
		service: func(t *testing.T) ingress.Service { return sns(t, aws, ingress.SNSOptions{JSON: true}) },
		wrap: func(t *testing.T, content, id string) string {
			m := notification()
			m["Message"], m["Subject"] = strings.ToValidUTF8(content, "?"), strings.ToValidUTF8(id, "?")
			return aws.sign(t, m)
		},
		sign: func(*testing.T, string, string) map[string]string { return snsHeader("Notification") },
	})
	slices.SortFunc(all, func(a, b sender) int { return strings.Compare(a.name, b.name) })
	return all
}

// merge puts the members of an object before those of content.
func merge(object, content string) string {
	return strings.TrimSuffix(object, "}") + "," + strings.TrimPrefix(content, "{")
}

// from reads the content of s as the issue itself, or its members as GitHub sends them.
func (s sender) from(t *testing.T, whole bool) ingress.From {
	from := ingress.From{Provider: s.service(t).Provider()}
	if from.Provider == ingress.ProviderHMAC {
		from.ID = "X-Topic"
	}
	if whole {
		from.Fields = []ingress.Field{{Target: "/repo", Source: s.at + "/repo"}, {Target: "/number", Source: s.at + "/number"}}
		if s.at == "" {
			from.Fields = nil
		}
		return from
	}
	for _, field := range issueFields {
		field.Source = s.at + field.Source
		from.Fields = append(from.Fields, field)
	}
	return from
}

// judged makes a fixture whose log fails the test if a value in it has a control character.
func judged(t *testing.T, s sender, whole bool) *fixture {
	t.Helper()
	var f *fixture
	plain := func(_ []string, a slog.Attr) slog.Attr {
		text := fmt.Sprint(a.Value.Any())
		if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%s: the log has %s=%q", s.name, a.Key, text)
		}
		if a.Key == "reason" && text != "" {
			f.log.WriteString(text)
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: plain}))
	f = newFixture(t, s.service(t), ingress.Options{Logger: log}, s.from(t, whole))
	return f
}

// judge sends a request and checks all that holds for every request. It returns the status.
func (f *fixture) judge(name string, h http.Header, body []byte) int {
	f.t.Helper()
	f.log.Reset()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	w := f.do(request(h, body))
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > maxAllocated {
		f.t.Errorf("%s: %d MB for %d bytes", name, used>>20, len(body))
	}
	if !slices.Contains(fuzzedStatuses, w.Code) {
		f.t.Errorf("%s: status %d", name, w.Code)
	}
	if refused := w.Code >= http.StatusBadRequest; refused != (f.log.Len() > 0) || refused && !isAdvice(w) {
		f.t.Errorf("%s: status %d, logged %q, answered %q", name, w.Code, &f.log, w.Body)
	}
	if !utf8.Valid(w.Body.Bytes()) {
		f.t.Errorf("%s: answered %q", name, w.Body)
	}
	return w.Code
}

// fits checks that all occurrences are JSON in UTF-8 and fit payloadSchema.
func (f *fixture) fits(name string) {
	f.t.Helper()
	for _, o := range f.received() {
		var v issue
		if !utf8.Valid(o.Data) || json.Unmarshal(o.Data, &v) != nil || v.Repo == "" || !bytes.Contains(o.Data, []byte(`"number":`)) {
			f.t.Errorf("%s: emitted %q", name, o.Data)
		}
	}
}

const wholeIssue = `{"repo":"a/b","number":7}`

// Content that a service signs is emitted as JSON that fits payloadSchema, or refused for a reason: as the body, within
// a body of the service, and packed. Nothing panics, and memory has a bound.
func FuzzDeliveries(f *testing.F) {
	all := senders(f)
	r := strings.Repeat
	contents := []string{
		opened, wholeIssue, "", "{}", "\ufeff{}", "{\"repo\":\"\u0000\u001b\u0085\u009f\ufffe\",\"number\":1}", "{\"repo\":\"\x00\x1b\",\"number\":1}",
		`{"repo":"\u0000\u001b\u0085\u009f","number":1}`, `{"repo":"\ud800","number":1}`, `{"repo":"\udc00\ud83d","number":1,"\ud800":1,"\udc00":2}`, "{\"repo\":\"\xff\"}",
		`{"\u0000\r\n":1,"repo":2,"number":"\u202e"}`, `{"repo":"a","number":1e400}`, `{"repo":"a","number":9223372036854775808}`, `{"repo":"a","number":1.0}`,
		r("[", 100_000), r("[", 100_000) + r("]", 100_000), r(`{"a":`, 100_000) + "1" + r("}", 100_000), `{"issue":{"labels":` + r("[", 100_000) + r("]", 100_000) + `}}`,
		`{"repository":{"full_name":"a"},"issue":{"number":1,"labels":[` + r(`{"name":"x"},`, 10_000) + `{"name":"y"}]}}`, `{"repo":"` + r("a", 1_000_000) + `","number":1}`,
		`{"x":"` + r(`\ud800`, 20_000) + `"}`, gzipped(f, strings.NewReader(r("\x00", 30<<20))), gzipped(f, strings.NewReader(`{"repo":"`+r("a", 1_000_000)+`","number":1}`)), gzipped(f, strings.NewReader(opened))[:30],
	}
	ids := []string{"id-1", "", "\ufeff", "\x00\r\n", "\u202e|%7C", "%00%ff%", `"\"\\`, "\xff", "9999-12-31T23:59:59-24:00", "0000-01-01T00:00:00+24:00", r("x", 5000)}
	for n := range 2 * len(all) {
		for i, content := range contents {
			if len(content) < 10_000 || i%2 == n%2 && !testing.Short() {
				f.Add(uint8(n), ids[i%len(ids)], []byte(content))
			}
		}
		for _, id := range ids {
			f.Add(uint8(n), id, []byte(opened))
		}
		f.Add(uint8(n), "id-1", []byte(wholeIssue))
	}
	f.Fuzz(func(t *testing.T, n uint8, id string, content []byte) { // n is a sender, and in its last bit what routes read
		if len(content) > maxFuzzed || len(id) > maxFuzzed {
			t.Skip("longer than the bound")
		}
		s, whole := all[int(n/2)%len(all)], n%2 == 1
		fixture := judged(t, s, whole)
		post := func(body string, pairs ...string) int {
			return fixture.judge(s.name, headerOf(headersOf(s.sign(t, body, id), pairs...)), []byte(body))
		}
		body := s.wrap(t, string(content), id)
		plain, packed := post(body), post(gzipped(t, strings.NewReader(body)), "Content-Encoding", "gzip")
		if plain != packed && len(body) <= maxFuzzed {
			t.Errorf("%s: status %d, packed %d", s.name, plain, packed)
		}
		good := opened
		if whole {
			good = wholeIssue
		}
		if string(content) == good && id == "id-1" && plain != http.StatusNoContent {
			t.Errorf("%s: status %d for an event: %s", s.name, plain, &fixture.log)
		}
		post(string(content))
		post(string(content), "Content-Encoding", "gzip")
		fixture.fits(s.name)
	})
}

// Whatever the headers have that authenticate: nobody without the secret is let in, and nothing panics.
func FuzzSignatureHeaders(f *testing.F) {
	all := senders(f)
	for n := range all {
		f.Add(uint8(n), "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", unix(0), "id", []byte(`{"type":"a"}`))
		f.Add(uint8(n), "t=1700000000,v1=00,v1=zz,v0=", "", "", []byte(`{}`))
		f.Add(uint8(n), "v0=a2114d57", "+1", "\x00", []byte(``))
		f.Add(uint8(n), "v1,AAAA v1a,BBBB v1,", "-1", "é", []byte(`[`))
		f.Add(uint8(n), strings.Repeat("v1=00,", 20_000), "\u202e", "\ufeff", []byte(opened))
		f.Add(uint8(n), "Notification", "1700000000", "Notification", []byte(`{"Type":"Notification","TopicArn":"`+topicARN+`","SigningCertURL":"`+certificateURL+`","SignatureVersion":"2","Signature":"AA=="}`))
	}
	f.Fuzz(func(t *testing.T, n uint8, signature, stamp, id string, body []byte) {
		s := all[int(n)%len(all)]
		if len(body) > maxFuzzed || slices.Contains(s.secrets, signature) {
			t.Skip("longer than the bound, or a secret")
		}
		h := http.Header{}
		for _, name := range []string{"X-Hub-Signature-256", "Stripe-Signature", "X-Slack-Signature", "X-Gitlab-Token", "Webhook-Signature", "Svix-Signature", "X-Signature", "X-Signature-Ed25519", "X-Amz-Sns-Message-Type"} {
			h.Set(name, signature)
		}
		h.Set("Authorization", "Bearer "+signature)
		for _, name := range []string{"X-Slack-Request-Timestamp", "Webhook-Timestamp", "Svix-Timestamp", "X-Signature-Timestamp"} {
			h.Set(name, stamp)
		}
		for _, name := range []string{"Webhook-Id", "Svix-Id", "X-Github-Delivery", "X-Github-Event", "X-Topic", "Ce-Id", "Ce-Source", "Ce-Type"} {
			h.Set(name, id)
		}
		fixture := judged(t, s, true)
		for _, encoding := range []string{"", "gzip", id} {
			for _, media := range []string{"application/json", "application/cloudevents-batch+json", id} {
				with := maps.Clone(h)
				with.Set("Content-Encoding", encoding)
				with.Set("Content-Type", media)
				if status := fixture.judge(s.name, with, body); status < http.StatusBadRequest {
					t.Errorf("%s lets it in", s.name)
				}
			}
		}
	})
}
