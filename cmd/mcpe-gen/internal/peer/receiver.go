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

// A Receiver says how servers reach this program by webhook; the zero value is not at all.
type Receiver struct {
	// Listen is the address to receive on.
	Listen string
	// PublicURL is the https URL at which servers reach Listen; empty means https:// and the address.
	PublicURL string
	// Cert and Key are files for TLS; without them something in front has to end TLS.
	Cert, Key string
}

// Check refuses what cannot work.
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

// A Door is an open Receiver.
type Door struct {
	// Listener accepts connections, without TLS.
	Listener net.Listener
	// TLS is to be served on Listener; nil when something in front ends it.
	TLS *tls.Config
	// URL is where servers reach it.
	URL string
}

// Open listens; nil when there is nothing to receive.
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
	if d.Listener, err = net.Listen("tcp", r.Listen); err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if d.URL == "" {
		host, _, _ := net.SplitHostPort(r.Listen)
		_, port, _ := net.SplitHostPort(d.Listener.Addr().String()) // the one that was found for port 0
		d.URL = "https://" + net.JoinHostPort(host, port)
	}
	return d, nil
}
