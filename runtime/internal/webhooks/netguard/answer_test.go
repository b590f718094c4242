package netguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// TestSSRF2BoundedBodies reads 8 KiB of a body and no more, whatever its size.
func TestSSRF2BoundedBodies(t *testing.T) {
	for _, size := range []int{0, 1, MaxAnswer - 1, MaxAnswer, MaxAnswer + 1, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			g, spy := guarded(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				fmt.Fprint(w, strings.Repeat("x", size))
			})
			a, err := g.Fetch(get(t, "https://example.com/"))
			if err != nil || len(a.Body) != min(size, MaxAnswer) || a.Truncated != (size > MaxAnswer) {
				t.Fatalf("%d bytes: %d read, truncated %v, %v", size, len(a.Body), a.Truncated, err)
			}
			if a, err := g.Send(get(t, "https://example.com/")); err != nil || a.Body != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if want := 1; size <= MaxAnswer && spy.count() != want {
				t.Errorf("%d bytes: %d connections", size, spy.count())
			}
		})
	}
}

// TestSSRF2NoDecompression leaves a compressed body as it is, so that the bound holds.
func TestSSRF2NoDecompression(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := guarded(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, r.Header.Get("Accept-Encoding"), "|raw")
		})
		if a, err := g.Fetch(get(t, "https://example.com/")); err != nil || string(a.Body) != "|raw" {
			t.Errorf("%q, %v", a.Body, err)
		}
	})
}

// drip writes a byte a second for ever.
func drip(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, "x"); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		time.Sleep(time.Second)
	}
}

// TestERR1SlowBody ends a body that comes byte by byte: the status of a delivery stands, an answer
// that is to be read is a timeout (ERR-1, SSRF-2).
func TestERR1SlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := guarded(t, Options{}, drip)
		start := time.Now()
		if a, err := g.Send(get(t, "https://example.com/")); err != nil || a.Status != http.StatusOK || time.Since(start) != drainTime {
			t.Errorf("Send: %v after %v", err, time.Since(start))
		}
		start = time.Now()
		if _, err := g.Fetch(get(t, "https://example.com/")); CategoryOf(err) != wire.Timeout || time.Since(start) != 5*time.Second {
			t.Errorf("Fetch: %v after %v", err, time.Since(start))
		}
	})
}

// raw is an endpoint below HTTP.
func raw(t *testing.T, serve func(net.Conn)) *Guard {
	t.Helper()
	n := &network{}
	l := n.listen("")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return newGuard(t, Options{DialContext: n.dial, Resolver: names{"example.com": {public}}})
}

// secret is what an endpoint says and nobody may repeat.
const secret = "S3CRET"

// TestERR1Categories gives every kind of failure its category, and no error repeats what the
// endpoint sent (ERR-1).
func TestERR1Categories(t *testing.T) {
	roots := func(t *testing.T) *Guard { // a guard that trusts what is served, under any name
		g, _ := guarded(t, Options{}, func(http.ResponseWriter, *http.Request) {})
		return g
	}
	hijack := func(answer string) func(*testing.T) *Guard {
		return func(t *testing.T) *Guard {
			g, _ := guarded(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
				c, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					panic(err)
				}
				// A pipe holds nothing back: somebody must read what the client says as it leaves.
				go func() { _, _ = io.Copy(io.Discard, c) }()
				_, _ = io.WriteString(c, answer)
				c.Close()
			})
			return g
		}
	}
	for name, c := range map[string]struct {
		guard    func(*testing.T) *Guard
		host     string
		category wire.Category
		// stage is "" where the request's own limit and the connection's end in the same moment.
		stage Stage
	}{
		"unknown host": {roots, "unknown.test", wire.ConnectionRefused, StageLookup},
		"lookup hangs": {func(t *testing.T) *Guard {
			return newGuard(t, Options{Resolver: hanging{}})
		}, "example.com", wire.Timeout, ""},
		"refused": {func(t *testing.T) *Guard {
			return newGuard(t, Options{DialContext: (&network{}).dial, Resolver: names{"example.com": {public}}})
		}, "example.com", wire.ConnectionRefused, StageConnect},
		"wrong host": {roots, "other.test", wire.TLSError, StageTLS},
		"unknown authority": {func(t *testing.T) *Guard {
			g := roots(t)
			g.o.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
			return g
		}, "example.com", wire.TLSError, StageTLS},
		"expired": {func(t *testing.T) *Guard {
			g := roots(t)
			g.o.TLS.Time = func() time.Time { return time.Now().AddDate(200, 0, 0) }
			return g
		}, "example.com", wire.TLSError, StageTLS},
		"plain http": {func(t *testing.T) *Guard {
			return raw(t, func(c net.Conn) {
				go func() { _, _ = io.Copy(io.Discard, c) }()
				_, _ = io.WriteString(c, "HTTP/1.1 200 "+secret+"\r\n\r\n")
			})
		}, "example.com", wire.TLSError, StageTLS},
		"closed in the handshake": {func(t *testing.T) *Guard {
			return raw(t, func(net.Conn) {})
		}, "example.com", wire.TLSError, StageTLS},
		"silent in the handshake": {func(t *testing.T) *Guard {
			return raw(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
		}, "example.com", wire.Timeout, ""},
		"silent after it": {func(t *testing.T) *Guard {
			g, _ := guarded(t, Options{}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
			return g
		}, "example.com", wire.Timeout, StageExchange},
		"closed":        {hijack(""), "example.com", wire.ConnectionRefused, StageExchange},
		"closed early":  {hijack("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + secret), "example.com", wire.ConnectionRefused, StageExchange},
		"no http":       {hijack("220 " + secret + " ESMTP\r\n\r\n"), "example.com", wire.ConnectionRefused, StageExchange},
		"bad status":    {hijack("HTTP/1.1 " + secret + "\r\n\r\n"), "example.com", wire.ConnectionRefused, StageExchange},
		"bad header":    {hijack("HTTP/1.1 200 OK\r\n" + secret + "\r\n\r\n"), "example.com", wire.ConnectionRefused, StageExchange},
		"huge header":   {hijack("HTTP/1.1 200 OK\r\nX: " + strings.Repeat(secret, 1<<14) + "\r\n\r\n"), "example.com", wire.ConnectionRefused, StageExchange},
		"bad length":    {hijack("HTTP/1.1 200 OK\r\nContent-Length: " + secret + "\r\n\r\n"), "example.com", wire.ConnectionRefused, StageExchange},
		"bad transfers": {hijack("HTTP/1.1 200 OK\r\nTransfer-Encoding: " + secret + "\r\n\r\n"), "example.com", wire.ConnectionRefused, StageExchange},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, err := c.guard(t).Fetch(get(t, "https://"+c.host+"/"+secret))
				var e *Error
				if !errors.As(err, &e) || e.Category != c.category || c.stage != "" && e.Stage != c.stage || CategoryOf(err) != c.category {
					t.Fatalf("%v, want %s at %s", err, c.category, c.stage)
				}
				for ; err != nil; err = errors.Unwrap(err) {
					for _, leak := range []string{secret, "ESMTP", "certificate is valid for", "Acme"} {
						if strings.Contains(err.Error(), leak) {
							t.Errorf("%q repeats the endpoint", err)
						}
					}
				}
			})
		})
	}
}

// hanging is a resolver that never answers.
type hanging struct{}

func (hanging) LookupNetIP(ctx context.Context, _, _ string) ([]netip.Addr, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestERR1Statuses gives every status its category.
func TestERR1Statuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 0
		g, _ := guarded(t, Options{}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
		for s, want := range map[int]wire.Category{200: "", 204: "", 299: "", 300: wire.HTTP4xx, 304: wire.HTTP4xx, 400: wire.HTTP4xx,
			410: wire.HTTP4xx, 413: wire.HTTP4xx, 499: wire.HTTP4xx, 500: wire.HTTP5xx, 503: wire.HTTP5xx, 600: wire.HTTP5xx} {
			status = s
			if a, err := g.Send(get(t, "https://example.com/")); err != nil || a.Status != s || a.Category() != want {
				t.Errorf("%d: %+v, %v", s, a, err)
			}
		}
	})
}

// TestERR1CallerGaveUp is no failure of the endpoint.
func TestERR1CallerGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := guarded(t, Options{}, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := g.Send(ctx, Request{URL: "https://example.com/"})
		if !errors.Is(err, context.Canceled) || CategoryOf(err) != "" || CategoryOf(nil) != "" {
			t.Errorf("%v, %q", err, CategoryOf(err))
		}
		if CategoryOf(io.EOF) != wire.ConnectionRefused {
			t.Error("an unknown error has no category")
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.Send(ctx, Request{URL: "https://example.com/"}); CategoryOf(err) != wire.Timeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a shorter limit gave %v", err)
		}
	})
}

// A request that is given up in the moment that its connection serves the next one does not fail that one.
func TestERR1AnotherGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrived, answer := make(chan struct{}, 8), make(chan struct{})
		var posted []string
		var mu sync.Mutex
		g, n := guarded(t, Options{HostConnections: 1}, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			posted = append(posted, string(body))
			mu.Unlock()
			if r.URL.Path == "/second" {
				arrived <- struct{}{}
				select {
				case <-answer:
				case <-r.Context().Done():
				}
			}
			w.WriteHeader(http.StatusNoContent)
		})
		post := func(ctx context.Context, path string) error {
			_, err := g.Send(ctx, Request{Method: http.MethodPost, URL: "https://example.com" + path, Body: []byte(path)})
			return err
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{PutIdleConn: func(error) {
			go func() { second <- post(t.Context(), "/second") }()
			<-arrived
			cancel()
			synctest.Wait()
		}})
		go func() { first <- post(ctx, "/first") }()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
		close(answer)
		if err := <-second; err != nil {
			t.Errorf("who did not got %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		if want := []string{"/first", "/second", "/second"}; !slices.Equal(posted, want) || n.count() != 2 {
			t.Errorf("posted %q over %d connections", posted, n.count())
		}
	})
}

// TestSSRF3Sockets is the way through real sockets on loopback, which must be allowed first.
func TestSSRF3Sockets(t *testing.T) {
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "hello") }))
	defer secure.Close()
	plain := httptest.NewServer(secure.Config.Handler)
	defer plain.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	g := newGuard(t, Options{TLS: &tls.Config{RootCAs: roots}})
	for _, u := range []string{secure.URL, plain.URL} {
		if _, err := g.Fetch(get(t, u)); err == nil {
			t.Errorf("%s was reached", u)
		}
		revoke, err := g.AllowOrigin(u)
		if err != nil {
			t.Fatal(err)
		}
		if a, err := g.Fetch(get(t, u)); err != nil || string(a.Body) != "hello" {
			t.Errorf("%s: %v", u, err)
		}
		revoke()
		if _, err := g.Fetch(get(t, u)); err == nil {
			t.Errorf("%s was reached after its permission ended", u)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	if _, err := g.AllowOrigin("https://" + free.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Send(get(t, "https://"+free.Addr().String())); CategoryOf(err) != wire.ConnectionRefused || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a closed port gave %v", err)
	}
}
