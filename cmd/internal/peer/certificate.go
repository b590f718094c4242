package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/atomicfile"
)

const (
	certificateLife = 90 * 24 * time.Hour
	certificateLeft = 24 * time.Hour // replace a certificate that expires sooner
)

// loopbackCertificate returns a certificate for localhost and the loopback addresses. It also returns the name of the
// file with the certificate and its key. The file is in the user's cache directory. It therefore has to be added to a
// server's root certificates only once.
func loopbackCertificate() (tls.Certificate, string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return tls.Certificate{}, "", err
	}
	dir := filepath.Join(cache, "mcpe-gen")
	name := filepath.Join(dir, "loopback.pem")
	if pair, err := tls.LoadX509KeyPair(name, name); err == nil && isIntact(pair.Leaf) && time.Until(pair.Leaf.NotAfter) > certificateLeft {
		return pair, name, nil
	}
	text, err := newLoopbackCertificate()
	if err != nil {
		return tls.Certificate{}, "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return tls.Certificate{}, "", err
	}
	if err := atomicfile.Write(name, text); err != nil {
		return tls.Certificate{}, "", err
	}
	pair, err := tls.X509KeyPair(text, text)
	return pair, name, err
}

// isIntact reports whether the signature of a self-signed certificate is valid. A damaged certificate is replaced.
func isIntact(c *x509.Certificate) bool {
	return c.CheckSignature(c.SignatureAlgorithm, c.RawTBSCertificate, c.Signature) == nil
}

// newLoopbackCertificate returns a self-signed certificate and its key in PEM format. It cannot sign others.
func newLoopbackCertificate() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: "mcpe-gen listen on this machine"},
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(certificateLife),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("the key of the certificate: %w", err)
	}
	return append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...), nil
}
