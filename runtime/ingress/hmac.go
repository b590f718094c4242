package ingress

import (
	"crypto"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// HMACOptions configures [NewHMAC].
type HMACOptions struct {
	// Secrets lists the accepted secrets. The request must be signed with one of these secrets. List more than one
	// during rotation.
	Secrets []string
	// Header is the name of the header that contains the signature, such as "X-Shopify-Hmac-Sha256". The header may
	// contain several signatures, separated by commas or spaces. One valid signature is sufficient.
	Header string
	// Prefix is the prefix of each signature, such as "sha256=". If it contains a comma, only spaces separate
	// signatures.
	Prefix string
	// Encoding is "hex" (the default) or "base64", which is the standard alphabet with padding.
	Encoding string
	// Hash is crypto.SHA256 (the default), crypto.SHA384 or crypto.SHA512.
	Hash crypto.Hash
	// Event and Action are the locations of the event's name and the action's name. A location with a leading slash is
	// a JSON Pointer (RFC 6901) into the body. Otherwise, it is the name of a header, such as "X-Shopify-Topic".
	// Headers are not signed. If Event is empty, deliveries match only routes without an event.
	Event, Action string
}

// An HMAC verifies webhooks with an HMAC of the body, which a header contains. Each route names the place of the
// delivery's id (see [From]).
type HMAC struct {
	serviceBase
	o       HMACOptions
	newHash func() hash.Hash
	decode  func(string) ([]byte, error)
}

var hashes = map[crypto.Hash]func() hash.Hash{
	0: sha256.New, crypto.SHA256: sha256.New, crypto.SHA384: sha512.New384, crypto.SHA512: sha512.New,
}

var encodings = map[string]func(string) ([]byte, error){
	"": hex.DecodeString, "hex": hex.DecodeString, "base64": base64.StdEncoding.Strict().DecodeString,
}

// NewHMAC returns an HMAC service. At least one secret is required, and each must have at least 8 bytes. It returns an
// error if an option is invalid.
func NewHMAC(o HMACOptions) (*HMAC, error) {
	s, err := newService(ProviderHMAC, o.Secrets)
	if err != nil {
		return nil, err
	}
	h := &HMAC{serviceBase: s, o: o, newHash: hashes[o.Hash], decode: encodings[o.Encoding]}
	switch {
	case !httpguts.ValidHeaderFieldName(o.Header):
		return nil, fmt.Errorf("ingress: hmac: Header %q is not the name of a header", o.Header)
	case h.newHash == nil:
		return nil, fmt.Errorf("ingress: hmac: Hash %v must be SHA-256, SHA-384 or SHA-512", o.Hash)
	case h.decode == nil:
		return nil, fmt.Errorf("ingress: hmac: Encoding %q must be hex or base64", o.Encoding)
	}
	for _, place := range []string{o.Event, o.Action} {
		if place == "" {
			continue
		}
		if err := checkPlace(place); err != nil {
			return nil, fmt.Errorf("ingress: hmac: %w", err)
		}
	}
	return h, nil
}

// Receive verifies the signature and reads the event and the action from the locations in the options.
func (m *HMAC) Receive(r *http.Request) (Result, error) {
	if err := CheckJSON(r); err != nil {
		return Result{}, err
	}
	signatures, err := m.signatures(r.Header)
	if err != nil {
		return Result{}, err
	}
	body, err := m.verifiedBody(r, m.newHash, signatures, "")
	if err != nil {
		return Result{}, err
	}
	doc, err := newDocument(body)
	if err != nil {
		return Result{}, err
	}
	d := Delivery{Body: body}
	if m.o.Event != "" {
		if d.Event = doc.textAt(r.Header, m.o.Event); d.Event == "" {
			return Result{}, errors.New("the request has no event at HMACOptions.Event")
		}
	}
	if m.o.Action != "" {
		d.Action = doc.textAt(r.Header, m.o.Action)
	}
	return singleDelivery(d), nil
}

// signatures returns the signatures in the header. A service may send several signatures during secret rotation:
// "v1=a,v1=b". It skips elements without the prefix, such as signatures of another scheme, and elements in another
// encoding.
func (m *HMAC) signatures(h http.Header) ([][]byte, error) {
	text, err := singleHeader(h, m.o.Header)
	if err != nil {
		return nil, err
	}
	separators := ", \t"
	if strings.Contains(m.o.Prefix, ",") {
		separators = " \t"
	}
	var signatures [][]byte
	for part := range strings.FieldsFuncSeq(text, func(r rune) bool { return strings.ContainsRune(separators, r) }) {
		coded, ok := strings.CutPrefix(part, m.o.Prefix)
		if !ok || strings.ContainsAny(coded, "\r\n") { // which package base64 would skip
			continue
		}
		if signature, err := m.decode(coded); err == nil && len(signature) > 0 {
			signatures = append(signatures, signature)
		}
	}
	if len(signatures) == 0 || len(signatures) > maxSignatures {
		return nil, ErrHeaders
	}
	return signatures, nil
}
