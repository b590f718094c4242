package ingress

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// DefaultTolerance is the largest difference between the timestamp of a request and this clock, in either direction.
const DefaultTolerance = 5 * time.Minute

// A service is the common part of the services: the word and the secrets.
type service struct {
	provider string
	secrets  [][]byte
}

// Provider returns the word that routes name the service by.
func (s *service) Provider() string { return s.provider }

// Format writes the provider's word, so that a service in a log shows no secret.
func (s *service) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "ingress."+s.provider) }

// minSecret is the least number of bytes in a secret.
const minSecret = 8

// newService refuses secrets that would let everybody in.
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

// open reads a body and returns its content if one of the secrets made one of the signatures over before and the body.
func (s *service) open(r *http.Request, newHash func() hash.Hash, signatures [][]byte, before string) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !s.signed(newHash, signatures, []byte(before), body) {
		return nil, ErrSignature
	}
	return Unpack(r, body)
}

// signed reports whether one of the secrets makes one of the signatures over the parts of the message. It tries every
// secret against every signature, whether or not one matched before.
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

// hasToken reports whether a token is one of the accepted ones, in constant time: it compares hashes, which have one
// length, so that the time does not depend on the length of the token.
func (s *service) hasToken(token string) bool {
	got := sha256.Sum256([]byte(token))
	matched := 0
	for _, secret := range s.secrets {
		want := sha256.Sum256(secret)
		matched |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return matched == 1
}

// Bounds of a header in bytes, and of the signatures in it.
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

// hexHeader reads a header with bytes in hex after a prefix.
func hexHeader(h http.Header, name, prefix string) ([]byte, error) {
	text, err := header(h, name)
	if err != nil {
		return nil, err
	}
	coded, ok := strings.CutPrefix(text, prefix)
	b, err := hex.DecodeString(coded)
	if !ok || err != nil || len(b) == 0 {
		return nil, ErrHeaders
	}
	return b, nil
}

// freshHeader reads a header with a Unix time that is close enough to this clock.
func freshHeader(h http.Header, name string, tolerance time.Duration) (string, error) {
	stamp, err := header(h, name)
	if err != nil {
		return "", err
	}
	return stamp, fresh(stamp, tolerance)
}

// fresh checks a Unix time of plain digits against this clock.
func fresh(stamp string, tolerance time.Duration) error {
	if len(stamp) == 0 || len(stamp) > 12 || strings.Trim(stamp, "0123456789") != "" {
		return ErrHeaders
	}
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return ErrHeaders
	}
	if tolerance <= 0 {
		tolerance = DefaultTolerance
	}
	if d := time.Since(time.Unix(n, 0)); d > tolerance || d < -tolerance {
		return ErrStale
	}
	return nil
}

var newSHA256 = sha256.New
