package ingress_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/ingress"
)

// discordHeader signs a body by Discord's rule: Ed25519 over the timestamp and the body, in hex.
func discordHeader(key ed25519.PrivateKey, body string, at time.Duration) map[string]string {
	stamp := unix(at)
	return map[string]string{"X-Signature-Timestamp": stamp, "X-Signature-Ed25519": hex.EncodeToString(ed25519.Sign(key, []byte(stamp+body)))}
}

func discord(t testing.TB) (*ingress.Discord, ed25519.PrivateKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return discordOf(t, private), private
}

// discordOf accepts a key, and another one before it.
func discordOf(t testing.TB, key ed25519.PrivateKey) *ingress.Discord {
	t.Helper()
	public := hex.EncodeToString(key.Public().(ed25519.PublicKey))
	s, err := ingress.NewDiscord(ingress.DiscordOptions{PublicKeys: []string{strings.Repeat("17", 32), public}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Discord's PINGs are answered, its events and interactions emitted, and an interaction has an answer after it is in
// the log.
func TestDiscord(t *testing.T) {
	s, key := discord(t)
	f := newFixture(t, s, ingress.Options{}, ingress.From{Provider: "discord", Fields: []ingress.Field{{Target: "/repo", Source: "/application_id"}, {Target: "/number", Source: "/type"}}})
	for _, c := range []struct {
		body   string
		status int
		answer string
		id     string // of the occurrence
	}{
		{`{"id":"1","application_id":"a","token":"t","type":1,"version":1}`, 200, `{"type":1}`, ""},
		{`{"version":1,"application_id":"a","type":0}`, 204, "", ""},
		{`{"version":1,"application_id":"a","type":1,"event":{"type":"APPLICATION_AUTHORIZED","timestamp":"2023-11-14T22:13:20.5"}}`, 204, "", "sha256-"},
		{`{"id":"7","application_id":"a","token":"t","type":2,"version":1,"data":{"name":"deploy"}}`, 200, `{"type":5}`, "7"},
		{`{"id":"8","application_id":"a","token":"t","type":3,"version":1,"data":{"custom_id":"yes"}}`, 200, `{"type":6}`, "8"},
		{`{"id":"9","application_id":"a","token":"t","type":4,"version":1}`, 200, `{"type":8,"data":{"choices":[]}}`, ""},
		{`{"application_id":"a","token":"t","type":2,"version":1}`, 400, "", ""},
		{`{"id":"9","type":99}`, 400, "", ""},
		{`[]`, 400, "", ""},
	} {
		before := len(f.received())
		w := f.answer(discordHeader(key, c.body, 0), c.body)
		json := w.Header().Get("Content-Type") == "application/json"
		if w.Code != c.status || w.Code == 200 && w.Body.String() != c.answer || json != (c.answer != "") {
			t.Errorf("%s: %d %s %q", c.body, w.Code, w.Body, w.Header())
		}
		got := f.received()[before:]
		if (len(got) == 1) != (c.id != "") || len(got) == 1 && !strings.HasPrefix(got[0].EventID, c.id) {
			t.Errorf("%s: received %+v", c.body, got)
		}
	}
	if got := f.received(); len(got) == 0 || got[0].Timestamp != "2023-11-14T22:13:20.5Z" {
		t.Errorf("received %+v", got)
	}
}

// An interaction that is not in the log has no answer: Discord shows that it failed.
func TestDiscordNotDurable(t *testing.T) {
	s, key := discord(t)
	f := newFixture(t, s, ingress.Options{}, ingress.From{Provider: "discord", Fields: []ingress.Field{{Target: "/repo", Source: "/token"}, {Target: "/number", Source: "/type"}}})
	f.events.Shutdown(t.Context())
	body := `{"id":"7","token":"t","type":2,"data":{"name":"deploy"}}`
	if w := f.answer(discordHeader(key, body, 0), body); w.Code != http.StatusServiceUnavailable || !isAdvice(w) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestDiscordRefuses(t *testing.T) {
	s, key := discord(t)
	_, other, _ := ed25519.GenerateKey(nil)
	body := `{"type":1}`
	with := func(name, value string) map[string]string { return headersOf(discordHeader(key, body, 0), name, value) }
	for name, c := range map[string]struct {
		header map[string]string
		want   error
	}{
		"good":             {discordHeader(key, body, 0), nil},
		"another key":      {discordHeader(other, body, 0), ingress.ErrSignature},
		"another body":     {discordHeader(key, body+" ", 0), ingress.ErrSignature},
		"another time":     {with("X-Signature-Timestamp", unix(time.Second)), ingress.ErrSignature},
		"old":              {discordHeader(key, body, -time.Hour), ingress.ErrStale},
		"a short one":      {with("X-Signature-Ed25519", "00"), ingress.ErrSignature},
		"not hex":          {with("X-Signature-Ed25519", "zz"), ingress.ErrHeaders},
		"without":          {with("X-Signature-Ed25519", "-"), ingress.ErrHeaders},
		"without its time": {with("X-Signature-Timestamp", "-"), ingress.ErrHeaders},
	} {
		if err := verify(s, headerOf(c.header), []byte(body)); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for _, keys := range [][]string{nil, {""}, {"17"}, {strings.Repeat("17", 32), strings.Repeat("zz", 32)}} {
		if _, err := ingress.NewDiscord(ingress.DiscordOptions{PublicKeys: keys}); err == nil {
			t.Errorf("keys %q are accepted", keys)
		}
	}
}
