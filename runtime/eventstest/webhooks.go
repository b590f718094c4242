package eventstest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// subscriberHost is the host name of the callbacks. subscriberAddress is its address, which must be allowed for
// callbacks. It does not receive any real traffic.
const subscriberHost = "subscriber.example"

var subscriberAddress = netip.MustParseAddr("93.184.216.34")

// Webhooks is an in-memory network for webhook deliveries over TLS. A server with options from ServerOptions delivers
// on the network, and a client with options from ClientOptions subscribes by webhook and receives on the network:
//
//	hooks := eventstest.NewWebhooks(t)
//	var o server.Options
//	hooks.ServerOptions(&o)
//	s, err := newNoteServer(o)
//	c := eventstest.NewClient(t, s.events, hooks.ClientOptions)
//	added := eventstest.Subscribe(t, c, notes.SubscribeNoteAdded, notes.NoteAddedArguments{})
//
// Callbacks accept only messages that are signed with the subscription's secret. An invalid delivery fails the test.
type Webhooks struct {
	network  *memnet.Network
	receiver *webhook.Receiver
	roots    *x509.CertPool

	mu  sync.Mutex
	got []*callbackRequest
}

// A callbackRequest is a request to a callback.
type callbackRequest struct {
	answered chan struct{}
	accepted *webhook.Delivery // set once answered; nil if not accepted, or for a verification challenge
}

// NewWebhooks returns a network that is closed when the test ends. Create it before the server and the clients that use
// it.
func NewWebhooks(t testing.TB) *Webhooks {
	t.Helper()
	w := &Webhooks{network: memnet.New(), roots: x509.NewCertPool()}
	receiver, err := webhook.NewReceiver(webhook.ReceiverOptions{Logger: testLogger(t)})
	if err != nil {
		t.Fatal(err)
	}
	w.receiver = receiver
	pair, err := w.newCertificate()
	if err != nil {
		t.Fatal(err)
	}
	hs := &http.Server{Handler: w.check(t), ReadTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)} // drop errors about connections that end abruptly
	served := make(chan struct{})
	go func() {
		defer close(served)
		// Serve's error only reports the close.
		_ = hs.Serve(tls.NewListener(w.network, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}}))
	}()
	t.Cleanup(func() {
		hs.Close()
		<-served
	})
	return w
}

// ServerOptions sets the options of a server that delivers to callbacks on this network.
func (w *Webhooks) ServerOptions(o *server.Options) {
	var given webhooks.Options
	if o.Webhooks != nil {
		given = *o.Webhooks.Value().Options.(*webhooks.Options)
	}
	c := &given.Callbacks
	c.Proxy, c.ProxyResolves, c.Resolver, c.DialContext, c.TLS = nil, false, resolver{}, w.network.DialContext, &tls.Config{RootCAs: w.roots}
	o.Webhooks = webhooks.New(given)
}

// ClientOptions sets the options of a client that subscribes by webhook on this network. If Principal is empty, it sets
// a principal, because servers require one.
func (w *Webhooks) ClientOptions(o *Options) {
	webhooks := client.WebhookOptions{}
	if o.Webhook != nil {
		webhooks = *o.Webhook
	}
	webhooks.PublicURL, webhooks.Receiver, webhooks.Listener = "https://"+subscriberHost, w.receiver, nil
	o.Webhook = &webhooks
	if o.Principal == "" {
		o.Principal = "subscriber"
	}
}

// Deliveries returns the accepted deliveries in order of arrival. They are occurrences, gap envelopes and termination
// envelopes, with verified signatures.
func (w *Webhooks) Deliveries() (all []webhook.Delivery) {
	w.mu.Lock()
	got := slices.Clone(w.got)
	w.mu.Unlock()
	for _, p := range got {
		<-p.answered
		if p.accepted != nil {
			all = append(all, *p.accepted)
		}
	}
	return all
}

// check wraps the receiver. It records accepted deliveries, and fails the test if a delivery would fail even after a
// retry.
func (w *Webhooks) check(t testing.TB) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, webhook.MaxBody+1))
		if err != nil {
			http.Error(rw, "the body did not arrive", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		p := &callbackRequest{answered: make(chan struct{})}
		defer close(p.answered)
		w.mu.Lock()
		w.got = append(w.got, p)
		w.mu.Unlock()
		kept := &statusRecorder{ResponseWriter: rw, code: http.StatusOK}
		w.receiver.ServeHTTP(kept, r)
		switch kept.code {
		case http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType:
			t.Errorf("eventstest: a callback answers %d to %s", kept.code, body)
		}
		if kept.code/100 == 2 {
			p.accepted = parseDelivery(r.Header, body)
		}
	})
}

// parseDelivery parses a message with a verified signature. It returns nil for a verification challenge.
func parseDelivery(h http.Header, body []byte) *webhook.Delivery {
	seconds, err := strconv.ParseInt(h.Get(wire.HeaderWebhookTimestamp), 10, 64)
	if err != nil {
		return nil
	}
	d, err := webhook.ParseDelivery(webhook.Stamp{ID: h.Get(wire.HeaderWebhookID), Time: time.Unix(seconds, 0)}, body)
	if err != nil || d.Type == webhook.TypeVerification {
		return nil
	}
	d.Subscription = h.Get(wire.HeaderSubscriptionID)
	return &d
}

// A statusRecorder records the status of a response.
type statusRecorder struct {
	http.ResponseWriter
	code int
}

func (s *statusRecorder) WriteHeader(code int) {
	s.code = code
	s.ResponseWriter.WriteHeader(code)
}

func (s *statusRecorder) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// newCertificate creates a certificate for the callbacks and adds it to the roots that servers on the network trust.
func (w *Webhooks) newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{subscriberHost}, NotBefore: now.AddDate(-1, 0, 0),
		NotAfter: now.AddDate(100, 0, 0), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return tls.Certificate{}, err
	}
	w.roots.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

type resolver struct{}

func (resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host != subscriberHost {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{subscriberAddress}, nil
}
