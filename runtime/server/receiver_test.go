package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/performed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/subscriber"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

const (
	secretA = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	secretB = "whsec_BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBA="
	plain   = "http://receiver.test/hooks/1"  // an origin that the test servers allow
	secure  = "https://receiver.test/hooks/1" // reached over TLS at a public address
)

// A delivered is one request that the receiver got.
type delivered struct {
	at     time.Time
	url    string // as the subscriber wrote it
	header http.Header
	raw    []byte
	body   struct {
		Type      string            `json:"type"`
		Challenge string            `json:"challenge"`
		EventID   string            `json:"eventId"`
		Cursor    *string           `json:"cursor"`
		Data      json.RawMessage   `json:"data"`
		Error     *wire.ErrorObject `json:"error"`
	}
}

func (d *delivered) short() string {
	switch {
	case d.body.EventID != "":
		return d.body.EventID
	case d.body.Error != nil:
		name, _, _ := strings.Cut(d.body.Error.Message, ": ")
		return fmt.Sprintf("%s %d %s %s", d.body.Type, d.body.Error.Code, name, d.body.Error.Data)
	default:
		return d.body.Type
	}
}

// signedBy reports whether the secret alone would accept the message.
func (d *delivered) signedBy(secret string) bool {
	s, err := webhook.ParseSecret(secret)
	if err != nil {
		return false
	}
	_, err = (webhook.Verifier{Secrets: []webhook.Secret{s}, Tolerance: 1000 * time.Hour}).Verify(d.header, d.raw)
	return err == nil
}

// A receiver is every callback of a test. By default it answers challenges and accepts all else.
type receiver struct {
	network
	mu       sync.Mutex
	got      []*delivered
	handle   func(w http.ResponseWriter, d *delivered) bool // true when it has answered
	document func(w http.ResponseWriter)                    // the well-known one; nil for none
	fetched  int
	agents   []string // the User-Agent of each request
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	r.agents = append(r.agents, req.UserAgent())
	r.mu.Unlock()
	if req.URL.Path == wire.PathReceivers {
		r.mu.Lock()
		r.fetched++
		f := r.document
		r.mu.Unlock()
		if f == nil {
			http.NotFound(w, req)
			return
		}
		f(w)
		return
	}
	d := &delivered{at: time.Now(), header: req.Header}
	scheme := "http://"
	if req.TLS != nil {
		scheme = "https://"
	}
	d.url = scheme + req.Host + req.RequestURI
	d.raw, _ = io.ReadAll(req.Body)
	json.Unmarshal(d.raw, &d.body)
	r.mu.Lock()
	r.got = append(r.got, d)
	f := r.handle
	r.mu.Unlock()
	if f != nil && f(w, d) {
		return
	}
	answerChallenge(w, d)
}

func answerChallenge(w http.ResponseWriter, d *delivered) {
	if d.body.Type == wire.EnvelopeVerification {
		fmt.Fprintf(w, `{"challenge":%q}`, d.body.Challenge)
	}
}

func (r *receiver) on(f func(w http.ResponseWriter, d *delivered) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handle = f
}

// all returns what came but challenges.
func (r *receiver) all() []*delivered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.got), func(d *delivered) bool { return d.body.Type == wire.EnvelopeVerification })
}

func (r *receiver) challenges() []*delivered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.got), func(d *delivered) bool { return d.body.Type != wire.EnvelopeVerification })
}

func (r *receiver) shorts() []string {
	out := []string{}
	for _, d := range r.all() {
		out = append(out, d.short())
	}
	return out
}

func (r *receiver) last() *delivered {
	all := r.all()
	if len(all) == 0 {
		return &delivered{}
	}
	return all[len(all)-1]
}

// A network remembers every connection asked for.
type network struct {
	*memnet.Network
	lock   sync.Mutex
	dialed []string
	answer func(host string) ([]string, error) // of lookups
}

func (n *network) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.lock.Lock()
	n.dialed = append(n.dialed, address)
	n.lock.Unlock()
	return n.DialContext(ctx, network, address)
}

func (n *network) packets() int {
	n.lock.Lock()
	defer n.lock.Unlock()
	return len(n.dialed)
}

func (n *network) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	found, err := []string{"93.184.216.34"}, error(nil)
	n.lock.Lock()
	f := n.answer
	n.lock.Unlock()
	if f != nil {
		found, err = f(host)
	}
	var addrs []netip.Addr
	for _, a := range found {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	return addrs, err
}

// sniffer serves TLS to who begins with a handshake and plain HTTP to the others.
type sniffer struct {
	net.Listener
	config *tls.Config
}

type sniffed struct {
	net.Conn
	first []byte
}

func (c *sniffed) Read(b []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

func (l sniffer) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &either{sniffed: &sniffed{Conn: c}, config: l.config}, nil
}

// either decides at the first byte.
type either struct {
	*sniffed
	config *tls.Config
	once   sync.Once
	inner  net.Conn
}

func (c *either) ready() net.Conn {
	c.once.Do(func() {
		b := make([]byte, 1)
		n, _ := c.Conn.Read(b)
		c.first = b[:n]
		c.inner = c.sniffed
		if n > 0 && b[0] == 22 {
			c.inner = tls.Server(c.sniffed, c.config)
		}
	})
	return c.inner
}

func (c *either) Read(b []byte) (int, error)  { return c.ready().Read(b) }
func (c *either) Write(b []byte) (int, error) { return c.ready().Write(b) }

// A world is a server with webhooks and the receiver of its deliveries, in one bubble.
type world struct {
	*Server
	t       testing.TB
	options Options
	r       *receiver
}

// Admin returns the operator's view of the server. Its requests return once they are performed.
func (w *world) Admin() performed.Admin { return performed.Admin{Admin: w.Server.Admin()} }

// bubble runs f with a server and its receiver; change edits the options before New.
func bubble(t *testing.T, change func(*Options), f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newWorld(t, change))
	})
}

func newWorld(t testing.TB, change func(*Options)) *world {
	t.Helper()
	r, o := newReceiver(t)
	if change != nil {
		change(&o)
	}
	w := &world{t: t, r: r, options: o}
	w.Server = newServer(t, o)
	return w
}

// newReceiver serves the callbacks of servers with those options.
func newReceiver(t testing.TB) (*receiver, Options) {
	t.Helper()
	r := &receiver{network: network{Network: memnet.New()}}
	s := httptest.NewUnstartedServer(nil) // for its certificate
	s.StartTLS()
	config, certificate := s.TLS.Clone(), s.Certificate()
	s.Close()
	config.NextProtos = []string{"http/1.1"}
	hs := &http.Server{Handler: r, ErrorLog: log.New(io.Discard, "", 0)}
	served := make(chan struct{})
	go func() {
		defer close(served)
		hs.Serve(sniffer{&r.network, config})
	}()
	roots := x509.NewCertPool()
	roots.AddCert(certificate)
	o := Options{Webhooks: webhooks.New(webhooks.Options{
		Callbacks: callbacks.Options{AllowOrigins: []string{"http://receiver.test"}, DialContext: r.dial, Resolver: &r.network, TLS: &tls.Config{RootCAs: roots, ServerName: "example.com"}},
		Retry:     webhooks.Retry{Jitter: -1},
	})}
	t.Cleanup(func() {
		hs.Close()
		<-served
	})
	return r, o
}

// restart shuts the server down and makes another one over the same store.
func (w *world) restart(change func(*Options)) {
	w.t.Helper()
	if err := w.Shutdown(context.Background()); err != nil {
		w.t.Fatal(err)
	}
	if change != nil {
		change(&w.options)
	}
	w.Server = newServer(w.t, w.options)
}

type subscribed struct {
	ResultType     string                     `json:"resultType"`
	ID             string                     `json:"id"`
	RefreshBefore  *string                    `json:"refreshBefore"`
	Cursor         *string                    `json:"cursor"`
	Truncated      bool                       `json:"truncated"`
	DeliveryStatus *subscriber.DeliveryStatus `json:"deliveryStatus"`
}

func (s *subscribed) until(t testing.TB) time.Duration {
	t.Helper()
	if s.RefreshBefore == nil {
		return 0
	}
	at, err := time.Parse(time.RFC3339Nano, *s.RefreshBefore)
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(at)
}

// params are those of a subscribe for the event "e"; more are further members with a comma first.
func params(url, secret, more string) string {
	return fmt.Sprintf(`{"name":"e","delivery":{"mode":"webhook","url":%q,"secret":%q}%s}`, url, secret, more)
}

func (w *world) subscribe(principal, p string) subscribed {
	w.t.Helper()
	raw, rerr := call(w.Server, principal, wire.MethodSubscribe, p)
	if rerr != nil {
		w.t.Fatalf("subscribe %s: %d %s %s", p, rerr.Code, rerr.Message, rerr.Data)
	}
	var s subscribed
	if err := json.Unmarshal(raw, &s); err != nil || s.ResultType != wire.ResultComplete || !strings.HasPrefix(s.ID, "sub_") {
		w.t.Fatalf("%s: %v", raw, err)
	}
	return s
}

func (w *world) unsubscribe(principal, url string) {
	w.t.Helper()
	raw, rerr := call(w.Server, principal, wire.MethodUnsubscribe, fmt.Sprintf(`{"name":"e","delivery":{"url":%q}}`, url))
	if rerr != nil || string(raw) != `{"resultType":"complete"}` {
		w.t.Fatalf("unsubscribe: %s %v", raw, rerr)
	}
}

func (w *world) settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// onlyFails refuses one event.
func onlyFails(id string) func(http.ResponseWriter, *delivered) bool {
	return func(w http.ResponseWriter, d *delivered) bool {
		if d.body.EventID != id {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
}
