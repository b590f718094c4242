package webhook

import (
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"pgregory.net/rapid"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func oracle(t interface{ Fatal(...any) }, s Secret) *standardwebhooks.Webhook {
	w, err := standardwebhooks.NewWebhook(s.Text()) // padded, which the library insists on
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func signed(t interface{ Fatal(...any) }, s Signer, m Message, at time.Time) http.Header {
	h := http.Header{}
	if err := s.Sign(h, m, at); err != nil {
		t.Fatal(err)
	}
	return h
}

// TestHOOK2Vector is the example of the Standard Webhooks specification.
func TestHOOK2Vector(t *testing.T) {
	s, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	m := Message{ID: "msg_p5jXN8AQM9LWM0D4loKWxJek", Subscription: "sub_1", Body: []byte(`{"test": 2432232314}`)}
	h := signed(t, Signer{Ring: NewRing(s)}, m, time.Unix(1614265330, 0))
	want := http.Header{
		"Content-Type":          {"application/json"},
		"Webhook-Id":            {m.ID},
		"Webhook-Timestamp":     {"1614265330"},
		"Webhook-Signature":     {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="},
		"X-Mcp-Subscription-Id": {"sub_1"},
	}
	for name := range want {
		if !slices.Equal(h[name], want[name]) {
			t.Errorf("%s: %q, want %q", name, h[name], want[name])
		}
	}
	if len(h) != len(want) {
		t.Errorf("%v", h)
	}
}

// TestHOOK2LibraryAcceptsOurs signs anything and has the Standard Webhooks library verify it, with
// each of the secrets of a rotation (HOOK-2, SUB-5, trap 6).
func TestHOOK2LibraryAcceptsOurs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var ring Ring
		now := time.Now()
		for range rapid.IntRange(1, maxKeys).Draw(t, "secrets") {
			s := Secret{string(rapid.SliceOfN(rapid.Byte(), wire.MinSecret, wire.MaxSecret).Draw(t, "secret"))}
			ring = ring.Rotate(s, now, time.Minute)
		}
		m := Message{ID: rapid.StringMatching(`[!-~]{1,256}`).Draw(t, "id"), Body: rapid.SliceOf(rapid.Byte()).Draw(t, "body")}
		h := signed(t, Signer{Ring: ring}, m, now)
		for _, s := range ring.Active(now) {
			if err := oracle(t, s).Verify(m.Body, h); err != nil {
				t.Fatal(err)
			}
			if stamp, err := (Verifier{Secrets: []Secret{s}}).Verify(h, m.Body); err != nil || stamp.ID != m.ID || stamp.Time.Unix() != now.Unix() {
				t.Fatal(stamp, err)
			}
		}
		if err := oracle(t, NewSecret()).Verify(m.Body, h); err == nil {
			t.Fatal("a strange secret was accepted")
		}
	})
}

// sameVerdict compares our verdict on v1 signatures with the library's, whatever the time.
func sameVerdict(t interface {
	Helper()
	Fatal(...any)
}, s Secret, h http.Header, body []byte) {
	t.Helper()
	theirs := oracle(t, s).VerifyIgnoringTimestamp(body, h)
	now := time.Now()
	if seconds, err := strconv.ParseInt(h.Get(wire.HeaderWebhookTimestamp), 10, 64); err == nil {
		now = time.Unix(seconds, 0)
	}
	_, ours := Verifier{Secrets: []Secret{s}}.verify(h, body, now)
	if (theirs == nil) != (ours == nil) {
		t.Fatal("library: ", theirs, ", ours: ", ours, ", headers: ", h)
	}
	if errors.Is(theirs, standardwebhooks.ErrNoMatchingSignature) != errors.Is(ours, ErrSignature) {
		t.Fatal("library: ", theirs, ", ours: ", ours)
	}
}

// TestHOOK2SameVerdict compares the verdict on every way of writing a signature header (HOOK-2).
func TestHOOK2SameVerdict(t *testing.T) {
	s, other := NewSecret(), NewSecret()
	m := Message{ID: "evt_1", Body: []byte(`{"a":1}`)}
	now := time.Now()
	good := signed(t, Signer{Ring: NewRing(s)}, m, now).Get(wire.HeaderWebhookSignature)
	bad := signed(t, Signer{Ring: NewRing(other)}, m, now).Get(wire.HeaderWebhookSignature)
	text := strings.TrimPrefix(good, "v1,")
	for _, signature := range []string{
		"", good, bad, bad + " " + good, good + " " + bad, good + "," + bad, "v1," + good, " " + good, good + " ", bad + "  " + good,
		"v1a," + text, "v2," + text, "V1," + text, "v1, " + text, "v1 ," + text, "v1," + strings.TrimRight(text, "="), "v1," + text + "=",
		good + ",", good + ",x", ",v1," + text, "v1", "v1,", text, bad + "\t" + good, bad + "," + good, "v1,," + text, strings.ToLower(good),
		good + "\n", "v1," + base64.RawURLEncoding.EncodeToString([]byte(text)), strings.Repeat("v1,x ", 5000) + good,
	} {
		for _, stamp := range []string{strconv.FormatInt(now.Unix(), 10), "+" + strconv.FormatInt(now.Unix(), 10), "0" + strconv.FormatInt(now.Unix(), 10),
			"", "x", "1.5", " 1", "-1", "9223372036854775808", strconv.FormatInt(now.Unix()+1, 10)} {
			for _, id := range []string{m.ID, "", "evt_2"} {
				h := http.Header{}
				for name, value := range map[string]string{wire.HeaderWebhookSignature: signature, wire.HeaderWebhookTimestamp: stamp, wire.HeaderWebhookID: id} {
					if value != "" {
						h.Set(name, value)
					}
				}
				sameVerdict(t, s, h, m.Body)
			}
		}
	}
	twice := http.Header{"Webhook-Id": {m.ID}, "Webhook-Timestamp": {strconv.FormatInt(now.Unix(), 10)}, "Webhook-Signature": {bad, good}}
	sameVerdict(t, s, twice, m.Body)
}

// FuzzVerify compares verdicts on any header; with genuine it is a true signature, altered.
func FuzzVerify(f *testing.F) {
	f.Add("evt_1", "1614265330", "v1,x", []byte("{}"), true)
	f.Add("", "-1", "v1,x v1a,y", []byte(""), false)
	s, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		f.Fatal(err)
	}
	identity := newIdentity(f)
	f.Fuzz(func(t *testing.T, id, stamp, signature string, body []byte, genuine bool) {
		h := http.Header{"Webhook-Id": {id}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {signature}}
		seconds, err := strconv.ParseInt(stamp, 10, 64)
		if genuine && err == nil {
			text := s.sign(id, strconv.FormatInt(seconds, 10), body)
			h.Set(wire.HeaderWebhookSignature, signature+" v1,"+text)
		}
		sameVerdict(t, s, h, body)
		// Nobody has signed with this key.
		if _, err := (Verifier{Keys: identity.PublicKeys()}).verify(h, body, time.Unix(seconds, 0)); err == nil {
			t.Fatal("a v1a signature was accepted")
		}
	})
}

// TestCLI5Freshness accepts five minutes either way and not more, as the library does (CLI-5).
func TestCLI5Freshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewSecret()
		m := Message{ID: "evt_1", Body: []byte("{}")}
		for _, c := range []struct {
			offset time.Duration
			fresh  bool
		}{{0, true}, {-5*time.Minute - time.Second, false}, {-5 * time.Minute, true}, {5 * time.Minute, true}, {5*time.Minute + time.Second, false}, {-50 * time.Hour, false}} {
			h := signed(t, Signer{Ring: NewRing(s)}, m, time.Now().Add(c.offset))
			_, err := Verifier{Secrets: []Secret{s}}.Verify(h, m.Body)
			if (err == nil) != c.fresh || !c.fresh && !errors.Is(err, ErrStale) {
				t.Errorf("%v: %v", c.offset, err)
			}
			if theirs := oracle(t, s).Verify(m.Body, h); (theirs == nil) != c.fresh {
				t.Errorf("%v: the library says %v", c.offset, theirs)
			}
		}
		for _, stamp := range []string{"9223372036854775807", "-9223372036854775808", "0"} {
			h := http.Header{"Webhook-Id": {"a"}, "Webhook-Timestamp": {stamp}, "Webhook-Signature": {"v1,x"}}
			if _, err := (Verifier{Secrets: []Secret{s}}).Verify(h, nil); !errors.Is(err, ErrStale) {
				t.Errorf("%s: %v", stamp, err)
			}
		}
		for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
			h := signed(t, Signer{Ring: NewRing(s)}, m, time.Now())
			h.Del(name)
			if _, err := (Verifier{Secrets: []Secret{s}}).Verify(h, m.Body); !errors.Is(err, ErrHeaders) {
				t.Errorf("without %s: %v", name, err)
			}
		}
	})
}

// TestHOOK2Altered changes each signed part; nothing that was altered is accepted.
func TestHOOK2Altered(t *testing.T) {
	s := NewSecret()
	identity := newIdentity(t)
	m := Message{ID: "evt_1", Body: []byte(`{"a":1}`)}
	now := time.Now()
	for name, v := range map[string]Verifier{"v1": {Secrets: []Secret{s}}, "v1a": {Keys: identity.PublicKeys()}, "both": {Secrets: []Secret{s}, Keys: identity.PublicKeys()}} {
		fresh := func() http.Header { return signed(t, Signer{Ring: NewRing(s), Identity: identity}, m, now) }
		if _, err := v.Verify(fresh(), m.Body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for part, alter := range map[string]func(http.Header){
			"id":        func(h http.Header) { h.Set(wire.HeaderWebhookID, "evt_2") },
			"timestamp": func(h http.Header) { h.Set(wire.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix()-1, 10)) },
			"signature": func(h http.Header) {
				h.Set(wire.HeaderWebhookSignature, strings.NewReplacer("v1,", "v1,A", "v1a,", "v1a,A").Replace(h.Get(wire.HeaderWebhookSignature)))
			},
		} {
			h := fresh()
			alter(h)
			if _, err := v.Verify(h, m.Body); !errors.Is(err, ErrSignature) {
				t.Errorf("%s, %s altered: %v", name, part, err)
			}
		}
		if _, err := v.Verify(fresh(), []byte(`{"a":2}`)); !errors.Is(err, ErrSignature) {
			t.Errorf("%s, body altered: %v", name, err)
		}
	}
	h := signed(t, Signer{Ring: NewRing(s)}, m, now)
	for name, v := range map[string]Verifier{"nothing to verify with": {}, "zero secret": {Secrets: []Secret{{}}}, "key missing": {Secrets: []Secret{s}, Keys: identity.PublicKeys()}} {
		if _, err := v.Verify(h, m.Body); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOCC2MessageIDs refuses ids that cannot be a header.
// TestHOOK2Cut: the first bytes of a right signature are none (M1).
func TestHOOK2Cut(t *testing.T) {
	s := NewSecret()
	now := time.Now()
	m := Message{ID: "evt_1", Subscription: "sub_1", Body: []byte(`{}`)}
	h := signed(t, Signer{Ring: NewRing(s)}, m, now)
	whole := strings.TrimPrefix(h.Get("webhook-signature"), "v1,")
	for _, n := range []int{1, 2, 16, len(whole) - 1, len(whole)} {
		h.Set("webhook-signature", "v1,"+whole[:n])
		if _, err := (Verifier{Secrets: []Secret{s}}).Verify(h, m.Body); (err == nil) != (n == len(whole)) {
			t.Errorf("%d of %d characters: %v", n, len(whole), err)
		}
	}
}

func TestOCC2MessageIDs(t *testing.T) {
	for _, id := range []string{"", "a b", "a\nb", "é", strings.Repeat("x", 257)} {
		if err := (Signer{Ring: NewRing(NewSecret())}).Sign(http.Header{}, Message{ID: id}, time.Now()); err == nil {
			t.Errorf("%q was accepted", id)
		}
	}
	if err := (Signer{}).Sign(http.Header{}, Message{ID: "a"}, time.Now()); !errors.Is(err, errNoSecret) {
		t.Errorf("without a secret: %v", err)
	}
	a, b := NewMessageID(wire.EnvelopeGap), NewMessageID(wire.EnvelopeGap)
	if a == b || !strings.HasPrefix(a, "msg_gap_") || !isMessageID(a) {
		t.Errorf("%s, %s", a, b)
	}
}
