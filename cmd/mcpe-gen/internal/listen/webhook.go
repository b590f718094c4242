package listen

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/wire"
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

// check refuses what cannot work.
func (r Receiver) check(mode string) error {
	switch {
	case r.Listen == "" && r != (Receiver{}):
		return usagef("--public-url, --tls-cert and --tls-key go with --listen")
	case r.Listen == "" && mode == wire.ModeWebhook:
		return usagef("--mode webhook: needs --listen, the address to receive on")
	case r.Listen == "":
		return nil
	case mode != "auto" && mode != wire.ModeWebhook:
		return usagef("--listen is for --mode webhook, or auto, but --mode is %s", mode)
	case (r.Cert == "") != (r.Key == ""):
		return usagef("--tls-cert and --tls-key go together")
	}
	host, _, err := net.SplitHostPort(r.Listen)
	if err != nil {
		return usagef("--listen %s: must be HOST:PORT or :PORT", r.Listen)
	}
	if r.PublicURL == "" {
		if a, err := netip.ParseAddr(host); host == "" || err == nil && a.IsUnspecified() {
			return usagef("--listen %s: names no host that servers can reach; give --public-url", r.Listen)
		}
		return nil
	}
	u, err := url.Parse(r.PublicURL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(r.PublicURL, "?#") {
		return usagef("--public-url: must be https://, a host, and no more than a path")
	}
	return nil
}

// open listens; nil when there is nothing to receive.
func (r Receiver) open() (*client.WebhookOptions, error) {
	if r.Listen == "" {
		return nil, nil
	}
	w := &client.WebhookOptions{PublicURL: r.PublicURL}
	if r.Cert != "" {
		pair, err := tls.LoadX509KeyPair(r.Cert, r.Key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert %s, --tls-key %s: %w", r.Cert, r.Key, err)
		}
		w.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2", "http/1.1"}}
	}
	var err error
	if w.Listener, err = net.Listen("tcp", r.Listen); err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	if w.PublicURL == "" {
		host, _, _ := net.SplitHostPort(r.Listen)
		_, port, _ := net.SplitHostPort(w.Listener.Addr().String()) // the one that was found for port 0
		w.PublicURL = "https://" + net.JoinHostPort(host, port)
	}
	return w, nil
}
