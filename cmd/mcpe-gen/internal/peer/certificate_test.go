package peer

import (
	"bytes"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A receiver on loopback makes a certificate that a server can be given as a root: the same one the next time, for this
// machine only, and in a file that only its owner reads.
func TestLoopbackCertificate(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} {
		t.Setenv(name, home)
	}
	open := func(r Receiver) *Door {
		t.Helper()
		d, err := r.Open()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Listener.Close() })
		return d
	}
	first := open(Receiver{Listen: "127.0.0.1:0"})
	if first.TLS == nil || !strings.HasPrefix(first.Certificate, home) {
		t.Fatalf("%+v", first)
	}
	leaf, err := x509.ParseCertificate(first.TLS.Certificates[0].Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(first.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) || leaf.IsCA {
		t.Errorf("the certificate is a CA: %t", leaf.IsCA)
	}
	for name, good := range map[string]bool{"127.0.0.1": true, "localhost": true, "[::1]": true, "mcp.example.com": false} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); (err == nil) != good {
			t.Errorf("%s: %v", name, err)
		}
	}
	info, err := os.Stat(first.Certificate)
	if err != nil || info.Mode().Perm()&0o077 != 0 && filepath.Separator == '/' {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if second := open(Receiver{Listen: "localhost:0"}); !bytes.Equal(second.TLS.Certificates[0].Certificate[0], leaf.Raw) {
		t.Error("the next receiver has another certificate")
	}
	if tunneled := open(Receiver{Listen: "127.0.0.1:0", PublicURL: "https://me.example.net"}); tunneled.TLS != nil {
		t.Error("a receiver after a tunnel has a certificate")
	}
}

func TestOnLoopback(t *testing.T) {
	for url, want := range map[string]bool{"http://127.0.0.1:8080/mcp": true, "http://localhost/mcp": true, "http://[::1]:1/mcp": true,
		"https://mcp.example.com/mcp": false, "http://10.0.0.1/mcp": false, "http://localhost.example.com/": false, "": false} {
		if got := (Target{URL: url}).OnLoopback(); got != want {
			t.Errorf("%q: %t", url, got)
		}
	}
}
