package webhook

import (
	"crypto/ed25519"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

func newKey(t testing.TB) SigningKey {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return SigningKey{Private: private}
}

func newIdentity(t testing.TB, keys ...SigningKey) *Identity {
	t.Helper()
	if len(keys) == 0 {
		keys = []SigningKey{newKey(t)}
	}
	i, err := NewIdentity(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestHOOK10RFC8032 signs and verifies the vectors of RFC 8032, section 7.1 (HOOK-10).
func TestHOOK10RFC8032(t *testing.T) {
	abc := sha512.Sum512([]byte("abc"))
	for name, v := range map[string]struct{ seed, public, message, signature string }{
		"TEST 1": {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60", "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
			"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"},
		"TEST 2": {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
			"92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"},
		"TEST 3": {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7", "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
			"6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"},
		"TEST SHA(abc)": {"833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42", "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf", hex.EncodeToString(abc[:]),
			"dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"},
	} {
		key, err := ParseSigningKey("whsk_" + base64.StdEncoding.EncodeToString(unhex(t, v.seed)))
		if err != nil {
			t.Fatal(err)
		}
		i := newIdentity(t, key)
		message, signature := unhex(t, v.message), "v1a,"+base64.StdEncoding.EncodeToString(unhex(t, v.signature))
		if got := i.sign(time.Now(), message); !slices.Equal(got, []string{signature}) {
			t.Errorf("%s: %v", name, got)
		}
		if got := i.PublicKeys()[0].Key; !slices.Equal(got, unhex(t, v.public)) {
			t.Errorf("%s: public key %x", name, got)
		}
	}
}

// TestHOOK10Thumbprint is the key and the thumbprint of RFC 8037, appendix A.3.
func TestHOOK10Thumbprint(t *testing.T) {
	seed, err := base64.RawURLEncoding.DecodeString("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A")
	if err != nil {
		t.Fatal(err)
	}
	set, err := EncodeKeySet(newIdentity(t, SigningKey{Private: ed25519.NewKeyFromSeed(seed)}).PublicKeys())
	want := `{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","kid":"kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k","use":"sig","alg":"EdDSA"}]}`
	if err != nil || string(set) != want {
		t.Errorf("%s, %v", set, err)
	}
}

// TestHOOK10Rotation publishes and signs with both keys for the grace window, so that receivers
// with either key set accept every message (HOOK-10).
func TestHOOK10Rotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, m := NewSecret(), Message{ID: "evt_1", Body: []byte("{}")}
		i := newIdentity(t, SigningKey{ID: "one", Private: newKey(t).Private})
		fetch := func() []PublicKey {
			t.Helper()
			w := httptest.NewRecorder()
			i.ServeHTTP(w, httptest.NewRequest(http.MethodGet, wire.PathKeySet, nil))
			keys, err := ParseKeySet(w.Body.Bytes())
			if err != nil || w.Header().Get("Content-Type") != "application/jwk-set+json" || w.Header().Get("Cache-Control") == "" {
				t.Fatal(err, w.Header())
			}
			return keys
		}
		accepted := func(keys []PublicKey) bool {
			h := signed(t, Signer{Ring: NewRing(s), Identity: i}, m, time.Now())
			_, err := Verifier{Keys: keys}.Verify(h, m.Body)
			if theirs := oracle(t, s).Verify(m.Body, h); theirs != nil {
				t.Errorf("beside v1a the library says %v", theirs)
			}
			return err == nil
		}
		before := fetch()
		if err := i.Rotate(SigningKey{ID: "two", Private: newKey(t).Private}, time.Hour); err != nil {
			t.Fatal(err)
		}
		during := fetch()
		if len(during) != 2 || during[0].ID != "two" || during[1].ID != "one" || !accepted(before) || !accepted(during) || !accepted(during[:1]) {
			t.Errorf("published %v", during)
		}
		time.Sleep(time.Hour)
		if !accepted(before) {
			t.Error("the old key ended too early")
		}
		time.Sleep(time.Nanosecond)
		if after := fetch(); len(after) != 1 || after[0].ID != "two" || accepted(before) || !accepted(after) {
			t.Errorf("published %v", after)
		}
		if err := i.Rotate(SigningKey{ID: "two", Private: newKey(t).Private}, time.Hour); err == nil {
			t.Error("two keys have one id")
		}
		if err := i.Rotate(SigningKey{}, time.Hour); err == nil || len(fetch()) != 1 {
			t.Error("a failed rotation changed something")
		}
		time.Sleep(2 * time.Hour)
		if len(fetch()) != 1 {
			t.Error("a failed rotation ended the key")
		}
	})
}

// TestHOOK10KeySets reads what other servers may publish.
func TestHOOK10KeySets(t *testing.T) {
	x := base64.RawURLEncoding.EncodeToString(make([]byte, 32))
	good := `{"kty":"OKP","crv":"Ed25519","x":"` + x + `","kid":"a"}`
	for name, c := range map[string]struct {
		set  string
		keys int
	}{
		"one":             {`{"keys":[` + good + `]}`, 1},
		"unknown members": {`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","x5c":[],"key_ops":["verify"]}],"more":1}`, 1},
		"other kinds":     {`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"OKP","crv":"X25519","x":"` + x + `"},` + good + `]}`, 1},
		"encryption":      {`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + x + `","use":"enc"}]}`, 0},
		"short key":       {`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AAAA"}]}`, 0},
		"not base64url":   {`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"+/=="}]}`, 0},
		"empty":           {`{"keys":[]}`, 0},
		"no object":       {`[]`, 0},
		"no JSON":         {`<html>`, 0},
	} {
		keys, err := ParseKeySet([]byte(c.set))
		if len(keys) != c.keys || (err == nil) != (c.keys > 0) {
			t.Errorf("%s: %v, %v", name, keys, err)
		}
	}
	w := httptest.NewRecorder()
	newIdentity(t).ServeHTTP(w, httptest.NewRequest(http.MethodPost, wire.PathKeySet, nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestHOOK10KeyText reads and writes private keys, and hides none in an error.
func TestHOOK10KeyText(t *testing.T) {
	k := newKey(t)
	again, err := ParseSigningKey(k.Text())
	if err != nil || !again.Private.Equal(k.Private) {
		t.Error(err)
	}
	torn := slices.Clone(k.Private)
	torn[40] ^= 1
	for _, text := range []string{"", "whsk_", strings.TrimPrefix(k.Text(), "whsk_"), "whsk_AAAA", "whsk_" + base64.StdEncoding.EncodeToString(torn), "whsk_!"} {
		if _, err := ParseSigningKey(text); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%d"} {
		if got := fmt.Sprintf(verb, k); got != "whsk_(hidden) " {
			t.Errorf("%s shows %s", verb, got)
		}
	}
	if got := k.LogValue().String(); got != "whsk_(hidden) " {
		t.Errorf("the log shows %s", got)
	}
	if _, err := NewIdentity(); err == nil {
		t.Error("an identity without keys")
	}
	if _, err := NewIdentity(k, k); err == nil {
		t.Error("an identity with one key twice")
	}
}

// TestHOOK10Bounded tries only a few v1a signatures of one message.
func TestHOOK10Bounded(t *testing.T) {
	i := newIdentity(t)
	m := Message{ID: "evt_1", Body: []byte("{}")}
	h := signed(t, Signer{Ring: NewRing(NewSecret()), Identity: i}, m, time.Now())
	wrong := "v1a," + base64.StdEncoding.EncodeToString(make([]byte, 64)) + " "
	genuine := h.Get(wire.HeaderWebhookSignature)
	for n, want := range map[int]error{0: nil, maxEd25519 - 1: nil, maxEd25519: ErrSignature, 10000: ErrSignature} {
		h.Set(wire.HeaderWebhookSignature, strings.Repeat(wrong, n)+genuine)
		if _, err := (Verifier{Keys: i.PublicKeys()}).Verify(h, m.Body); !errors.Is(err, want) {
			t.Errorf("%d wrong ones before: %v", n, err)
		}
	}
}
