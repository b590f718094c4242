package netguard

import (
	"context"
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

// TestSUB3ParseURL lists spellings of callback URLs and why each is refused (SUB-3, trap 8).
func TestSUB3ParseURL(t *testing.T) {
	g := newGuard(t, Options{AllowOrigins: []string{"http://127.0.0.1:9000"}})
	for raw, reason := range map[string]string{
		"":                                                   "is not absolute",
		"/hooks":                                             "is not absolute",
		"//receiver.test/":                                   "is not absolute",
		"https:receiver.test":                                "is not absolute",
		"https:///hooks":                                     "is not absolute",
		"http://receiver.test/":                              "is not https",
		"http://127.0.0.1:9001/":                             "is not https",
		"ftp://receiver.test/":                               "is not https",
		"https://u@receiver.test/":                           "has userinfo",
		"https://@receiver.test/":                            "has userinfo",
		"https://u:p@receiver.test/":                         "has userinfo",
		"https://receiver.test/#a":                           "has a fragment",
		"https://receiver.test/#":                            "has a fragment",
		"https://receiver.test:/":                            "has an empty port",
		"https://receiver.test:0/":                           "has an odd port",
		"https://receiver.test:0443/":                        "has an odd port",
		"https://receiver.test:65536/":                       "has an odd port",
		"https://2130706433/":                                "has an odd host",
		"https://0x7f000001/":                                "has an odd host",
		"https://0x7f.0.0.1/":                                "has an odd host",
		"https://0177.0.0.1/":                                "has an odd host",
		"https://127.1/":                                     "has an odd host",
		"https://127.0.0.1./":                                "has an odd host",
		"https://127.0.0.256/":                               "has an odd host",
		"https://1.2.3.4.5/":                                 "has an odd host",
		"https://receiver.0x1f/":                             "has an odd host",
		"https://receiver.test../":                           "has an odd host",
		"https://.receiver.test/":                            "has an odd host",
		"https://a..b/":                                      "has an odd host",
		"https://./":                                         "has an odd host",
		"https://-a.test/":                                   "has an odd host",
		"https://a*b.test/":                                  "has an odd host",
		"https://[fe80::1%25eth0]/":                          "has an odd host",
		"https://[::1":                                       "is malformed",
		"https://[127.0.0.1]/":                               "is malformed",
		"https://%31%32%37.0.0.1/":                           "is malformed",
		"https://receiver.test:a/":                           "is malformed",
		"https://receiver.test/%zz":                          "is malformed",
		"https://receiver.test/ x":                           "has a blank",
		"https://receiver.test\\@a/":                         "has a blank",
		"https://receiver.test/\n":                           "has a blank",
		"https://b\u00fccher.test/":                          "has a blank",
		"https://\u2460\u2461\u2466.0.1/":                    "has a blank",
		"https://receiver\u3002test/":                        "has a blank",
		"https://" + strings.Repeat("a", 64) + ".test/":      "has an odd host",
		"https://" + strings.Repeat("a.", 127) + "test/":     "has an odd host",
		"https://receiver.test/" + strings.Repeat("a", 2048): "more than 2048",
	} {
		_, err := g.ParseURL(raw)
		var refused *URLError
		if !errors.As(err, &refused) || !strings.Contains(refused.Reason, reason) {
			t.Errorf("%q: %v, want %q", raw, err, reason)
		}
	}
	for _, raw := range []string{
		"https://receiver.test", "https://receiver.test/hooks/1?x=%20", "HTTPS://Receiver.TEST:443/", "https://receiver.test./",
		"https://xn--bcher-kva.test/", "https://93.184.216.34:8443/", "https://[2606:4700::1111]/", "https://a_b.test/", "https://0xfg.test/",
		"https://1.2.3.4.test/", "http://127.0.0.1:9000/hooks",
	} {
		if _, err := g.ParseURL(raw); err != nil {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// TestSUB3CheckURLBlocked refuses hosts that are, or resolve to, a blocked address, and connects
// to nothing (SUB-3).
func TestSUB3CheckURLBlocked(t *testing.T) {
	spy := &network{}
	g := newGuard(t, Options{DialContext: spy.dial, Resolver: names{
		"inner.test":  {"10.0.0.1"},
		"mixed.test":  {"93.184.216.34", "127.0.0.1"},
		"mapped.test": {"::ffff:127.0.0.1"},
		"nat64.test":  {"64:ff9b::a9fe:a9fe"},
		"public.test": {"93.184.216.34", "2606:4700::1111"},
	}})
	for _, raw := range []string{
		"https://127.0.0.1/", "https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[2002:7f00:1::]/", "https://169.254.169.254/",
		"https://inner.test/", "https://INNER.test./", "https://mixed.test/", "https://mapped.test/", "https://nat64.test/",
	} {
		var refused *URLError
		if _, err := g.CheckURL(t.Context(), raw); !errors.As(err, &refused) || refused.Reason != "has a blocked address" {
			t.Errorf("%s: %v", raw, err)
		}
	}
	// A name that is not found is for the connection to find out.
	for _, raw := range []string{"https://public.test/", "https://unknown.test/"} {
		if u, err := g.CheckURL(t.Context(), raw); err != nil || u == nil {
			t.Errorf("%s: %v", raw, err)
		}
	}
	if _, err := g.CheckURL(t.Context(), "http://public.test/"); err == nil {
		t.Error("plain http was accepted")
	}
	if spy.count() != 0 {
		t.Errorf("%d connections were made", spy.count())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.CheckURL(ctx, "https://unknown.test/"); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who gave up got %v", err)
	}
}

// TestSSRF1Allowing opens the guard by host, by exact origin and by block, and not further.
func TestSSRF1Allowing(t *testing.T) {
	resolver := names{"a.test": {"10.0.0.1"}, "b.test": {"10.0.0.2"}, "c.test": {"192.168.1.1"}, "public.test": {"93.184.216.34"}}
	g := newGuard(t, Options{Resolver: resolver,
		AllowHosts:    []string{"A.test", "127.0.0.1", "[::1]"},
		AllowOrigins:  []string{"https://b.test:8443"},
		AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("192.168.1.0/24")},
	})
	check := func(g *Guard, raw string, want bool) {
		t.Helper()
		if _, err := g.CheckURL(t.Context(), raw); (err == nil) != want {
			t.Errorf("%s: %v, want allowed = %v", raw, err, want)
		}
	}
	check(g, "https://a.test/", true)
	check(g, "https://a.test.:99/", true)
	check(g, "https://127.0.0.1:1/", true)
	check(g, "https://[0::1]/", true)
	check(g, "https://127.0.0.2/", false)
	check(g, "https://sub.a.test/", true) // unknown name: not refused here
	check(g, "https://b.test:8443/", true)
	check(g, "https://b.test/", false)
	check(g, "http://b.test:8443/", false)
	check(g, "https://c.test/", true)
	check(g, "https://192.168.2.1/", false)

	first, err := g.AllowOrigin("http://10.0.0.9:80")
	if err != nil {
		t.Fatal(err)
	}
	second, err := g.AllowOrigin("http://10.0.0.9")
	if err != nil {
		t.Fatal(err)
	}
	check(g, "http://10.0.0.9/x", true)
	first()
	first()
	check(g, "http://10.0.0.9/x", true)
	second()
	check(g, "http://10.0.0.9/x", false)

	denying := newGuard(t, Options{Resolver: resolver, AllowHosts: []string{"a.test"}, DenyPrefixes: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("93.184.0.0/16")}})
	check(denying, "https://a.test/", false)
	check(denying, "https://public.test/", false)

	ports := newGuard(t, Options{Resolver: resolver, AllowHosts: []string{"a.test"}, AllowOrigins: []string{"https://b.test:9443"}, Ports: []uint16{443, 8443}})
	check(ports, "https://public.test/", true)
	check(ports, "https://public.test:8443/", true)
	check(ports, "https://public.test:22/", false)
	check(ports, "https://a.test:9443/", false)
	check(ports, "https://b.test:9443/", true)
	check(ports, "https://b.test:9444/", false)
}

// TestOptionsRefused names what New and AllowOrigin do not accept.
func TestOptionsRefused(t *testing.T) {
	for name, o := range map[string]Options{
		"host":     {AllowHosts: []string{"a b"}},
		"origin":   {AllowOrigins: []string{"https://a.test/path"}},
		"userinfo": {AllowOrigins: []string{"https://u@a.test"}},
		"query":    {AllowOrigins: []string{"https://a.test?"}},
		"scheme":   {AllowOrigins: []string{"ftp://a.test"}},
		"odd":      {AllowOrigins: []string{"https://127.1"}},
		"empty":    {AllowOrigins: []string{""}},
		"prefix":   {AllowPrefixes: []netip.Prefix{{}}},
		"proxy":    {Proxy: &url.URL{Scheme: "socks5", User: url.UserPassword("u", secret), Host: "p:1"}},
		"resolves": {ProxyResolves: true},
	} {
		if _, err := New(o); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzParseURL holds that an accepted URL has one reading: https, a host in canonical form, and a
// request for it goes to that host (SUB-3, trap 8).
func FuzzParseURL(f *testing.F) {
	for _, s := range []string{"https://receiver.test/", "https://127.1/", "https://[::1]:443/", "https://a@b/", "https://a.test.:1/?#"} {
		f.Add(s)
	}
	g, err := New(Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := g.ParseURL(raw)
		if err != nil {
			var refused *URLError
			if !errors.As(err, &refused) {
				t.Fatalf("%q: %T", raw, err)
			}
			return
		}
		if !strings.EqualFold(u.Scheme, "https") || u.User != nil || u.Fragment != "" || u.Hostname() == "" {
			t.Fatalf("%q was accepted", raw)
		}
		again, err := g.ParseURL(u.String())
		if err != nil || again.Host != u.Host {
			t.Fatalf("%q does not survive its own text: %v", raw, err)
		}
		if a, err := netip.ParseAddr(u.Hostname()); err != nil && strings.Trim(u.Hostname(), "0123456789.") == "" {
			t.Fatalf("%q is a number but no address: %v", raw, a)
		}
	})
}
