package netguard

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// A proxy tunnels CONNECT requests into a network.
type proxy struct {
	asked, credentials []string
	refuse             string // answered instead of a tunnel
}

func (p *proxy) serve(l net.Listener, to *network) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go p.tunnel(c, to)
	}
}

func (p *proxy) tunnel(c net.Conn, to *network) {
	defer c.Close()
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	p.asked = append(p.asked, req.Host)
	p.credentials = append(p.credentials, req.Header.Get("Proxy-Authorization"))
	switch {
	case p.refuse == "hang":
		_, _ = io.Copy(io.Discard, r)
		return
	case to == nil:
		_, _ = io.WriteString(c, p.refuse)
		return
	}
	out, err := to.dial(req.Context(), "tcp", req.Host)
	if err != nil {
		return
	}
	defer out.Close()
	_, _ = io.WriteString(c, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() { _, _ = io.Copy(out, r); out.Close() }()
	_, _ = io.Copy(c, out)
}

// TestSSRF2ForwardProxy goes through a proxy that was asked for: it is given the address that was
// judged, the name only reaches the destination, and blocked destinations never reach it (SSRF-1, SSRF-2).
func TestSSRF2ForwardProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, outer := &network{}, &network{}
		l := outer.listen("10.1.1.1:3128")
		defer l.Close()
		p := &proxy{}
		go p.serve(l, inner)
		config := serveTLS(t, inner.listen(""), func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.TLS.ServerName) })
		o := Options{
			TLS: config, DialContext: outer.dial,
			Resolver: names{"example.com": {public}, "inner.test": {"10.0.0.1"}},
			Proxy:    &url.URL{Scheme: "http", Host: "10.1.1.1:3128", User: url.UserPassword("u", "p")},
		}
		g := newGuard(t, o)
		a, err := g.Fetch(get(t, "https://example.com/"))
		if err != nil || string(a.Body) != "example.com" {
			t.Fatalf("%+v, %v", a, err)
		}
		for _, u := range []string{"https://inner.test/", "https://127.0.0.1/"} {
			if _, err := g.Send(get(t, u)); err == nil {
				t.Errorf("%s was reached", u)
			}
		}
		if !slices.Equal(p.asked, []string{public + ":443"}) || p.credentials[0] != "Basic dTpw" || outer.count() != 1 {
			t.Errorf("the proxy was asked for %v with %v by %d connections", p.asked, p.credentials, outer.count())
		}
		g.Close()

		// A proxy that looks names up is given names; addresses are still judged here.
		o.ProxyResolves = true
		o.Resolver = names{}
		byName := newGuard(t, o)
		if _, err := byName.CheckURL(t.Context(), "https://example.com/"); err != nil {
			t.Error(err)
		}
		if a, err := byName.Fetch(get(t, "https://example.com/")); err != nil || string(a.Body) != "example.com" {
			t.Fatalf("%+v, %v", a, err)
		}
		for _, u := range []string{"https://10.0.0.1/", "https://localhost/", "https://a.localhost./"} {
			if _, err := byName.Send(get(t, u)); err == nil {
				t.Errorf("%s was reached", u)
			}
			var refused *URLError
			if _, err := byName.CheckURL(t.Context(), u); !errors.As(err, &refused) {
				t.Errorf("%s: %v", u, err)
			}
		}
		if got := p.asked[1:]; !slices.Equal(got, []string{"example.com:443"}) {
			t.Errorf("the proxy was asked for %v", got)
		}
		byName.Close()
	})
}

// ERR-1: a proxy that fails is told apart for operators, in our own words; subscribers see a refused connection. A proxy
// that answers 5xx or nothing was asked for an endpoint that it did not reach.
func TestERR1ProxyFails(t *testing.T) {
	for _, c := range []struct {
		answer   string
		category wire.Category
		status   int
		says     string
	}{
		{"HTTP/1.1 403 " + secret + "\r\n\r\n", wire.Proxy, 403, "allow the endpoint"},
		{"HTTP/1.1 407 " + secret + "\r\n\r\n", wire.Proxy, 407, "user and the password in Callbacks.Proxy"},
		{"HTTP/1.1 302 " + secret + "\r\n\r\n", wire.Proxy, 302, "in its log"},
		{"HTTP/1.1 502 " + secret + "\r\n\r\n", wire.ConnectionRefused, 502, "did not reach the endpoint"},
		{secret + "\r\n\r\n", wire.Proxy, 0, "invalid"},
		{strings.Repeat(secret, 1<<12), wire.Proxy, 0, "invalid"},
		{"", wire.Proxy, 0, "closed early"},
		{"hang", wire.Timeout, 0, "deadline"},
	} {
		synctest.Test(t, func(t *testing.T) {
			n := &network{}
			l := n.listen("")
			defer l.Close()
			go (&proxy{refuse: c.answer}).serve(l, nil)
			for _, scheme := range []string{"http", "https"} {
				g := newGuard(t, Options{DialContext: n.dial, Resolver: names{"example.com": {public}},
					Proxy: &url.URL{Scheme: scheme, Host: "proxy.test", User: url.UserPassword("u", secret)}})
				// Not by Send, whose own deadline passes at the same time as that of a tunnel.
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				_, err := g.dialTunnel(ctx, public+":443")
				cancel()
				category, status, says := c.category, c.status, c.says
				if scheme == "https" { // it speaks no TLS
					category, status, says = wire.Proxy, 0, "tls handshake"
				}
				if CategoryOf(err) != category || ProxyStatus(err) != status || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), secret) {
					t.Errorf("%q of an %s proxy: %v, status %d", c.answer, scheme, err, ProxyStatus(err))
				}
			}
			if got := n.all(); !slices.Equal(got, []string{"proxy.test:80", "proxy.test:443"}) {
				t.Errorf("dialed %v", got)
			}
		})
	}
}

// ERR-1: a proxy that is down, that cannot be reached or that does not shake hands is told from an endpoint.
func TestERR1ProxyIsDown(t *testing.T) {
	for what, dial := range map[string]func(context.Context) (net.Conn, error){
		"down":        func(context.Context) (net.Conn, error) { return nil, syscall.ECONNREFUSED },
		"unreachable": func(ctx context.Context) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() },
		"silent":      func(context.Context) (net.Conn, error) { c, _ := net.Pipe(); return c, nil },
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newGuard(t, Options{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
				Resolver: names{"example.com": {public}}, Proxy: &url.URL{Scheme: "https", Host: "proxy.test"}})
			_, err := g.Send(get(t, "https://example.com/"))
			if CategoryOf(err) != wire.Proxy || CategoryOf(err).ForSubscriber() != wire.ConnectionRefused {
				t.Errorf("%s: %v", what, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := g.dialTunnel(ctx, "192.0.2.1:443"); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, canceled: %v", what, err)
			}
		})
	}
}

// TestSSRF2ProxyOverTLS speaks TLS to an https proxy and to the destination inside of it.
func TestSSRF2ProxyOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner, outer := &network{}, &network{}
		config := serveTLS(t, inner.listen(""), func(http.ResponseWriter, *http.Request) {})
		p := &proxy{}
		serveTLS(t, outer.listen(""), func(w http.ResponseWriter, r *http.Request) {
			p.asked = append(p.asked, r.Host)
			out, err := inner.dial(r.Context(), "tcp", r.Host)
			if err != nil {
				return
			}
			defer out.Close()
			c, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
			go func() { _, _ = io.Copy(out, buffered); out.Close() }()
			_, _ = io.Copy(c, out)
		})
		g := newGuard(t, Options{TLS: config, DialContext: outer.dial, Resolver: names{"example.com": {public}},
			Proxy: &url.URL{Scheme: "https", Host: "example.com"}})
		if _, err := g.Send(get(t, "https://example.com:8443/")); err != nil || !slices.Equal(p.asked, []string{public + ":8443"}) {
			t.Errorf("%v by %v", err, p.asked)
		}
		g.Close()
	})
}

// A counted connection counts the bytes that are read.
type counted struct {
	net.Conn
	read *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

// serveEndless answers CONNECT with a header that does not end.
func serveEndless(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			chunk := []byte("HTTP/1.1 200 OK\r\n")
			for i := range 2000 {
				if _, err := c.Write(chunk); err != nil {
					return
				}
				chunk = fmt.Appendf(nil, "X-%d: %s\r\n", i, strings.Repeat("x", 500))
			}
		}()
	}
}

// SSRF-2: what a proxy says before its tunnel is open is read up to a bound, then the connection is
// refused and closed. headReader carries it.
func TestSSRF2EndlessProxy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, read := &network{}, new(atomic.Int64)
		l := n.listen("")
		defer l.Close()
		go serveEndless(l)
		dial := func(ctx context.Context, on, address string) (net.Conn, error) {
			c, err := n.dial(ctx, on, address)
			return counted{c, read}, err
		}
		g := newGuard(t, Options{DialContext: dial, Resolver: names{"example.com": {public}}, Proxy: &url.URL{Scheme: "http", Host: "proxy.test"}})
		_, err := g.Send(get(t, "https://example.com/"))
		if CategoryOf(err) != wire.Proxy {
			t.Error(err)
		}
		synctest.Wait()
		if got := read.Load(); got != maxHeader {
			t.Errorf("%d bytes were read", got)
		}
	})
}
