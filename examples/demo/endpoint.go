package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// An endpoint is a callback: a TLS server on loopback that verifies every signature and can simulate failures.
type endpoint struct {
	url    string
	caPEM  []byte
	server *http.Server

	mu       sync.Mutex
	secrets  []webhook.Secret // every one of them must have signed
	failures int              // the number of deliveries to refuse next
	verified int
	taken    []string        // webhook-ids in order of first acceptance
	onTaken  func(id string) // if not nil, called for each id while mu is held
	refused  []string
	bad      []error
	change   chan struct{} // closed and replaced at every request
}

func newEndpoint() (*endpoint, error) {
	cert, caPEM, err := selfSigned()
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &endpoint{url: fmt.Sprintf("https://%s/hooks/demo", ln.Addr()), caPEM: caPEM, change: make(chan struct{})}
	e.server = &http.Server{Handler: e, ReadTimeout: 30 * time.Second, TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}}, ErrorLog: log.New(io.Discard, "", 0)}
	go e.server.ServeTLS(ln, "", "")
	return e, nil
}

// selfSigned creates a certificate for loopback. It also returns the certificate in PEM format for the server's
// -callback-ca.
func selfSigned() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mcpe-gen demo"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// ServeHTTP verifies the request, responds to a challenge, and accepts or refuses a delivery.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // for example for the well-known document, which we do not publish
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, webhook.MaxBody))
	if errors.As(err, new(*http.MaxBytesError)) {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() {
		close(e.change)
		e.change = make(chan struct{})
	}()
	var stamp webhook.Stamp
	for _, s := range e.secrets {
		if stamp, err = (webhook.Verifier{Secrets: []webhook.Secret{s}}).Verify(r.Header, body); err != nil {
			e.bad = append(e.bad, fmt.Errorf("%s: %w", r.Header.Get("webhook-id"), err))
			http.Error(w, "bad signature", http.StatusUnauthorized)
			return
		}
	}
	var envelope webhook.Envelope
	if err := json.Unmarshal(body, &envelope); err == nil && envelope.Type == webhook.TypeVerification {
		e.verified++
		json.NewEncoder(w).Encode(map[string]string{"challenge": envelope.Challenge})
		return
	}
	if e.failures > 0 {
		e.failures--
		e.refused = append(e.refused, stamp.ID)
		http.Error(w, "not now", http.StatusServiceUnavailable)
		return
	}
	// Delivery is at least once: if a killed server did not record that a delivery was accepted, it repeats the
	// delivery with the same id.
	if !slices.Contains(e.taken, stamp.ID) {
		e.taken = append(e.taken, stamp.ID)
		if e.onTaken != nil {
			e.onTaken(stamp.ID)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// failNext makes the endpoint refuse the next n deliveries.
func (e *endpoint) failNext(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failures = n
}

// setSecrets sets the secrets. Every delivery must be signed with all of them.
func (e *endpoint) setSecrets(secrets ...webhook.Secret) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.secrets = secrets
}

// waitUntil waits until holds returns true. It calls holds with the lock held.
func (e *endpoint) waitUntil(ctx context.Context, what string, holds func() bool) error {
	for {
		e.mu.Lock()
		ok, change, bad := holds(), e.change, e.bad
		e.mu.Unlock()
		if len(bad) > 0 {
			return bad[0]
		}
		if ok {
			return nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}
