package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSUB3ParseSecret lists what is a secret and what is not (SUB-3).
func TestSUB3ParseSecret(t *testing.T) {
	raw := func(n int) []byte { return bytes.Repeat([]byte{0xfb}, n) }
	std, bare := base64.StdEncoding.EncodeToString, base64.RawStdEncoding.EncodeToString
	url, bareURL := base64.URLEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	for n := 24; n <= 64; n++ {
		for _, text := range []string{"whsec_" + std(raw(n)), "whsec_" + bare(raw(n)), "whsec_" + url(raw(n)), "whsec_" + bareURL(raw(n))} {
			s, err := ParseSecret(text)
			if err != nil || s.key != string(raw(n)) || s.Text() != "whsec_"+std(raw(n)) {
				t.Errorf("%d bytes, %s: %v", n, text, err)
			}
		}
	}
	for name, text := range map[string]string{
		"empty":          "",
		"prefix only":    "whsec_",
		"no prefix":      std(raw(32)),
		"other prefix":   "WHSEC_" + std(raw(32)),
		"too short":      "whsec_" + std(raw(23)),
		"too long":       "whsec_" + std(raw(65)),
		"two alphabets":  "whsec_" + std(raw(33))[:20] + url(raw(33))[20:],
		"url too short":  "whsec_" + url(raw(23)),
		"url padding":    "whsec_" + url(raw(25))[:35],
		"half padded":    "whsec_" + strings.TrimSuffix(std(raw(25)), "="),
		"over padded":    "whsec_" + std(raw(24)) + "=",
		"line break":     "whsec_" + std(raw(32))[:20] + "\n" + std(raw(32))[20:],
		"blank":          "whsec_ " + std(raw(32)),
		"trailing blank": "whsec_" + std(raw(32)) + " ",
	} {
		if s, err := ParseSecret(text); err == nil || !s.IsZero() {
			t.Errorf("%s: %q was accepted", name, text)
		} else if len(text) > 20 && strings.Contains(err.Error(), text[6:]) {
			t.Errorf("%s: %v repeats the secret", name, err)
		}
	}
}

// TestNewSecret makes different secrets that can be parsed (CLI-5).
func TestNewSecret(t *testing.T) {
	a, b := NewSecret(), NewSecret()
	if a.Equal(b) || a == b {
		t.Error("two secrets are equal")
	}
	if again, err := ParseSecret(a.Text()); err != nil || !again.Equal(a) {
		t.Errorf("%v", err)
	}
}

// TestSecretHidesItself formats, logs and encodes a secret in every common way.
func TestSecretHidesItself(t *testing.T) {
	s := NewSecret()
	var out strings.Builder
	type record struct{ Secret Secret }
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d", "%T"} {
		fmt.Fprintf(&out, verb+" "+verb+" "+verb+"\n", s, &s, record{s})
	}
	log := slog.New(slog.NewJSONHandler(&out, nil))
	log.Info("x", "secret", s, "record", record{s}, "ring", NewRing(s))
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "secret", s, "record", record{s})
	if b, err := json.Marshal(record{s}); err == nil {
		t.Errorf("encoded as %s", b)
	}
	for _, leak := range []string{s.Text()[6:], fmt.Sprintf("%x", s.key), fmt.Sprint([]byte(s.key))[1:30], fmt.Sprintf("%q", s.key)} {
		if strings.Contains(out.String(), leak) {
			t.Errorf("found %q in\n%s", leak, out.String())
		}
	}
}

// TestSUB5Ring keeps each secret for its window and not longer (SUB-5, trap 6).
// [Ring.Rotate] carries it.
func TestSUB5Ring(t *testing.T) {
	const grace = 5 * time.Minute
	a, b, c := NewSecret(), NewSecret(), NewSecret()
	start := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	expect := func(what string, r Ring, at time.Time, want ...Secret) {
		t.Helper()
		if got := r.Active(at); !slices.Equal(got, want) {
			t.Errorf("%s: %d secrets, want %d", what, len(got), len(want))
		}
	}
	r := NewRing(a)
	expect("one", r, start.Add(1000*time.Hour), a)
	two := r.Rotate(b, start, grace)
	expect("the old ring", r, start, a)
	expect("window", two, start, b, a)
	expect("t-1", two, start.Add(grace-1), b, a)
	expect("t", two, start.Add(grace), b, a)
	expect("t+1", two, start.Add(grace+1), b)

	same := two.Rotate(b, start.Add(grace/2), grace)
	expect("same secret, window goes on", same, start.Add(grace), b, a)
	expect("same secret, window is not longer", same, start.Add(grace+1), b)

	three := two.Rotate(c, start.Add(grace/2), grace)
	expect("three", three, start.Add(grace), c, b, a)
	expect("each its own window", three, start.Add(grace+1), c, b)
	expect("last", three, start.Add(2*grace), c)

	back := two.Rotate(a, start.Add(time.Minute), grace)
	expect("back to the old one", back, start.Add(grace+1), a, b)
	expect("back for good", back, start.Add(10*grace), a)
	expect("no grace", two.Rotate(c, start, 0), start, c, a)
	expect("ended keys are dropped", two.Rotate(c, start.Add(2*grace), 0), start, c)
	expect("nothing", Ring{}.Rotate(a, start, grace), start, a)
	expect("no secret", Ring{{}}, start)

	for range 100 {
		r = r.Rotate(NewSecret(), start, grace)
	}
	if len(r) != maxKeys {
		t.Errorf("the ring has %d keys", len(r))
	}
}
