package netguard

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// MaxURL is the maximum length of a callback URL in bytes.
const MaxURL = 2048

// checkTime is the timeout of the lookup in CheckURL. The lookup and a subsequent verification must fit into the ten
// seconds of a subscribe call (VER-2).
const checkTime = 2 * time.Second

// ParseURL parses a callback URL and checks its form without a lookup (SUB-3). The URL must be an absolute https URL or
// have an allowed http origin. It must not contain userinfo or a fragment. All parsers must interpret its host in the
// same way. IPv4 addresses consist of four decimal numbers, and IPv6 addresses have brackets and no zone. Host names
// consist of ASCII letters, digits, hyphens and underscores, with at most one trailing dot. International names must be
// in their xn-- form. Errors are of type [*URLError].
//
// The URL is not normalized, because its exact text is part of the subscription's key (SUB-4).
func (g *Guard) ParseURL(raw string) (*url.URL, error) {
	if len(raw) > MaxURL {
		return nil, &URLError{"has " + strconv.Itoa(len(raw)) + " bytes, more than " + strconv.Itoa(MaxURL)}
	}
	for _, c := range []byte(raw) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			return nil, &URLError{"has a blank, a backslash, a control character or a character outside of ASCII; write host names in their xn-- form and paths percent-encoded"}
		}
	}
	if strings.Contains(raw, "#") {
		return nil, &URLError{"has a fragment"}
	}
	u, err := url.Parse(raw)
	if err != nil {
		// A url.Error repeats the URL, which may contain a secret in its path.
		return nil, &URLError{"is malformed"}
	}
	if !u.IsAbs() || u.Opaque != "" || u.Host == "" {
		return nil, &URLError{"is not absolute"}
	}
	if u.User != nil {
		return nil, &URLError{"has userinfo"}
	}
	t, err := targetOf(u)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" && !g.isOriginAllowed(t) {
		return nil, &URLError{"is not https"}
	}
	if !g.isPortAllowed(t) {
		return nil, &URLError{"has a port that is not allowed"}
	}
	return u, nil
}

// CheckURL calls ParseURL and then looks up the host (SUB-3). It rejects the URL if at least one of the addresses is
// blocked. CheckURL does not open connections and does not look up allowed hosts and origins. It accepts the URL if the
// lookup fails or times out, because each connection repeats the check. The error is a [*URLError] or the error of ctx.
func (g *Guard) CheckURL(ctx context.Context, raw string) (*url.URL, error) {
	u, err := g.ParseURL(raw)
	if err != nil {
		return nil, err
	}
	t, err := targetOf(u)
	if err != nil {
		return nil, err
	}
	if g.isExempt(t) {
		return u, nil
	}
	if g.o.ProxyResolves && !t.addr.IsValid() {
		if isLocalhost(t.host) {
			return nil, &URLError{"has a blocked address"}
		}
		return u, nil
	}
	limited, cancel := context.WithTimeout(ctx, min(g.o.Timeout, checkTime))
	defer cancel()
	addrs, err := g.lookup(limited, t)
	if err != nil {
		return u, ctx.Err()
	}
	for _, a := range addrs {
		if g.checkAddress(t, a) != nil {
			return nil, &URLError{"has a blocked address"}
		}
	}
	return u, nil
}

// A target is the destination of a request in the form used by allow-lists.
type target struct {
	scheme string
	host   string     // lower case, without brackets and trailing dot
	addr   netip.Addr // of a literal host, otherwise invalid
	port   string
}

// origin returns scheme://host:port, including a default port.
func (t target) origin() string { return t.scheme + "://" + t.address() }

func (t target) address() string { return net.JoinHostPort(t.host, t.port) }

func targetOf(u *url.URL) (target, error) {
	t := target{scheme: u.Scheme, port: u.Port()}
	switch {
	case t.port == "" && strings.HasSuffix(u.Host, ":"):
		return target{}, &URLError{"has an empty port"}
	case t.port != "":
		n, err := strconv.ParseUint(t.port, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != t.port {
			return target{}, &URLError{"has an odd port"}
		}
	case u.Scheme == "https":
		t.port = "443"
	default:
		t.port = "80"
	}
	var err error
	t.host, t.addr, err = parseHost(u.Hostname(), strings.HasPrefix(u.Host, "["))
	return t, err
}

var errOddHost = &URLError{"has an odd host"}

// parseHost parses a host strictly. It rejects numeric hosts that are not addresses in the usual form, such as 127.1,
// 0x7f000001 and 0177.0.0.1. Resolvers and proxies interpret them differently.
func parseHost(host string, bracketed bool) (string, netip.Addr, error) {
	if bracketed {
		a, err := netip.ParseAddr(host)
		if err != nil || !a.Is6() || a.Zone() != "" {
			return "", netip.Addr{}, errOddHost
		}
		return a.String(), a, nil
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		return a.String(), a, nil
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "" || len(name) > 253 {
		return "", netip.Addr{}, errOddHost
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return "", netip.Addr{}, errOddHost
		}
	}
	if isNumeric(labels[len(labels)-1]) {
		return "", netip.Addr{}, errOddHost
	}
	return name, netip.Addr{}, nil
}

func isLabel(s string) bool {
	return s != "" && len(s) <= 63 && s[0] != '-' && s[len(s)-1] != '-' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// isNumeric reports whether a host with the given last label is interpreted as an IPv4 address (WHATWG URL, "ends in a
// number").
func isNumeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// isLocalhost reports whether name is a name for the loopback interface according to RFC 6761.
func isLocalhost(name string) bool {
	return name == "localhost" || strings.HasSuffix(name, ".localhost")
}
