package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/clientmemory"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
)

// lasting is a memory store that outlives the servers that use it.
type lasting struct{ *memory.Store }

func (lasting) Close() error { return nil }

// A wire of TLS over pipes leads from a real server to a client's embedded receiver.
type hookWire struct {
	pair  tls.Certificate
	roots *x509.CertPool
	l     atomic.Pointer[memnet.Network] // of the present client
}

func newHookWire() *hookWire {
	web := httptest.NewTLSServer(http.NotFoundHandler())
	defer web.Close()
	w := &hookWire{pair: web.TLS.Certificates[0], roots: x509.NewCertPool()}
	w.roots.AddCert(web.Certificate())
	return w
}

// options makes a new listener, as each client takes one over.
func (w *hookWire) options() *WebhookOptions {
	l := memnet.New()
	w.l.Store(l)
	return &WebhookOptions{PublicURL: "https://127.0.0.1", Listener: l, TLS: &tls.Config{Certificates: []tls.Certificate{w.pair}}}
}

func (w *hookWire) server() server.Options {
	return server.Options{Store: lasting{memory.New()}, Principal: func(context.Context, *mcp.RequestExtra) string { return "me" },
		Webhooks: webhooks.New(webhooks.Options{Callbacks: callbacks.Options{AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
			TLS: &tls.Config{RootCAs: w.roots},
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				return w.l.Load().DialContext(ctx, network, address)
			}}})}
}

// all reads n words in any order: webhooks keep none.
func (s *typedSub) all(n int) []string {
	var got []string
	for range n {
		got = append(got, <-s.got)
	}
	slices.Sort(got)
	return got
}

// CLI-2, CLI-5, section 13: with the real server and TLS a webhook subscription is verified, receives
// what matches once, survives refreshes and restarts of the server without loss, and says goodbye.
func TestRealWebhook(t *testing.T) {
	w := newHookWire()
	eachCarrier(t, func(t *testing.T, c carrier) {
		h := newHouse(t, c, w.server())
		cl := h.connect(Options{Webhook: w.options()})
		s := h.subscribe(cl, "even")
		if s.Subscription().Mode() != "webhook" {
			t.Fatalf("by %s", s.Subscription().Mode())
		}
		h.emit(1, 100)
		want := ids(2, 100, 2)
		if slices.Sort(want); !slices.Equal(s.all(50), want) {
			t.Error("not what matches")
		}
		time.Sleep(time.Hour) // refreshes
		h.emit(101, 110)
		s.all(5)
		h.stop()
		h.start()
		h.emit(111, 120)
		time.Sleep(time.Hour)
		if got := s.all(5); !slices.Equal(got, ids(112, 120, 2)) {
			t.Errorf("after a restart: %v", got)
		}
		s.silent()
		if st := s.Subscription().Status(); st.Delivery == nil || !st.Delivery.Active {
			t.Errorf("status %+v", st)
		}
		s.Close()
		if list, err := h.es.Admin().List(t.Context(), "", 10); err != nil || len(list) != 0 {
			t.Errorf("%d subscriptions left, %v", len(list), err)
		}
	})
}

// CLI-5, section 13: the real server's view of a client that is restarted while events happen:
// nothing is lost, only what was not committed repeats.
func TestRealWebhookRestart(t *testing.T) {
	w := newHookWire()
	eachCarrier(t, func(t *testing.T, c carrier) {
		so := w.server()
		so.Retention.MaxAge = 24 * time.Hour
		h := newHouse(t, c, so)
		cursors, callbacks := clientmemory.NewCursors(), &clientmemory.Callbacks{}
		received := clientmemory.NewReceived(cursors)
		options := func() Options {
			o := Options{Cursors: cursors, Webhook: w.options()}
			o.Webhook.Received, o.Webhook.Callbacks, o.Webhook.Keep = received, callbacks, true
			return o
		}
		const some = 8
		seen := map[string]int{}
		n := 0
		for range 2 {
			cl := h.connect(options())
			s, err := Subscribe(t.Context(), cl, tickType(t, ""), tickArguments{})
			if err != nil {
				t.Fatal(err)
			}
			h.emit(n+1, n+some)
			n += some
			for ev, err := range s.Events() {
				if err != nil {
					t.Fatal(err)
				}
				if seen[ev.ID]++; len(seen) >= n-2 {
					break // not committed
				}
			}
			cl.Close()
			h.emit(n+1, n+some) // to nobody
			n += some
			time.Sleep(time.Hour) // given up, expired
		}
		cl := h.connect(options())
		s, err := Subscribe(t.Context(), cl, tickType(t, ""), tickArguments{})
		if err != nil {
			t.Fatal(err)
		}
		for ev := range s.Events() {
			if seen[ev.ID]++; len(seen) == n {
				break
			}
		}
		for id, times := range seen {
			if times > 2 {
				t.Errorf("%s came %d times", id, times)
			}
		}
	})
}

// CLI-7, EVOL-1, AUTH-2: the real server's envelopes end a webhook subscription with the reason.
func TestRealWebhookTermination(t *testing.T) {
	w := newHookWire()
	for _, codes := range []server.Codes{server.CodesSketch, server.CodesSEP} {
		eachCarrier(t, func(t *testing.T, c carrier) {
			o := w.server()
			o.Codes = codes
			h := newHouse(t, c, o)
			cl := h.connect(Options{Webhook: w.options()})
			s := h.subscribe(cl, "")
			h.emit(1, 1)
			s.want("e1")
			if _, err := h.es.Admin().RaiseGap(t.Context(), operator.Target{Event: "tick"}); err != nil {
				t.Fatal(err)
			}
			s.want("gap")
			h.es.Revoke(t.Context(), "me")
			s.want("error: client: subscription to tick terminated: Forbidden {\"reason\":\"access revoked\"}")
			s = h.subscribe(cl, "")
			if err := h.es.Remove("tick"); err != nil {
				t.Fatal(err)
			}
			s.want("error: client: subscription to tick terminated: NotFound {\"kind\":\"event\"}")
			if _, open := <-s.got; open || len(cl.Subscriptions()) != 0 {
				t.Error("goes on")
			}
		})
	}
}
