package netguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// flip answers each lookup with the next of its answers.
type flip struct {
	mu      sync.Mutex
	answers []string
	asked   int
}

func (f *flip) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	a := f.answers[min(f.asked, len(f.answers)-1)]
	f.asked++
	return []netip.Addr{netip.MustParseAddr(a)}, nil
}

// TestSSRF1Rebinding lets a name change its mind between lookups: each connection has one lookup,
// dials exactly what that lookup said, and a blocked answer reaches nothing (SSRF-1, trap 8).
// Guard.reach carries it, which judges every address of the lookup that it dials by.
func TestSSRF1Rebinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resolver := &flip{answers: []string{public, "127.0.0.1", public, "169.254.169.254"}}
		g, spy := guarded(t, Options{Resolver: resolver}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Connection", "close")
		})
		if _, err := g.CheckURL(t.Context(), "https://example.com/"); err != nil {
			t.Fatal(err)
		}
		refused := func() {
			t.Helper()
			before := spy.count()
			_, err := g.Send(get(t, "https://example.com/"))
			var blocked *BlockedError
			if !errors.As(err, &blocked) || CategoryOf(err) != wire.ConnectionRefused {
				t.Fatalf("a blocked address gave %v", err)
			}
			if spy.count() != before {
				t.Fatalf("dialed %v", spy.all())
			}
		}
		refused()
		if _, err := g.Send(get(t, "https://example.com/")); err != nil {
			t.Fatal(err)
		}
		if got := spy.all(); !slices.Equal(got, []string{public + ":443"}) || resolver.asked != 3 {
			t.Fatalf("dialed %v after %d lookups", got, resolver.asked)
		}
		refused()
	})
}

// TestSSRF1NoPacket sends to hosts in every spelling and form; none of them is dialed (SSRF-1,
// SSRF-3, trap 8).
// parseHost, Guard.connect and Guard.checkAddress carry it.
func TestSSRF1NoPacket(t *testing.T) {
	spy := &network{}
	g := newGuard(t, Options{DialContext: spy.dial, Resolver: names{"mixed.test": {public, "10.0.0.1"}, "localhost": {"127.0.0.1"}}})
	for _, host := range []string{"127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "localhost", "localhost.",
		"[::1]", "[::ffff:7f00:1]", "[::7f00:1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:0:0:0:0:80ff:fffe]",
		"[2606:4700::5efe:7f00:1]", "[fe80::1]", "[fc00::1]", "[fec0::1]", "[ff02::1]", "0.0.0.0", "100.64.0.1", "198.18.0.1", "192.0.2.1",
		"240.0.0.1", "255.255.255.255", "224.0.0.1", "mixed.test"} {
		for _, send := range []func(context.Context, Request) (*Answer, error){g.Send, g.Fetch} {
			if _, err := send(get(t, "https://"+host+"/")); err == nil {
				t.Errorf("%s was reached", host)
			}
		}
	}
	for _, raw := range []string{"http://93.184.216.34/", "https://u:p@93.184.216.34/"} {
		if _, err := g.Send(get(t, raw)); err == nil {
			t.Errorf("%s was requested", raw)
		}
	}
	if spy.count() != 0 {
		t.Errorf("dialed %v", spy.all())
	}
}

// TestSSRF1HostAndSNI keeps the original name in Host and in the TLS handshake while the address
// is dialed (SSRF-1).
func TestSSRF1HostAndSNI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, spy := guarded(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Host, " ", r.TLS.ServerName, " ", r.Proto)
		})
		a, err := g.Fetch(get(t, "https://example.com:8443/"))
		if err != nil {
			t.Fatal(err)
		}
		if string(a.Body) != "example.com:8443 example.com HTTP/1.1" || spy.all()[0] != public+":8443" {
			t.Errorf("%s by %v", a.Body, spy.all())
		}
	})
}

// TestSSRF1TriesAddressesInTurn goes on to the next address, IPv4 first, and stops at four.
func TestSSRF1TriesAddressesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		config := serveTLS(t, n.listen("[2606:4700::1]:443"), func(http.ResponseWriter, *http.Request) {})
		g := newGuard(t, Options{TLS: config, DialContext: n.dial, Resolver: names{
			"example.com": {"2606:4700::1", "1.0.0.1", "::ffff:1.0.0.2"},
			"many.test":   {"1.0.0.1", "1.0.0.2", "1.0.0.3", "1.0.0.4", "1.0.0.5", "1.0.0.6"},
			"empty.test":  {},
		}})
		if _, err := g.Send(get(t, "https://example.com/")); err != nil {
			t.Fatal(err)
		}
		if got, want := n.all(), []string{"1.0.0.1:443", "1.0.0.2:443", "[2606:4700::1]:443"}; !slices.Equal(got, want) {
			t.Errorf("dialed %v, want %v", got, want)
		}
		for _, u := range []string{"https://many.test/", "https://empty.test/"} {
			if _, err := g.Send(get(t, u)); CategoryOf(err) != wire.ConnectionRefused {
				t.Errorf("%s: %v", u, err)
			}
		}
		if n.count() != 3+maxAttempts {
			t.Errorf("dialed %v", n.all())
		}
	})
}

// TestSSRF1BlackHole gives every address its share of the time.
func TestSSRF1BlackHole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &network{}
		n.listen("1.0.0.1:443") // accepts nothing
		config := serveTLS(t, n.listen("1.0.0.2:443"), func(http.ResponseWriter, *http.Request) {})
		g := newGuard(t, Options{TLS: config, DialContext: n.dial, Resolver: names{"example.com": {"1.0.0.1", "1.0.0.2"}, "hole.test": {"1.0.0.1"}}})
		start := time.Now()
		if _, err := g.Send(get(t, "https://example.com/")); err != nil || time.Since(start) != 2500*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		start = time.Now()
		if _, err := g.Send(get(t, "https://hole.test/")); CategoryOf(err) != wire.Timeout || time.Since(start) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestSSRF2NoRedirect reports a redirect and goes nowhere (SSRF-2, ERR-1).
func TestSSRF2NoRedirect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, spy := guarded(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://169.254.169.254/latest")
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		for _, send := range []func(context.Context, Request) (*Answer, error){g.Send, g.Fetch} {
			a, err := send(get(t, "https://example.com/"))
			if err != nil || a.Status != http.StatusTemporaryRedirect || a.Category() != wire.HTTP4xx {
				t.Errorf("%+v, %v", a, err)
			}
		}
		if spy.count() != 1 {
			t.Errorf("dialed %v", spy.all())
		}
	})
}

// proxyChild tells the process that it is TestSSRF2NoProxyFromEnvironment's child.
const proxyChild = "NETGUARD_PROXY_CHILD"

// TestSSRF2NoProxyFromEnvironment ignores the environment's proxies (SSRF-2, trap 8). net/http reads
// the environment once for a process, which an earlier test may have caused: so a process of its own
// is started in an environment with proxies, and makes the requests. What the test guards is that New
// leaves http.Transport.Proxy nil.
func TestSSRF2NoProxyFromEnvironment(t *testing.T) {
	if os.Getenv(proxyChild) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestSSRF2NoProxyFromEnvironment$", "-test.v")
		cmd.Env = append(os.Environ(), proxyChild+"=1", "NO_PROXY=", "no_proxy=")
		for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"} {
			cmd.Env = append(cmd.Env, name+"=http://proxy.test:3128")
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestSSRF2NoProxyFromEnvironment") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if p, err := http.ProxyFromEnvironment(httptest.NewRequest(http.MethodGet, "https://example.com/", nil)); err != nil || p == nil {
		t.Fatalf("the environment has no proxy, which makes this test vacuous: %v %v", p, err)
	}
	synctest.Test(t, func(t *testing.T) {
		g, spy := guarded(t, Options{AllowOrigins: []string{"http://example.com"}}, func(http.ResponseWriter, *http.Request) {})
		for scheme, port := range map[string]string{"https": "443", "http": "80"} {
			before := spy.count()
			_, err := g.Send(get(t, scheme+"://example.com/"))
			if got := spy.all()[before:]; !slices.Equal(got, []string{public + ":" + port}) {
				t.Errorf("%s: dialed %v (%v)", scheme, got, err)
			}
		}
	})
}

// TestSSRF3Reuse keeps connections: many sends in sequence use one, and as many at a time as the
// host limit use no more than that many.
func TestSSRF3Reuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, spy := guarded(t, Options{HostConnections: 4}, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Millisecond)
			fmt.Fprint(w, strings.Repeat("x", MaxAnswer))
		})
		for range 20 {
			if _, err := g.Send(get(t, "https://example.com/")); err != nil {
				t.Fatal(err)
			}
		}
		if spy.count() != 1 {
			t.Fatalf("20 sends in sequence made %d connections", spy.count())
		}
		var workers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for range 20 {
					if _, err := g.Send(get(t, "https://example.com/")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		workers.Wait()
		if spy.count() > 4 {
			t.Errorf("4 workers made %d connections", spy.count())
		}
	})
}

// TestInvalidIsNotAsked refuses names below .invalid without a lookup (RFC 6761, section 6.4; ERR-1).
func TestInvalidIsNotAsked(t *testing.T) {
	g := newGuard(t, Options{Resolver: names{"host.invalid": {public}, "invalid": {public}, "invalid.test": {public}}})
	for raw, asked := range map[string]bool{"https://host.invalid/": false, "https://HOST.Invalid./": false, "https://invalid/": false,
		"https://invalid.test/": true} {
		u, err := g.ParseURL(raw)
		if err != nil {
			t.Fatal(err)
		}
		at, err := targetOf(u)
		if err != nil {
			t.Fatal(err)
		}
		_, err = g.lookup(t.Context(), at)
		var missing *net.DNSError
		if found := err == nil; found != asked || !found && (!errors.As(err, &missing) || !missing.IsNotFound) {
			t.Errorf("%s: %v", raw, err)
		}
	}
}

// TestSSRF1MappedLiteral dials an IPv4 address that is written in its IPv6 form as what it is, so that
// what was judged and what is dialed are one text (SSRF-1, trap 8). [Guard.lookup] carries this.
func TestSSRF1MappedLiteral(t *testing.T) {
	spy := &network{}
	g := newGuard(t, Options{DialContext: spy.dial})
	if _, err := g.Send(get(t, "https://[::ffff:"+public+"]/")); err == nil {
		t.Fatal("somebody answers")
	}
	if got := spy.all(); !slices.Equal(got, []string{public + ":443"}) {
		t.Errorf("dialed %v", got)
	}
}

// SSRF-1: nothing older than TLS 1.2 is spoken, whatever the options ask for, and neither are other
// protocols than HTTP/1.1; a caller's options stay as they were. Guard.tlsConfig carries it.
func TestSSRF1OldTLS(t *testing.T) {
	for version, old := range map[uint16]bool{tls.VersionTLS10: true, tls.VersionTLS11: true, tls.VersionTLS12: false, tls.VersionTLS13: false} {
		synctest.Test(t, func(t *testing.T) {
			n := &network{}
			s := &httptest.Server{Listener: n.listen(""), Config: &http.Server{ErrorLog: log.New(io.Discard, "", 0),
				Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})},
				TLS: &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: version}}
			s.StartTLS()
			defer s.Close()
			roots := x509.NewCertPool()
			roots.AddCert(s.Certificate())
			o := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS10, NextProtos: []string{"h2"}}
			g := newGuard(t, Options{TLS: o, DialContext: n.dial, Resolver: names{"example.com": {public}}})
			_, err := g.Send(get(t, "https://example.com/"))
			if (err != nil) != old || old && CategoryOf(err) != wire.TLSError {
				t.Errorf("%s: %v", tls.VersionName(version), err)
			}
			if o.MinVersion != tls.VersionTLS10 || len(o.NextProtos) != 1 || o.ServerName != "" {
				t.Errorf("the caller's options have become %+v", o)
			}
			g.Close()
		})
	}
}
