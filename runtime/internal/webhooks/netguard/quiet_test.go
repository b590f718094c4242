package netguard

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A safeBuffer is written to by the standard logger.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// standardLog catches what the program's standard logger prints during the test.
func standardLog(t *testing.T) *safeBuffer {
	t.Helper()
	b := &safeBuffer{}
	log.SetOutput(b)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	return b
}

// speaking is a guard whose destination, https or http, is served below HTTP; proxied goes there
// through a forward proxy.
func speaking(t *testing.T, scheme string, proxied bool, serve func(net.Conn)) (*Guard, *network) {
	t.Helper()
	inner := &network{}
	l := inner.listen("")
	o := Options{DialContext: inner.dial, Resolver: names{"example.com": {public}}, AllowOrigins: []string{"http://example.com"}}
	certified := &httptest.Server{Listener: (&network{}).listen(""), Config: &http.Server{}}
	certified.StartTLS()
	certified.Close()
	o.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
	o.TLS.RootCAs.AddCert(certified.Certificate())
	outer := inner
	if proxied {
		outer = &network{}
		way := outer.listen("")
		t.Cleanup(func() { way.Close() })
		go (&proxy{}).serve(way, inner)
		o.DialContext, o.Proxy = outer.dial, &url.URL{Scheme: "http", Host: "proxy.test"}
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if scheme == "https" {
				c = tls.Server(c, certified.TLS)
			}
			go func() {
				defer c.Close()
				serve(c)
				_, _ = io.Copy(io.Discard, c)
			}()
		}
	}()
	return newGuard(t, o), outer
}

// ways runs f over http and https, directly and through a proxy.
func ways(t *testing.T, f func(t *testing.T, scheme string, proxied bool)) {
	for _, scheme := range []string{"http", "https"} {
		for _, proxied := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s proxied=%v", scheme, proxied), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { f(t, scheme, proxied) })
			})
		}
	}
}

// TestERR1Unasked keeps from the standard logger what an endpoint says beside its answers: with the
// answer, later, or as a second answer. Such a connection is not used again (ERR-1).
func TestERR1Unasked(t *testing.T) {
	printed := standardLog(t)
	for name, answer := range map[string]string{
		"length":  "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
		"trailer": "HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX: y\r\n\r\n",
		"empty":   "HTTP/1.1 204 No Content\r\n\r\n",
		"interim": "HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\nHTTP/1.1 204 No Content\n\n",
		"large":   "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 3*readBuffer) + "\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("z", 5000),
	} {
		for _, unasked := range []string{secret, "HTTP/1.1 200 " + secret + "\r\n\r\n"} {
			for _, later := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s %.4s later=%v", name, unasked, later), func(t *testing.T) {
					ways(t, func(t *testing.T, scheme string, proxied bool) {
						g, spy := speaking(t, scheme, proxied, func(c net.Conn) {
							if req, err := http.ReadRequest(bufio.NewReader(c)); err != nil || req.Body.Close() != nil {
								return
							}
							first := answer + unasked
							if later {
								first = answer
							}
							_, _ = io.WriteString(c, first)
							if later {
								time.Sleep(time.Minute)
								_, _ = io.WriteString(c, unasked)
							}
						})
						for range 2 {
							if a, err := g.Send(get(t, scheme+"://example.com/")); err != nil || a.Status >= 300 {
								t.Fatalf("%+v, %v", a, err)
							}
							time.Sleep(70 * time.Second)
						}
						if spy.count() != 2 {
							t.Errorf("%d connections for two requests", spy.count())
						}
						g.Close()
					})
				})
			}
		}
	}
	if got := printed.String(); got != "" {
		t.Errorf("printed %.300q", got)
	}
}

// TestERR1UnaskedFirst is an endpoint that speaks as soon as it is connected to: on a connection
// whose request was given up while it was made, so that it has never carried one (ERR-1).
func TestERR1UnaskedFirst(t *testing.T) {
	printed := standardLog(t)
	ways(t, func(t *testing.T, scheme string, proxied bool) {
		said := make(chan error, 1)
		g, _ := speaking(t, scheme, proxied, func(c net.Conn) {
			if s, ok := c.(*tls.Conn); ok && s.Handshake() != nil {
				return
			}
			time.Sleep(10 * time.Second)
			_, err := io.WriteString(c, secret)
			said <- err
		})
		dial := g.o.DialContext
		g.o.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			time.Sleep(2 * time.Second)
			return dial(ctx, network, address)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.Send(ctx, Request{URL: scheme + "://example.com/"}); err == nil {
			t.Fatal("sent before there was a connection")
		}
		if err := <-said; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		g.Close()
	})
	if got := printed.String(); got != "" {
		t.Errorf("printed %.300q", got)
	}
}
