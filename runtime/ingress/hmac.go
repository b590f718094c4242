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

// HMACOptions configure [NewHMAC].
type HMACOptions struct {
	// Secrets are the accepted secrets; one of them must have signed. Several are for the time of a rotation.
	Secrets []string
	// Header is the header that has the signature, such as "X-Shopify-Hmac-Sha256".
	Header string
	// Prefix stands before the signature, such as "sha256=".
	Prefix string
	// Encoding is "hex" (the default) or "base64", which is the standard alphabet with padding.
	Encoding string
	// Hash is crypto.SHA256 (the default), crypto.SHA384 or crypto.SHA512.
	Hash crypto.Hash
	// Event and Action say where the body or the headers name what happened: a JSON Pointer (RFC 6901) when it
	// begins with a slash, else the name of a header, such as "X-Shopify-Topic". Headers are not signed. Empty: no
	// event is named, and only routes without one take the messages.
	Event, Action string
}

// An HMAC verifies webhooks whose header has an HMAC over the body. Where the id of a delivery is, each route
// says (see [From]).
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

// NewHMAC makes the service. No secret, one of less than 8 bytes, or invalid options are an error.
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

// Verify checks the header.
func (m *HMAC) Verify(h http.Header, body []byte) error {
	text, err := header(h, m.o.Header)
	if err != nil {
		return err
	}
	coded, ok := strings.CutPrefix(text, m.o.Prefix)
	if !ok || strings.ContainsAny(coded, "\r\n") {
		return ErrHeaders
	}
	signature, err := m.decode(coded)
	if err != nil || len(signature) == 0 {
		return ErrHeaders
	}
	if !m.signed(m.newHash, [][]byte{signature}, body) {
		return ErrSignature
	}
	return nil
}

// Delivery reads the event and the action from where the options say.
func (m *HMAC) Delivery(h http.Header, body []byte) (Delivery, error) {
	doc, err := newDocument(body)
	if err != nil {
		return Delivery{}, err
	}
	d := Delivery{Provider: m.provider}
	if m.o.Event != "" {
		if d.Event = doc.text(h, m.o.Event); d.Event == "" {
			return d, errors.New("there is no event at HMACOptions.Event")
		}
	}
	if m.o.Action != "" {
		d.Action = doc.text(h, m.o.Action)
	}
	return d, nil
}
