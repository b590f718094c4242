package main

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
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/serve"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// A peerServer is a server of the event types of an event file, without generated code.
type peerServer struct {
	mcp    *mcp.Server
	events *server.Server
	emit   []*server.Emitter[json.RawMessage]
	once   sync.Once
}

// newPeer registers the events of the file; pages of events/list hold two.
func newPeer(file string, o server.Options) (*peerServer, error) {
	set, found := schema.Load([]string{file}, schema.Options{})
	if source.HasErrors(found) {
		return nil, fmt.Errorf("%v", found)
	}
	p := &peerServer{mcp: mcp.NewServer(&mcp.Implementation{Name: "peer", Version: "1"}, nil)}
	o.PageSize, o.NextPoll, o.Heartbeat = 2, 20*time.Millisecond, time.Second
	es, err := server.New(p.mcp, o)
	if err != nil {
		return nil, err
	}
	p.events = es
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

// report emits the same three events as soon as somebody subscribes, and then again and again, so that
// one who subscribes late has something to receive.
func (p *peerServer) report(ctx context.Context) {
	p.once.Do(func() {
		go func() {
			for n := 0; ctx.Err() == nil; n++ {
				time.Sleep(20 * time.Millisecond)
				if len(p.events.Subscriptions()) == 0 {
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

// servePeer is the command "peer FILE [quiet]" of scripts: the server on standard input and output.
func servePeer() {
	p, err := newPeer(os.Args[1], server.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	p.report(context.Background())
	if len(os.Args) < 3 {
		// Somebody's logging on standard output must not disturb a client.
		fmt.Println("peer is listening")
	}
	if err := transport.Run(context.Background(), p.events, &mcp.StdioTransport{}); err != nil {
		os.Exit(1)
	}
}

// onEvent is the command "onevent FILE [CODE…]" of scripts: it appends what it reads to FILE, after its environment, and
// the n-th time that it runs its exit code is the n-th CODE, 0 when there is none. With the code "wait" it first waits
// until there is a file FILE.go.
func onEvent() {
	file := os.Args[1]
	before, _ := os.ReadFile(file)
	n := strings.Count(string(before), "\n")
	batch, err := io.ReadAll(os.Stdin)
	if err == nil {
		line := fmt.Sprintf("%s %s %s %s", os.Getenv("MCPE_EVENT"), os.Getenv("MCPE_SERVER"), os.Getenv("MCPE_COUNT"), batch)
		err = os.WriteFile(file, append(before, line...), 0o666)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("did \x1b[2J it")
	if codes := os.Args[2:]; n < len(codes) {
		for end := time.Now().Add(time.Minute); codes[n] == "wait" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(file + ".go"); err == nil {
				os.Exit(0)
			}
		}
		code, err := strconv.Atoi(codes[n])
		if err != nil {
			code = 1
		}
		os.Exit(code)
	}
}

// startPeer is the script command "serve FILE [TOKEN [CERT]]": the server over HTTP, whose address it puts
// into $URL. With a token it refuses requests that do not carry it; with a certificate's file too it
// offers webhooks, to callbacks on loopback that have the certificate.
func startPeer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 3 {
		ts.Fatalf("usage: serve FILE [TOKEN [CERT]]")
	}
	o := server.Options{}
	if len(args) == 3 {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(ts.ReadFile(args[2]))) {
			ts.Fatalf("%s is no certificate", args[2])
		}
		o.Store = memory.New()
		o.Principal = func(context.Context, *mcp.RequestExtra) string { return "me" }
		o.Webhook = &server.WebhookOptions{Callbacks: server.Callbacks{
			AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, TLS: &tls.Config{RootCAs: roots}},
			Retry: server.Retry{Schedule: []time.Duration{0, 500 * time.Millisecond, time.Second}}}
	}
	p, err := newPeer(ts.MkAbs(args[0]), o)
	ts.Check(err)
	handler := transport.NewHandler(p.events, transport.HandlerOptions{})
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
		_ = p.events.Shutdown(end)
		hs.Close()
	})
	p.report(ctx)
	ts.Setenv("URL", hs.URL)
}

// certificate is the script command "certificate CERT KEY": files of a self-signed certificate for
// 127.0.0.1 and its key.
func certificate(ts *testscript.TestScript, neg bool, args []string) {
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

// sink is the script command "sink STATUS FILE": an HTTP server that answers with the status and
// appends the bodies to the file, one a line; its address goes into $SINK.
func sink(ts *testscript.TestScript, neg bool, args []string) {
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
