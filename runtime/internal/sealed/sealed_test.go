package sealed

import (
	"bytes"
	"errors"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/store"
)

var (
	oneKey     = []byte("0123456789abcdef0123456789abcdef")
	anotherKey = []byte("another-key-of-32-bytes---------")
	secrets    = []store.Secret{{Key: []byte("a-secret-of-32-bytes------------")}}
)

func box(t *testing.T, key []byte, old ...[]byte) Box {
	t.Helper()
	b, err := New(key, old...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func seal(t *testing.T, b Box, id string) []byte {
	t.Helper()
	out, err := b.Seal(id, secrets)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func opens(t *testing.T, b Box, id string, in []byte) {
	t.Helper()
	got, err := b.Open(id, in)
	if err != nil || len(got) != 1 || !bytes.Equal(got[0].Key, secrets[0].Key) {
		t.Errorf("%s: %v, %v", id, got, err)
	}
}

func refuses(t *testing.T, what string, b Box, id string, in []byte, want error) {
	t.Helper()
	if got, err := b.Open(id, in); !errors.Is(err, want) || got != nil {
		t.Errorf("%s: %v, %v, want %v", what, got, err, want)
	}
}

// S5, M2: sealed secrets open for their record, with their key, as a whole, and not otherwise.
func TestOpen(t *testing.T) {
	b := box(t, oneKey)
	in := seal(t, b, "sub_1")
	opens(t, b, "sub_1", in)
	if bytes.Contains(in, []byte("secret")) {
		t.Errorf("it lies there as %q", in)
	}
	refuses(t, "another record's", b, "sub_2", in, ErrKey)
	refuses(t, "another key", box(t, anotherKey), "sub_1", in, ErrKey)
	refuses(t, "no key", Box{}, "sub_1", in, ErrKey)
	for n := range in {
		if _, err := b.Open("sub_1", in[:n]); err == nil {
			t.Errorf("cut to %d bytes it opens", n)
		}
		for bit := range 8 {
			flipped := bytes.Clone(in)
			flipped[n] ^= 1 << bit
			if _, err := b.Open("sub_1", flipped); err == nil {
				t.Errorf("with bit %d of byte %d flipped it opens", bit, n)
			}
		}
	}
	plain := seal(t, Box{}, "sub_1")
	opens(t, Box{}, "sub_1", plain)
	refuses(t, "K13: without a key, for a box that has one", b, "sub_1", plain, ErrForm)
	refuses(t, "an unknown form", b, "sub_1", append([]byte{7}, in...), ErrForm)
	refuses(t, "nothing", b, "sub_1", nil, ErrForm)
	refuses(t, "no JSON", Box{}, "sub_1", []byte{formPlain, '{'}, ErrForm)
}

// M3: neither a nonce nor a ciphertext is ever repeated.
func TestNonces(t *testing.T) {
	b := box(t, oneKey)
	texts, nonces := map[string]bool{}, map[string]bool{}
	for range 1000 {
		in := seal(t, b, "sub_1")
		texts[string(in)] = true
		nonces[string(in[PrefixSize:PrefixSize+12])] = true
	}
	if len(texts) != 1000 || len(nonces) != 1000 {
		t.Errorf("of 1000 there are %d texts and %d nonces", len(texts), len(nonces))
	}
}

// S5: old keys open and never seal; secrets that they sealed are renewed.
func TestRenew(t *testing.T) {
	old, both, now := box(t, oneKey), box(t, anotherKey, oneKey), box(t, anotherKey)
	in := seal(t, old, "sub_1")
	opens(t, both, "sub_1", in)
	out, err := both.Renew("sub_1", in, false)
	if err != nil {
		t.Fatal(err)
	}
	opens(t, now, "sub_1", out)
	refuses(t, "renewed, with the old key", old, "sub_1", out, ErrKey)
	if again, err := both.Renew("sub_1", out, true); again != nil || err != nil {
		t.Errorf("renewed twice: %v", err)
	}
	if _, err := now.Renew("sub_1", in, true); !errors.Is(err, ErrKey) {
		t.Errorf("renewed without the old key: %v", err)
	}
	if _, err := both.Renew("sub_2", in, true); !errors.Is(err, ErrKey) {
		t.Errorf("renewed for another record: %v", err)
	}
	plain := seal(t, Box{}, "sub_1")
	if _, err := both.Renew("sub_1", plain, false); !errors.Is(err, ErrForm) {
		t.Errorf("a plain one: %v", err)
	}
	if out, err = both.Renew("sub_1", plain, true); err != nil {
		t.Fatal(err)
	}
	opens(t, now, "sub_1", out)
	if !bytes.HasPrefix(out, now.Prefix()) || len(now.Prefix()) != PrefixSize || bytes.Equal(now.Prefix(), old.Prefix()) {
		t.Errorf("prefixes %x and %x", now.Prefix(), old.Prefix())
	}
}

func TestCheck(t *testing.T) {
	old, both, now := box(t, oneKey), box(t, anotherKey, oneKey), box(t, anotherKey)
	for _, c := range []struct {
		name string
		b    Box
		in   []byte
		err  error
	}{
		{"its own", old, old.SealCheck(), nil},
		{"an old key's", both, old.SealCheck(), nil},
		{"another key's", now, old.SealCheck(), ErrKey},
		{"without a key", Box{}, old.SealCheck(), ErrKey},
		{"a secret of no record", old, seal(t, old, ""), ErrForm},
		{"a plain one", old, append([]byte{formPlain}, checkText...), ErrForm},
	} {
		if err := c.b.Check(c.in); !errors.Is(err, c.err) {
			t.Errorf("%s: %v, want %v", c.name, err, c.err)
		}
	}
	for _, keys := range [][][]byte{{[]byte("short")}, {oneKey, []byte("short")}, {nil, oneKey}} {
		if _, err := New(keys[0], keys[1:]...); !errors.Is(err, ErrKey) {
			t.Errorf("%q: %v", keys, err)
		}
	}
}
