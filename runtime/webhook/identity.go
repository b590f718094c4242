package webhook

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/mcpe-gen/mcpe-gen/internal/inbound"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// signingKeyPrefix is the prefix of an encoded private key in Standard Webhooks.
const signingKeyPrefix = "whsk_"

// A SigningKey is a private ed25519 key that identifies a server. See HOOK-10.
type SigningKey struct {
	// ID is the kid of the published public key. The default is the key's thumbprint (RFC 7638).
	ID string
	// Private is the key.
	Private ed25519.PrivateKey
	// Until is the time after which the key is neither used nor published; zero means no expiry.
	Until time.Time
}

// ParseSigningKey parses a private key as encoded in Standard Webhooks. The encoding is whsk_ followed by the base64
// encoding of the 32-byte seed, or of the seed and the public key.
func ParseSigningKey(text string) (SigningKey, error) {
	bad := errors.New("webhook: a signing key is whsk_ followed by the base64 of an ed25519 seed or private key")
	coded, ok := strings.CutPrefix(text, signingKeyPrefix)
	if !ok {
		return SigningKey{}, bad
	}
	b, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(coded, "="))
	if err != nil || len(b) != ed25519.SeedSize && len(b) != ed25519.PrivateKeySize {
		return SigningKey{}, bad
	}
	private := ed25519.NewKeyFromSeed(b[:ed25519.SeedSize])
	if len(b) == ed25519.PrivateKeySize && !slices.Equal(b, private) {
		return SigningKey{}, bad
	}
	return SigningKey{Private: private}, nil
}

// Text returns the key in the encoding that [ParseSigningKey] parses.
func (k SigningKey) Text() string {
	return signingKeyPrefix + base64.StdEncoding.EncodeToString(k.Private)
}

// Format writes the key's ID for every verb. It never writes the private key.
func (k SigningKey) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, signingKeyPrefix+"(hidden) "+k.ID)
}

// LogValue returns the key's ID without the private key.
func (k SigningKey) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(k)) }

// An Identity signs messages with a server's keys. Receivers use the published key set to verify the sender. An
// Identity is also an http.Handler that serves the key set. Mount it at [PathKeySet] on the server's origin. It is safe
// for concurrent use. See HOOK-10.
type Identity struct {
	mu   sync.RWMutex
	keys []SigningKey // newest first
}

// NewIdentity returns an Identity with the given keys, newest first. Pass all keys in use, such as two keys if the
// server restarts during a rotation.
func NewIdentity(keys ...SigningKey) (*Identity, error) {
	if len(keys) == 0 {
		return nil, errors.New("webhook: an identity needs a key")
	}
	i := &Identity{}
	for _, k := range slices.Backward(keys) {
		if err := i.add(k); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// Rotate makes k the newest key. For the duration of grace, the previous key also signs messages and remains published.
// The grace period should be much longer than five minutes, which is how long receivers may cache the key set
// (HOOK-10).
func (i *Identity) Rotate(k SigningKey, grace time.Duration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := slices.Clone(i.keys)
	if len(i.keys) > 0 {
		i.keys[0].Until = time.Now().Add(grace)
	}
	if err := i.add(k); err != nil {
		i.keys = before
		return err
	}
	now := time.Now()
	i.keys = slices.DeleteFunc(i.keys, func(k SigningKey) bool { return !k.activeAt(now) })
	return nil
}

func (i *Identity) add(k SigningKey) error {
	if len(k.Private) != ed25519.PrivateKeySize {
		return errors.New("webhook: a signing key has no ed25519 private key")
	}
	if k.ID == "" {
		k.ID = thumbprint(k.public())
	}
	if slices.ContainsFunc(i.keys, func(other SigningKey) bool { return other.ID == k.ID }) {
		return fmt.Errorf("webhook: two signing keys have the id %q", k.ID)
	}
	i.keys = append([]SigningKey{k}, i.keys...)
	return nil
}

func (k SigningKey) public() ed25519.PublicKey { return k.Private.Public().(ed25519.PublicKey) }

func (k SigningKey) activeAt(now time.Time) bool { return k.Until.IsZero() || !now.After(k.Until) }

// sign returns a signature, prefixed with its scheme, for each active key.
func (i *Identity) sign(at time.Time, message []byte) []string {
	i.mu.RLock()
	defer i.mu.RUnlock()
	var signatures []string
	for _, k := range i.keys {
		if k.activeAt(at) {
			s := ed25519.Sign(k.Private, message)
			signatures = append(signatures, wire.SignatureEd25519+","+base64.StdEncoding.EncodeToString(s))
		}
	}
	return signatures
}

// A PublicKey is a key in a server's key set.
type PublicKey struct {
	// ID is the kid.
	ID string
	// Key is the public key.
	Key ed25519.PublicKey
}

// PublicKeys returns the keys that are currently published, newest first.
func (i *Identity) PublicKeys() []PublicKey {
	i.mu.RLock()
	defer i.mu.RUnlock()
	now := time.Now()
	var keys []PublicKey
	for _, k := range i.keys {
		if k.activeAt(now) {
			keys = append(keys, PublicKey{k.ID, k.public()})
		}
	}
	return keys
}

// ServeHTTP serves the JWK set.
func (i *Identity) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	inbound.Deadline(w, r, bodyTimeout)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	body, err := EncodeKeySet(i.PublicKeys())
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/jwk-set+json")
	w.Header().Set("Cache-Control", "public, max-age=300")
	_, _ = w.Write(body)
}

// A jsonWebKey is an ed25519 public key encoded as a JSON Web Key (RFC 8037).
type jsonWebKey struct {
	Type      string `json:"kty"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	ID        string `json:"kid,omitempty"`
	Use       string `json:"use,omitempty"`
	Algorithm string `json:"alg,omitempty"`
}

type jwks struct {
	Keys []jsonWebKey `json:"keys"`
}

const (
	keyType  = "OKP"
	keyCurve = "Ed25519"
	keyUse   = "sig"
)

// EncodeKeySet encodes keys as a JWK set (RFC 7517, RFC 8037).
func EncodeKeySet(keys []PublicKey) ([]byte, error) {
	set := jwks{Keys: []jsonWebKey{}}
	for _, k := range keys {
		set.Keys = append(set.Keys, jsonWebKey{keyType, keyCurve, base64.RawURLEncoding.EncodeToString(k.Key), k.ID, keyUse, "EdDSA"})
	}
	b, err := json.Marshal(set)
	if err != nil {
		return nil, fmt.Errorf("webhook: encode key set: %w", err)
	}
	return b, nil
}

// ParseKeySet returns the ed25519 keys of a JWK set. It skips keys of other types or for other uses, as RFC 7517
// requires. It returns an error if the set contains no usable key.
func ParseKeySet(data []byte) ([]PublicKey, error) {
	var set jwks
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("webhook: parse key set: %w", err)
	}
	var keys []PublicKey
	for _, k := range set.Keys {
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		if k.Type != keyType || k.Curve != keyCurve || k.Use != "" && k.Use != keyUse || err != nil || len(x) != ed25519.PublicKeySize {
			continue
		}
		keys = append(keys, PublicKey{k.ID, x})
	}
	if len(keys) == 0 {
		return nil, errors.New("webhook: the key set has no ed25519 key for signatures")
	}
	return keys, nil
}

// thumbprint returns the RFC 7638 thumbprint of a key, computed over the members of RFC 8037.
func thumbprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256([]byte(`{"crv":"Ed25519","kty":"OKP","x":"` + base64.RawURLEncoding.EncodeToString(key) + `"}`))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
