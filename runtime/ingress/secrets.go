package ingress

import (
	"cmp"
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

// DefaultTolerance is the default for the maximum difference between a timestamp and the local clock, in either
// direction.
const DefaultTolerance = 5 * time.Minute

// A serviceBase contains the data that all services have, which are the provider and the secrets.
type serviceBase struct {
	provider string
	secrets  [][]byte
}

// Provider returns the name of the service for routes.
func (s *serviceBase) Provider() string { return s.provider }

// Format writes only the provider, so logging a service does not reveal a secret.
func (s *serviceBase) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "ingress."+s.provider) }

// minSecret is the minimum length of a secret in bytes.
const minSecret = 8

// newService returns a service. It returns an error if no secrets are given, or if a secret is so short that it could
// be guessed.
func newService(provider string, secrets []string) (serviceBase, error) {
	s := serviceBase{provider: provider}
	if len(secrets) == 0 {
		return s, missingSecretError(provider)
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

// missingSecretError returns the error for a service that has no secrets.
func missingSecretError(provider string) error {
	return fmt.Errorf("ingress: %s: no secret given: without one anybody could send events", provider)
}

// verifiedBody reads and returns the body. It verifies that at least one of the signatures over before and the body was
// made with one of the secrets. It returns the decompressed content.
func (s *serviceBase) verifiedBody(r *http.Request, newHash func() hash.Hash, signatures [][]byte, before string) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if !s.hasSignature(newHash, signatures, []byte(before), body) {
		return nil, ErrSignature
	}
	return Unpack(r, body)
}

// hasSignature reports whether any of the signatures over the parts was made with one of the secrets. It always
// compares all secrets with all signatures.
func (s *serviceBase) hasSignature(newHash func() hash.Hash, signatures [][]byte, parts ...[]byte) bool {
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

// hasToken reports whether token is accepted, in constant time. It compares hashes, which have a fixed length, so the
// comparison does not depend on a token's length.
func (s *serviceBase) hasToken(token string) bool {
	got := sha256.Sum256([]byte(token))
	matched := 0
	for _, secret := range s.secrets {
		want := sha256.Sum256(secret)
		matched |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return matched == 1
}

// Limits on the size of a header in bytes, and on the number of signatures in it.
const (
	maxHeader     = 4 << 10
	maxSignatures = 16
)

// singleHeader returns the value of a header. It returns an error unless the header occurs exactly once and is within
// the size limit.
func singleHeader(h http.Header, name string) (string, error) {
	values := h.Values(name)
	if len(values) != 1 || values[0] == "" || len(values[0]) > maxHeader {
		return "", ErrHeaders
	}
	return values[0], nil
}

// hexHeader decodes a header that consists of a prefix and hex bytes.
func hexHeader(h http.Header, name, prefix string) ([]byte, error) {
	text, err := singleHeader(h, name)
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

// freshHeader returns a header that contains a Unix time. The time must be within tolerance of the local clock.
func freshHeader(h http.Header, name string, tolerance time.Duration) (string, error) {
	stamp, err := singleHeader(h, name)
	if err != nil {
		return "", err
	}
	return stamp, checkFresh(stamp, tolerance)
}

// checkFresh returns an error unless a Unix time in decimal digits is within tolerance of the local clock.
func checkFresh(stamp string, tolerance time.Duration) error {
	if len(stamp) == 0 || len(stamp) > 12 || strings.Trim(stamp, "0123456789") != "" {
		return ErrHeaders
	}
	n, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return ErrHeaders
	}
	tolerance = cmp.Or(max(tolerance, 0), DefaultTolerance)
	if d := time.Since(time.Unix(n, 0)); d > tolerance || d < -tolerance {
		return ErrStale
	}
	return nil
}

var newSHA256 = sha256.New
