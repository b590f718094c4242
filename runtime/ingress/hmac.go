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
)

// HMACOptions configures [NewHMAC].
type HMACOptions struct {
	// Secrets lists the accepted secrets; one of them must have signed the request. List more than one while rotating.
	Secrets []string
	// Header is the name of the header with the signature, such as "X-Shopify-Hmac-Sha256". The header may have
	// several signatures, separated by commas or spaces; one valid signature suffices.
	Header string
	// Prefix is the prefix of each signature, such as "sha256=". If it contains a comma, only spaces separate
	// signatures.
	Prefix string
	// Encoding is "hex" (the default) or "base64", which is the standard alphabet with padding.
	Encoding string
	// Hash is crypto.SHA256 (the default), crypto.SHA384 or crypto.SHA512.
	Hash crypto.Hash
	// Event and Action locate the names of the event and the action. A place with a leading slash is a JSON Pointer
	// (RFC 6901) into the body; otherwise it is the name of a header, such as "X-Shopify-Topic". Headers are not
	// signed. If Event is empty, only routes without an event match.
	Event, Action string
}

// An HMAC verifies webhooks with an HMAC of the body in a header. Each route names the place of the delivery's id (see
// [From]).
type HMAC struct {
	service
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

// NewHMAC returns the service. It is an error to give no secret, one of less than 8 bytes, or invalid options.
func NewHMAC(o HMACOptions) (*HMAC, error) {
	s, err := newService(ProviderHMAC, o.Secrets)
	if err != nil {
		return nil, err
	}
	h := &HMAC{service: s, o: o, newHash: hashes[o.Hash], decode: encodings[o.Encoding]}
	switch {
	case !isHeaderName(o.Header):
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

// Receive checks the signature, and reads the event and the action from the places in the options.
func (m *HMAC) Receive(r *http.Request) (Result, error) {
	if err := CheckJSON(r); err != nil {
		return Result{}, err
	}
	signatures, err := m.signatures(r.Header)
	if err != nil {
		return Result{}, err
	}
	body, err := m.open(r, m.newHash, signatures, "")
	if err != nil {
		return Result{}, err
	}
	doc, err := newDocument(body)
	if err != nil {
		return Result{}, err
	}
	d := Delivery{Body: body}
	if m.o.Event != "" {
		if d.Event = doc.text(r.Header, m.o.Event); d.Event == "" {
			return Result{}, errors.New("the request has no event at HMACOptions.Event")
		}
	}
	if m.o.Action != "" {
		d.Action = doc.text(r.Header, m.o.Action)
	}
	return delivered(d), nil
}

// signatures returns the signatures of a header. Services send several while they rotate a secret: "v1=a,v1=b". It
// skips parts without the prefix, such as signatures of another scheme, and parts in another encoding.
func (m *HMAC) signatures(h http.Header) ([][]byte, error) {
	text, err := header(h, m.o.Header)
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
