package clitest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/serve"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// A Peer is a server that provides the event types of an event file without generated code.
type Peer struct {
	mcp    *mcp.Server
	Events *server.Server
	emit   []*server.Emitter[json.RawMessage]
	once   sync.Once
}

// NewPeer registers the events of the file. Each page of events/list contains two.
func NewPeer(file string, o server.Options) (*Peer, error) {
	set, found := schema.Load([]string{file}, schema.Options{})
	if source.HasErrors(found) {
		return nil, fmt.Errorf("%v", found)
	}
	p := &Peer{mcp: mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)}
	o.PageSize, o.NextPoll, o.Heartbeat = 2, 20*time.Millisecond, time.Second
	es, err := server.New(p.mcp, o)
	if err != nil {
		return nil, err
	}
	p.Events = es
	for _, e := range set.Files[0].Events {
		t, err := serve.TypeOf(set, e)
		if err != nil {
			return nil, err
		}
		emitter, err := server.Register(es, t, server.Hooks[json.RawMessage, json.RawMessage]{})
		if err != nil {
			return nil, err
		}
		p.emit = append(p.emit, emitter)
	}
	return p, nil
}

// emitEvents emits the same three events once a client subscribes. It then repeats them so that late subscribers also
// receive events.
func (p *Peer) emitEvents(ctx context.Context) {
	p.once.Do(func() {
		go func() {
			for n := 0; ctx.Err() == nil; n++ {
				time.Sleep(20 * time.Millisecond)
				if len(p.Events.Subscriptions()) == 0 {
					continue
				}
				data := fmt.Sprintf(`{"incidentId":"INC-%d","severity":"P%d","openedAt":"2026-11-20T08:00:00Z"}`, n, n%2+1)
				if p.emit[0].Emit(ctx, json.RawMessage(data), events.WithID(fmt.Sprintf("evt_%d", n))) != nil {
					return
				}
			}
		}()
	})
}

// ServePeer implements the script command "peer FILE [quiet]". It serves on standard input and output.
func ServePeer() {
	p, err := NewPeer(os.Args[1], server.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	p.emitEvents(context.Background())
	if len(os.Args) < 3 {
		// Log output on standard output must not disturb a client.
		fmt.Println("peer is listening")
	}
	if err := transport.Run(context.Background(), p.Events, &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

// StartPeer implements the script command "serve FILE [TOKEN [CERT]]". It serves over HTTP and stores the address in
// $URL. If a token is given, it rejects requests without that token. If a certificate file is given, it also offers
// webhooks to loopback callbacks that use the certificate.
func StartPeer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 3 {
		ts.Fatalf("usage: serve FILE [TOKEN [CERT]]")
	}
	o := server.Options{}
	if len(args) == 3 {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(ts.ReadFile(args[2]))) {
			ts.Fatalf("%s is not a certificate", args[2])
		}
		o.Store = memory.New()
		o.Principal = func(context.Context, *mcp.RequestExtra) string { return "me" }
		o.Webhooks = webhooks.New(webhooks.Options{Callbacks: callbacks.Options{
			AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, TLS: &tls.Config{RootCAs: roots}},
			Retry: webhooks.Retry{Schedule: []time.Duration{0, 500 * time.Millisecond, time.Second}}})
	}
	p, err := NewPeer(ts.MkAbs(args[0]), o)
	ts.Check(err)
	handler := transport.NewHandler(p.Events, transport.HandlerOptions{})
	guarded := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(args) >= 2 && r.Header.Get("Authorization") != "Bearer "+args[1] {
			http.Error(w, "unauthorized", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})
	hs := httptest.NewServer(guarded)
	ctx, cancel := context.WithCancel(context.Background())
	ts.Defer(func() {
		cancel()
		end, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		_ = p.Events.Shutdown(end)
		hs.Close()
	})
	p.emitEvents(ctx)
	ts.Setenv("URL", hs.URL)
}

// Certificate implements the script command "certificate CERT KEY". It writes a self-signed certificate for 127.0.0.1
// and its key.
func Certificate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: certificate CERT KEY")
	}
	hs := httptest.NewTLSServer(http.NotFoundHandler())
	defer hs.Close()
	pair := hs.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	ts.Check(err)
	for i, block := range []*pem.Block{{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, {Type: "PRIVATE KEY", Bytes: key}} {
		ts.Check(os.WriteFile(ts.MkAbs(args[i]), pem.EncodeToMemory(block), 0o600))
	}
}

// Sink implements the script command "sink STATUS FILE". It starts an HTTP server that responds with the status and
// appends each request body to the file as a line. It stores the address in $SINK.
func Sink(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sink STATUS FILE")
	}
	status := 0
	if _, err := fmt.Sscan(args[0], &status); err != nil {
		ts.Check(err)
	}
	file := ts.MkAbs(args[1])
	ts.Check(os.MkdirAll(filepath.Dir(file), 0o777))
	var mu sync.Mutex
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		if err == nil {
			fmt.Fprintf(f, "%s %s %s\n", r.Method, r.Header.Get("Content-Type"), body)
			f.Close()
		}
		w.WriteHeader(status)
	}))
	ts.Defer(hs.Close)
	ts.Setenv("SINK", hs.URL)
}
