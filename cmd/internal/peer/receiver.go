package peer

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// A Receiver configures how servers reach this program by webhook. The zero value does not receive webhooks.
type Receiver struct {
	// Listen is the address to listen on.
	Listen string
	// PublicURL is the https URL at which servers reach Listen. If it is empty, it is https:// and the address.
	PublicURL string
	// Cert and Key are TLS certificate and key files. Without them, a Receiver at PublicURL leaves TLS to a proxy or
	// tunnel, and a Receiver on loopback generates a certificate.
	Cert, Key string
}

// onLoopback reports whether the Receiver serves only this machine with a generated certificate.
func (r Receiver) onLoopback() bool {
	host, _, err := net.SplitHostPort(r.Listen)
	return err == nil && r.PublicURL == "" && r.Cert == "" && isLoopback(host)
}

// isLoopback reports whether host is localhost or a loopback address.
func isLoopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// OnLoopback reports whether the server is on this machine, so it can reach a Receiver on loopback.
func (t Target) OnLoopback() bool {
	u, err := url.Parse(t.URL)
	return err == nil && t.URL != "" && isLoopback(u.Hostname())
}

// Check returns an error if the settings are invalid.
func (r Receiver) Check() error {
	switch {
	case r.Listen == "" && r != (Receiver{}):
		return errors.New("--public-url, --tls-cert and --tls-key go with --listen")
	case r.Listen == "":
		return nil
	case (r.Cert == "") != (r.Key == ""):
		return errors.New("--tls-cert and --tls-key go together")
	}
	host, _, err := net.SplitHostPort(r.Listen)
	if err != nil {
		return fmt.Errorf("--listen %s: must be HOST:PORT or :PORT", r.Listen)
	}
	if r.PublicURL == "" {
		if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
			return fmt.Errorf("--listen %s: names no host that servers can reach; give --public-url", r.Listen)
		}
		return nil
	}
	u, err := url.Parse(r.PublicURL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(r.PublicURL, "?#") {
		return errors.New("--public-url: must be https://, a host, and no more than a path")
	}
	return nil
}

// A Door is a listening Receiver.
type Door struct {
	// Listener accepts connections, without TLS.
	Listener net.Listener
	// TLS is the configuration for Listener, or nil if a proxy terminates TLS.
	TLS *tls.Config
	// URL is the URL at which servers reach the Door.
	URL string
	// Certificate is the file of the generated certificate, or "" if none was generated.
	Certificate string
}

// Open starts to listen. It returns nil if the Receiver does not receive webhooks.
func (r Receiver) Open() (*Door, error) {
	if r.Listen == "" {
		return nil, nil
	}
	d := &Door{URL: r.PublicURL}
	if r.Cert != "" {
		pair, err := tls.LoadX509KeyPair(r.Cert, r.Key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", r.Cert, r.Key, err)
		}
		d.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	}
	var err error
	if r.onLoopback() {
		var pair tls.Certificate
		if pair, d.Certificate, err = loopbackCertificate(); err != nil {
			return nil, fmt.Errorf("making a certificate for %s: %w; give --tls-cert and --tls-key", r.Listen, err)
		}
		d.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	}
	if d.Listener, err = net.Listen("tcp", r.Listen); err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if d.URL == "" {
		host, _, _ := net.SplitHostPort(r.Listen)
		_, port, _ := net.SplitHostPort(d.Listener.Addr().String()) // the actual port if the port is 0
		d.URL = "https://" + net.JoinHostPort(host, port)
	}
	return d, nil
}
