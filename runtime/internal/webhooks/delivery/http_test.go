package delivery

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

func newGuard(t *testing.T, n *network, origins ...string) *netguard.Guard {
	t.Helper()
	g, err := netguard.New(netguard.Options{AllowOrigins: origins, Resolver: n, DialContext: n.dial, HostConnections: 16})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestHOOK1HOOK2Wire delivers over HTTP: the body is one occurrence with the watermark, a stock
// Standard Webhooks verifier accepts it, connections are kept.
func TestHOOK1HOOK2Wire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n network
		r := record("sub_1")
		secret, err := webhook.ParseSecret(wire.SecretPrefix + "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=")
		if err != nil {
			t.Fatal(err)
		}
		oracle, err := standardwebhooks.NewWebhook(strings.TrimPrefix(secret.Text(), wire.SecretPrefix))
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var bodies []string
		origin := n.listen("http", "8000", handle(func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			// The library compares with its own clock, which is ours in the bubble.
			if err := oracle.Verify(body, req.Header); err != nil {
				t.Errorf("the library refuses it: %v", err)
			}
			if req.Method != http.MethodPost || req.Header.Get("Content-Type") != "application/json" || req.Header.Get(wire.HeaderSubscriptionID) != "sub_1" || req.URL.Path != "/hooks/1" {
				t.Errorf("%s %s %v", req.Method, req.URL, req.Header)
			}
			mu.Lock()
			defer mu.Unlock()
			bodies = append(bodies, string(body))
			w.WriteHeader(204)
		}))
		g := newGuard(t, &n, origin)
		e := newEngine(t, Options{Sender: g})
		top := newTopic(store.LogOptions{})
		r.URL = origin + "/hooks/1"
		top.join(t, e, r, false)
		for i := range 20 {
			top.emit(t, fmt.Sprint("evt_", i))
			time.Sleep(time.Second)
		}
		shutdown(t, e)
		g.Close()
		n.conns.Wait()
		if len(bodies) != 20 || bodies[3] != `{"eventId":"evt_3","name":"test","timestamp":"2000-01-01T00:00:03Z","data":{},"cursor":"c4"}` {
			t.Errorf("%d bodies, %s", len(bodies), bodies[min(3, len(bodies)-1)])
		}
		if n.dials["8000"] != 1 {
			t.Errorf("%d connections", n.dials["8000"])
		}
	})
}

// selfSigned is a certificate that nobody trusts.
func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"receiver.test"}, NotAfter: time.Now().Add(100 * 365 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

const betray = "TOP-SECRET-OF-THE-ENDPOINT"

// TestHOOK3Faults delivers to endpoints that misbehave in every way, beside a healthy one: each
// ends in its category and on its schedule, nothing that it said is logged or reported, no
// connection or goroutine stays, and the healthy one waits for none of them (HOOK-4, ERR-1).
func TestHOOK3Faults(t *testing.T) {
	certificate := selfSigned(t)
	answer := func(status int, header http.Header, body []byte) func(net.Conn) {
		return handle(func(w http.ResponseWriter, req *http.Request) {
			for k, v := range header {
				w.Header()[k] = v
			}
			w.Header().Set("X-Secret", betray)
			w.WriteHeader(status)
			_, _ = w.Write(append([]byte(betray), body...))
		})
	}
	raw := func(f func(c net.Conn)) func(net.Conn) {
		return func(c net.Conn) {
			defer c.Close()
			// It speaks when it is spoken to.
			if _, err := c.Read(make([]byte, 1)); err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c) }() // ends with c
			f(c)
		}
	}
	drip := func(c net.Conn, text string) {
		for i := range text {
			if _, err := io.WriteString(c, text[i:i+1]); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}
	long := strings.Repeat("x", 1<<20)
	faults := []struct {
		name     string
		serve    func(net.Conn)
		scheme   string
		category wire.Category // "": accepted
		attempts int
	}{
		{"accepts", answer(200, nil, nil), "http", "", 1},
		{"accepts with a huge body", answer(200, nil, []byte(long)), "http", "", 1},
		{"accepts, then drips", raw(func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"+betray) }), "http", wire.Timeout, 5},
		{"accepts and drips its body", raw(func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")
			drip(c, betray)
		}), "http", "", 1},
		{"refuses the connection", nil, "http", wire.ConnectionRefused, 5},
		{"hangs", raw(func(c net.Conn) { time.Sleep(time.Minute) }), "http", wire.Timeout, 5},
		{"closes at once", raw(func(net.Conn) {}), "http", wire.ConnectionRefused, 5},
		{"cuts off its header", raw(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX-"+betray) }), "http", wire.ConnectionRefused, 5},
		{"speaks no HTTP", raw(func(c net.Conn) { _, _ = io.WriteString(c, betray+"\r\n\r\n") }), "http", wire.ConnectionRefused, 5},
		{"has a huge header", raw(func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nX: "+long+"\r\n\r\n") }), "http", wire.ConnectionRefused, 5},
		{"redirects", answer(307, http.Header{"Location": {"http://receiver.test:8000/elsewhere"}}, nil), "http", wire.HTTP4xx, 5},
		{"answers 400", answer(400, nil, nil), "http", wire.HTTP4xx, 5},
		{"answers 410", answer(410, nil, nil), "http", wire.HTTP4xx, 1},
		{"answers 413", answer(413, nil, nil), "http", wire.HTTP4xx, 1},
		{"answers 429", answer(429, nil, nil), "http", wire.HTTP4xx, 5},
		{"answers 500", answer(500, nil, []byte(long)), "http", wire.HTTP5xx, 5},
		{"has an untrusted certificate", raw(func(c net.Conn) {}), "https", wire.TLSError, 5},
		{"speaks no TLS", raw(func(c net.Conn) { _, _ = io.WriteString(c, betray+betray) }), "https", wire.TLSError, 5},
	}
	faults[16].serve = func(c net.Conn) {
		defer c.Close()
		_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{certificate}}).Handshake()
	}
	synctest.Test(t, func(t *testing.T) {
		var n network
		var origins []string
		for i, f := range faults {
			origins = append(origins, n.listen(f.scheme, fmt.Sprint(8000+i), f.serve))
		}
		var mu sync.Mutex
		late := 0
		var sent time.Time
		good := n.listen("http", "7999", handle(func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			if time.Since(sent) > 10*time.Millisecond {
				late++
			}
			w.WriteHeader(204)
		}))
		var lines bytes.Buffer
		g := newGuard(t, &n, append(origins, good)...)
		e := newEngine(t, Options{Sender: g, Logger: slog.New(slog.NewTextHandler(&lines, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		top := newTopic(store.LogOptions{})
		r := record("sub_good")
		r.URL = good + "/"
		top.join(t, e, r, false)
		handles := make([]*Handle, len(faults))
		spy := map[string]int{}
		for i, f := range faults {
			r := record(fmt.Sprint("sub_", i))
			r.URL = origins[i] + "/path-with-a-token"
			if f.serve == nil {
				n.mu.Lock()
				delete(n.ports, fmt.Sprint(8000+i))
				n.mu.Unlock()
			}
			handles[i], _ = top.join(t, e, r, false)
		}
		mu.Lock()
		sent = time.Now()
		mu.Unlock()
		top.emit(t, "evt_1")
		for range 30 {
			time.Sleep(30 * time.Second)
			mu.Lock()
			sent = time.Now()
			mu.Unlock()
			top.emit(t, "evt_good_"+time.Now().Format("150405"), "sub_good")
		}
		time.Sleep(time.Minute)
		for i, f := range faults {
			st := handles[i].Status()
			if st.LastError != f.category || *handles[i].Watermark() != "c31" {
				t.Errorf("%s: %q, want %q; watermark %s", f.name, st.LastError, f.category, *handles[i].Watermark())
			}
		}
		if late != 0 || handles[0].Status().LastDeliveryAt.IsZero() {
			t.Errorf("the healthy endpoint was served late %d times", late)
		}
		shutdown(t, e)
		g.Close()
		n.conns.Wait()
		text := lines.String()
		for _, secret := range []string{betray, "path-with-a-token", "receiver.test", "AQEB", "whsec"} {
			if strings.Contains(text, secret) {
				t.Errorf("the log tells %s", secret)
			}
		}
		for i, f := range faults {
			// Each line names its subscription; the attempts of the failing ones are all there.
			for line := range strings.Lines(text) {
				if strings.Contains(line, "attempt failed") && strings.Contains(line, fmt.Sprintf("subscription=sub_%d ", i)) {
					spy[f.name]++
				}
			}
			if want := f.attempts; f.category != "" && spy[f.name] != want || f.category == "" && spy[f.name] != 0 {
				t.Errorf("%s: %d failed attempts, want %d", f.name, spy[f.name], want)
			}
		}
	})
}
