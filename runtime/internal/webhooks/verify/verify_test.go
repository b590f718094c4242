package verify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcpe-gen/mcpe-gen/internal/memnet"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/fault"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/webhooks/netguard"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/telemetry"
	"github.com/mcpe-gen/mcpe-gen/runtime/webhook"
)

// hook is a callback at the receiver, whose certificate is for example.com.
const hook = "https://example.com/hooks/1"

// A rig is a verifier with the only receiver there is, in a bubble. Its fields are set before the first call.
type rig struct {
	*Verifier
	t       *testing.T
	o       Options
	guard   *netguard.Guard
	records *records
	// consents is the document of the receiver, "" for none; answer its callback, by default a good one.
	consents string
	answer   func(w http.ResponseWriter, challenge string)

	mu    sync.Mutex
	asked []string // what the receiver got: "GET" for the document, the URL's path for challenges
}

// records are those of a store in memory, which fails where it is told to.
type records struct {
	*memory.Store
	fail atomic.Value // a method, as text
}

var errStore = errors.New("the store is broken")

func (r *records) PutVerification(ctx context.Context, v store.Verification) error {
	if r.fail.Load() == "put" {
		return errStore
	}
	return r.Store.PutVerification(ctx, v)
}

func (r *records) CountVerifications(ctx context.Context, principal string) (own, all int, err error) {
	if r.fail.Load() == "count" {
		return 0, 0, errStore
	}
	return r.Store.CountVerifications(ctx, principal)
}

func (r *records) SweepVerifications(ctx context.Context, now time.Time, limit int) (int, error) {
	if r.fail.Load() == "sweep" {
		return 0, errStore
	}
	return r.Store.SweepVerifications(ctx, now, limit)
}

type names struct{}

func (names) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
}

// verifying runs f in a bubble.
func verifying(t *testing.T, name string, f func(t *testing.T, g *rig)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := &rig{t: t, records: &records{Store: memory.New()}, o: Options{Telemetry: telemetry.Discard,
				Limits: Limits{Timeout: 5 * time.Second, Budget: 3, CacheFor: time.Hour, PerPrincipal: -1, Total: -1}}}
			network := memnet.New()
			receiver := httptest.NewUnstartedServer(g)
			receiver.Listener.Close()
			receiver.Listener, receiver.Config.ErrorLog = network, log.New(io.Discard, "", 0)
			receiver.StartTLS()
			defer receiver.Close()
			roots := x509.NewCertPool()
			roots.AddCert(receiver.Certificate())
			guard, err := netguard.New(netguard.Options{Resolver: names{}, DialContext: network.DialContext, TLS: &tls.Config{RootCAs: roots}})
			if err != nil {
				t.Fatal(err)
			}
			defer guard.Close()
			g.guard = guard
			f(t, g)
			if got := g.Holding(); got.Flights+got.Fetching+got.Open+got.Total+len(got.Owned) != 0 {
				t.Errorf("left behind: %+v", got)
			}
		})
	})
}

func (g *rig) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	document := r.URL.Path == wire.PathReceivers
	g.mu.Lock()
	if document {
		g.asked = append(g.asked, r.Method)
	} else {
		g.asked = append(g.asked, r.URL.Path)
	}
	g.mu.Unlock() // answers sleep
	if document {
		if g.consents == "" {
			http.NotFound(w, r)
			return
		}
		io.WriteString(w, g.consents)
		return
	}
	var body struct{ Type, Challenge string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Type != wire.EnvelopeVerification || r.Header.Get("webhook-signature") == "" {
		g.t.Errorf("a challenge of %+v, %v, %v", body, r.Header, err)
	}
	if g.answer != nil {
		g.answer(w, body.Challenge)
		return
	}
	fmt.Fprintf(w, `{"challenge":%q}`, body.Challenge)
}

// start makes the verifier of what is set.
func (g *rig) start() {
	g.t.Helper()
	var err error
	if g.Verifier, err = New(g.o, g.records, g.guard); err != nil {
		g.t.Fatal(err)
	}
}

// verify verifies a callback for a principal.
func (g *rig) verify(ctx context.Context, principal, callback string, live bool) error {
	at, err := url.Parse(callback)
	if err != nil {
		g.t.Fatal(err)
	}
	_, err = g.Verify(ctx, &Candidate{Pair: Pair{principal, callback}, ID: "sub_1", At: at, Ring: webhook.NewRing(webhook.NewSecret()),
		Live: func() bool { return live }})
	return err
}

// expect verifies and compares what the subscriber is told, "" for nothing wrong, and what the receiver was asked
// since.
func (g *rig) expect(what, principal, callback string, live bool, want string, asked ...string) {
	g.t.Helper()
	err := g.verify(g.t.Context(), principal, callback, live)
	g.told(what, err, want, asked...)
}

func (g *rig) told(what string, err error, want string, asked ...string) {
	g.t.Helper()
	got := ""
	if err != nil {
		got = fault.Object(err, wire.Sketch).Message
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if got != want || !slices.Equal(g.asked, asked) {
		g.t.Errorf("%s: told %q of %v, asked %q; want %q, %q", what, got, err, g.asked, want, asked)
	}
	g.asked = nil
}

// VER-1: the ways are tried in their order, each only where the one before does not cover the callback, and what was
// found is kept for the principal alone.
func TestVER1Ways(t *testing.T) {
	const challenged = "/hooks/1"
	verifying(t, "allow-list", func(t *testing.T, g *rig) {
		g.o.Allow = []string{"https://example.com/hooks"}
		g.start()
		g.expect("allowed", "ann", hook, false, "")
		g.expect("beside it", "ann", "https://example.com/other", false, "", "GET", "/other")
	})
	verifying(t, "well-known", func(t *testing.T, g *rig) {
		g.consents = `{"receivers":["/hooks/"]}`
		g.start()
		g.expect("covered", "ann", hook, false, "", "GET")
		g.expect("again", "ann", hook, false, "")
		g.expect("by the document at hand", "bob", hook, false, "")
		g.expect("not covered", "bob", "https://example.com/other", false, "", "/other")
		time.Sleep(defaultCacheTime)
		g.expect("by a document of now", "eve", hook, false, "", "GET")
		g.consents = ""
		time.Sleep(defaultCacheTime)
		g.expect("after the document", "mia", hook, false, "", "GET", challenged)
	})
	verifying(t, "paths of a document", func(t *testing.T, g *rig) {
		g.consents = `{"receivers":["/hooks/","/exact"],"later":1}`
		g.start()
		for path, want := range map[string]bool{"/hooks/": true, "/hooks/1": true, "/exact": true, "/": false, "/hooks": false, "/hooks/../admin": false,
			"/hooks/%2e%2e/admin": false, "/hooks%2Fx": false} {
			u, err := url.Parse("https://example.com" + path)
			if err != nil {
				t.Fatal(err)
			}
			if got := g.receivers.fetchAndCheck(t.Context(), g.guard, u); got != want {
				t.Errorf("%s is covered: %v", path, got)
			}
		}
		g.told("fetched once", nil, "", "GET")
	})
	verifying(t, "an operator's record", func(t *testing.T, g *rig) {
		g.start()
		if err := g.records.PutVerification(t.Context(), store.Verification{Principal: "ann", URL: hook, Method: "stored"}); err != nil {
			t.Fatal(err)
		}
		g.expect("its principal", "ann", hook, false, "")
		g.expect("another principal", "bob", hook, false, "", "GET", challenged)
	})
	verifying(t, "challenge", func(t *testing.T, g *rig) {
		g.start()
		g.expect("first", "ann", hook, false, "", "GET", challenged)
		g.expect("again", "ann", hook, false, "")
		g.expect("another principal", "bob", hook, false, "", challenged)
		for range 3 { // each use of the second half prolongs
			time.Sleep(40 * time.Minute)
			g.expect("used", "ann", hook, true, "")
		}
		time.Sleep(2 * time.Hour)
		g.expect("over, with a live subscription", "ann", hook, true, "")
		g.expect("over", "bob", hook, false, "", "GET", challenged)
		v, ok, err := g.records.Verification(t.Context(), "bob", hook)
		if err != nil || !ok || v.Method != byChallenge || v.Until.Sub(v.At) != time.Hour {
			t.Errorf("%+v, %v, %v", v, ok, err)
		}
	})
	verifying(t, "plain http is not asked for consent", func(t *testing.T, g *rig) {
		g.consents = `{"receivers":["/"]}`
		g.start()
		u, _ := url.Parse("http://example.com/hooks")
		if g.receivers.hasCached(u) || g.receivers.fetchAndCheck(t.Context(), g.guard, u) {
			t.Error("it consents")
		}
		g.told("nobody", nil, "")
	})
	verifying(t, "as many receivers as may be", func(t *testing.T, g *rig) {
		all, _ := json.Marshal(wire.Receivers{Receivers: slices.Repeat([]string{"/hooks/"}, MaxReceivers)})
		g.consents = string(all)
		g.start()
		g.expect("covered", "ann", hook, false, "", "GET")
	})
	verifying(t, "a document that is none", func(t *testing.T, g *rig) {
		many, _ := json.Marshal(wire.Receivers{Receivers: slices.Repeat([]string{"/"}, MaxReceivers+1)})
		for _, text := range []string{"{", `["/"]`, string(many), `{"receivers":["hooks/","https://example.com/"]}`} {
			g.consents = text
			g.start()
			g.expect(text[:1], "ann", hook, false, "", "GET", challenged)
			if err := g.records.Close(); err != nil {
				t.Fatal(err)
			}
			g.records.Store = memory.New()
		}
	})
}

// VER-2, ERR-1: a callback that does not repeat the challenge is told by a category, in time; a caller who goes away is
// not told anything of ours.
func TestVER2Refusals(t *testing.T) {
	for name, row := range map[string]struct {
		answer func(w http.ResponseWriter, challenge string)
		want   wire.Category
	}{
		"another": {func(w http.ResponseWriter, _ string) { io.WriteString(w, `{"challenge":"LEAK"}`) }, wire.ChallengeFailed},
		"404":     {func(w http.ResponseWriter, _ string) { w.WriteHeader(404) }, wire.ChallengeFailed},
		"redirect": {func(w http.ResponseWriter, _ string) {
			w.Header().Set("Location", hook+"/2")
			w.WriteHeader(307)
		}, wire.ChallengeFailed},
		"hangs": {func(w http.ResponseWriter, _ string) { time.Sleep(time.Minute) }, wire.Timeout},
		"huge": {func(w http.ResponseWriter, c string) {
			fmt.Fprintf(w, `{"challenge":%q,"pad":%q}`, c, strings.Repeat("LEAK", 20_000))
		}, wire.ChallengeFailed},
		"resets": {func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) }, wire.ConnectionRefused},
	} {
		verifying(t, name, func(t *testing.T, g *rig) {
			g.answer = row.answer
			g.start()
			began := time.Now()
			g.expect(name, "ann", hook, false, "CallbackEndpointError: "+string(row.want), "GET", "/hooks/1")
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%s took %v", name, took)
			}
			synctest.Wait()
			time.Sleep(time.Minute) // a handler that hangs ends
		})
	}
	verifying(t, "the caller goes away", func(t *testing.T, g *rig) {
		g.answer = func(http.ResponseWriter, string) { time.Sleep(time.Minute) }
		g.start()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := g.verify(ctx, "ann", hook, false); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Minute)
	})
}

// VER-2: one verification of a pair runs at a time; who waited uses its result.
func TestVER2OneAtATime(t *testing.T) {
	verifying(t, "result", func(t *testing.T, g *rig) {
		g.answer = func(w http.ResponseWriter, c string) {
			time.Sleep(time.Second)
			fmt.Fprintf(w, `{"challenge":%q}`, c)
		}
		g.start()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := g.verify(t.Context(), "ann", hook, false); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(500 * time.Millisecond)
		if h := g.Holding(); h.Flights != 1 || h.Total != 1 || h.Owned["ann"] != 1 || h.Open != 3 {
			t.Errorf("under way: %+v", h)
		}
		wg.Wait()
		g.told("eight", nil, "", "GET", "/hooks/1")
	})
}

// VER-3: failures are bounded for a host and a principal within a minute, and records by principal and in all; what is
// over makes room.
func TestVER3Bounds(t *testing.T) {
	verifying(t, "failures at many hosts", func(t *testing.T, g *rig) {
		g.answer = func(w http.ResponseWriter, _ string) { w.WriteHeader(500) }
		g.start()
		for i := range g.o.Budget {
			if err := g.verify(t.Context(), "ann", fmt.Sprintf("https://h%d.example.com/hooks/1", i), false); err == nil {
				t.Error("a callback that fails is verified")
			}
		}
		g.asked = nil
		g.expect("one failure more", "ann", hook, false, "ResourceExhausted: too many failed verifications")
		time.Sleep(time.Minute)
		g.answer = nil
		g.expect("a minute later", "ann", hook, false, "", "GET", "/hooks/1")
	})
	for name, row := range map[string]struct {
		own, total int
		principal  string
	}{"records of a principal": {1, -1, "ann"}, "records in all": {-1, 1, "bob"}} {
		verifying(t, name, func(t *testing.T, g *rig) {
			g.o.PerPrincipal, g.o.Total = row.own, row.total
			g.start()
			g.expect("first", "ann", hook, false, "", "GET", "/hooks/1")
			g.expect("second", row.principal, hook+"2", false, "ResourceExhausted: at most 1 verified callbacks")
			time.Sleep(time.Hour)
			g.expect("when the first is over", row.principal, hook+"2", false, "", "GET", "/hooks/12")
		})
	}
	verifying(t, "a store that fails", func(t *testing.T, g *rig) {
		g.start()
		for _, fail := range []string{"count", "put"} {
			g.records.fail.Store(fail)
			if err := g.verify(t.Context(), "ann", hook, false); !errors.Is(err, errStore) {
				t.Errorf("%s: %v", fail, err)
			}
		}
		g.records.fail.Store("")
		g.o.PerPrincipal, g.o.Total = 0, -1
		g.start()
		g.records.fail.Store("sweep")
		if err := g.verify(t.Context(), "ann", hook, false); !errors.Is(err, errStore) {
			t.Errorf("sweep: %v", err)
		}
	})
}

// VER-3: failures of one principal at a host that many share are its own, whatever it fails; those of several
// close the host to each other, and only those of many close it to newcomers, who learn that they are not theirs. A host
// that is known to be a receiver has room for more.
func TestVER3OwnFailuresFirst(t *testing.T) {
	const (
		own    = "ResourceExhausted: too many failed verifications"
		others = "ResourceExhausted: too many failed verifications of this host, by other callers"
	)
	failing := func(g *rig, principals, each int) {
		g.answer = func(w http.ResponseWriter, _ string) { w.WriteHeader(500) }
		for p := range principals {
			for i := range each {
				if err := g.verify(g.t.Context(), fmt.Sprint("mallory", p), fmt.Sprintf("%s/%d/%d", hook, p, i), false); err == nil {
					g.t.Error("a callback that fails is verified")
				}
			}
		}
		g.answer, g.asked = nil, nil
	}
	for _, row := range []struct {
		name             string
		verified         bool // somebody was verified at the host before
		principals, each int
		self, newcomer   string
	}{
		{"one principal", false, 1, 12, own, ""},
		{"one principal, a known receiver", true, 1, 12, own, ""},
		{"many principals", false, 24, 1, others, others},
		{"some principals, a known receiver", true, 12, 1, "", ""},
		{"many principals, a known receiver", true, 24, 1, others, ""},
		{"very many principals, a known receiver", true, 50, 1, others, others},
	} {
		verifying(t, row.name, func(t *testing.T, g *rig) {
			g.o.Budget = 10
			g.start()
			if row.verified {
				g.expect("the first", "ann", hook, false, "", "GET", "/hooks/1")
			}
			failing(g, row.principals, row.each)
			for i := range 3 {
				callback := fmt.Sprint(hook, "/good/", i)
				want, asked := row.newcomer, []string{fmt.Sprint("/hooks/1/good/", i)}
				if want != "" {
					asked = nil
				}
				g.expect("a newcomer", fmt.Sprint("bob", i), callback, false, want, asked...)
			}
			asked := []string{"/hooks/1/again"}
			if row.self != "" {
				asked = nil
			}
			g.expect("who has failed", "mallory0", hook+"/again", false, row.self, asked...)
			g.expect("elsewhere", "ann", "https://other.example.com/hooks/1", false, "", "GET", "/hooks/1")
		})
	}
}

// VER-3: what nobody needs is removed from time to time, in steps, until the end; a store that fails is tried again.
func TestVER3Sweep(t *testing.T) {
	verifying(t, "sweep", func(t *testing.T, g *rig) {
		g.start()
		for i := range SweepBatch + 10 {
			if err := g.records.PutVerification(t.Context(), store.Verification{Principal: "ann", URL: fmt.Sprint(i), At: time.Now(),
				Until: time.Now().Add(time.Minute)}); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			g.Sweep(ctx, &fault.Log{Logger: slog.New(slog.NewTextHandler(&out, nil))})
			close(ended)
		}()
		left := func() int {
			synctest.Wait()
			_, all, _ := g.records.CountVerifications(t.Context(), "ann")
			return all
		}
		if n := left(); n != SweepBatch+10 {
			t.Errorf("%d are left of what holds", n)
		}
		g.records.fail.Store("sweep")
		time.Sleep(SweepAtMost)
		if left() != SweepBatch+10 || strings.Count(out.String(), "the store is broken") != 1 {
			t.Errorf("%s", out.String())
		}
		g.records.fail.Store("")
		time.Sleep(SweepAtMost)
		if n := left(); n != 0 {
			t.Errorf("%d are left", n)
		}
		cancel()
		<-ended
	})
}

// VER-1: the operator's list is of origins with or without a path, which are compared as servers do.
func TestVER1AllowList(t *testing.T) {
	for _, text := range []string{"", "example.com", "ftp://example.com", "https://u:p@example.com", "https://example.com?x=1", "https://example.com#x", "://"} {
		if _, err := New(Options{Allow: []string{text}, Telemetry: telemetry.Discard}, memory.New(), nil); err == nil {
			t.Errorf("%q is taken for an origin", text)
		}
	}
	v, err := New(Options{Allow: []string{"https://a.test", "http://b.test:8080/hooks/", "https://[2001:db8::1]"}, Telemetry: telemetry.Discard}, memory.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	want := map[string]bool{
		"https://a.test/x": true, "https://A.test.:443/x": true, "http://a.test/x": false, "https://a.test:444/": false, "https://sub.a.test/x": false,
		"http://b.test:8080/hooks": true, "http://b.test:8080/hooks/1": true, "http://b.test:8080/x/../hooks/1": true, "http://b.test:8080/hooksmith": false,
		"http://b.test:8080/": false, "http://b.test:8080/hooks/../x": false, "http://b.test:8080/hooks/%2e%2e/x": false, "http://b.test/hooks": false,
		"https://[2001:0db8:0::1]/x": true, "https://[2001:db8::2]/x": false,
	}
	for text := range want {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		got[text] = v.Allows(u)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// failures records the failures of verifications.
type failures struct {
	telemetry.Recorder
	got []string
}

func (f *failures) Record(_ context.Context, s telemetry.Series, _ float64) {
	f.got = append(f.got, s.Failure)
}

// ERR-1: a challenge that failed at the server's own proxy is a refused connection for the subscriber, and counted as
// what it is.
func TestERR1ProxyOfTheServer(t *testing.T) {
	verifying(t, "down", func(t *testing.T, g *rig) {
		guard, err := netguard.New(netguard.Options{Resolver: names{}, Proxy: &url.URL{Scheme: "http", Host: "proxy.test"},
			DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ECONNREFUSED }})
		if err != nil {
			t.Fatal(err)
		}
		defer guard.Close()
		counted := &failures{Recorder: telemetry.Discard}
		g.guard, g.o.Telemetry = guard, counted
		g.start()
		g.expect("through the proxy", "ann", hook, false, "CallbackEndpointError: connection_refused")
		if !slices.Equal(counted.got, []string{"proxy"}) {
			t.Errorf("counted %q", counted.got)
		}
	})
}
