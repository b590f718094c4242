// Command conformance is the fixture server for the public conformance suite of the Events extension. It has a small
// catalogue, hardened defaults, and diagnostic controls. The controls are ordinary tools. They let a suite trigger
// behaviour that no request of the protocol can trigger.
//
//	conformance -addr 127.0.0.1:8080 -controls
//
// Start reading at fixture.go, which builds a generation of the server. controls.go contains the tools. A control only
// triggers an action, which the runtime performs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

// shutdownTime limits an orderly shutdown. It exceeds the 6 s that http.Server.Shutdown waits for a connection without
// a request.
const shutdownTime = 8 * time.Second

type options struct {
	addr, db, anonymousAs, tokens string
	controls                      bool
	cadence, heartbeat, gcWindow  time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func parse(argv []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("conformance", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.addr, "addr", "127.0.0.1:0", "address to listen on; MCP is served at /mcp")
	fs.BoolVar(&o.controls, "controls", false, "offer the diagnostic controls as tools; only on a loopback address")
	fs.DurationVar(&o.cadence, "cadence", 750*time.Millisecond, "time between two events")
	fs.DurationVar(&o.heartbeat, "heartbeat", 5*time.Second, "heartbeat interval of streams")
	fs.StringVar(&o.db, "db", "", "SQLite file; default a fresh temporary one that is removed at the end")
	fs.DurationVar(&o.gcWindow, "gc-window", 5*time.Second, "how long a webhook subscription without expiry may fail before it is removed")
	fs.StringVar(&o.anonymousAs, "anonymous-as", "conformance", "principal of callers without credentials; empty for none")
	fs.StringVar(&o.tokens, "tokens", "", "JSON file with an object of bearer token to principal")
	if err := fs.Parse(argv); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.cadence <= 0 {
		return o, errors.New("-cadence must be positive")
	}
	if o.controls && !loopback(o.addr) {
		return o, fmt.Errorf("-controls are refused on %s: they would let strangers steer the server; listen on a loopback address", o.addr)
	}
	return o, nil
}

// loopback reports whether a listen address is reachable only from this machine.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func run(ctx context.Context, o options, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	if o.db == "" {
		dir, err := os.MkdirTemp("", "mcpe-conformance-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.db = filepath.Join(dir, "events.db")
	}
	kept, err := sqlite.Open(ctx, o.db, sqlite.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	authenticate, err := authentication(o.tokens)
	if err != nil {
		return err
	}
	f := newFixture(o, kept, log)
	if err := f.start(ctx); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", o.addr)
	if err != nil {
		return errors.Join(err, f.stop())
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", authenticate(f))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	fmt.Fprintf(stderr, "conformance: listening on http://%s/mcp\n", ln.Addr())
	served := make(chan error, 1)
	go func() { served <- web.Serve(ln) }()
	select {
	case err = <-served:
	case <-ctx.Done():
	}
	err = errors.Join(err, f.stop())
	ending, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if e := web.Shutdown(ending); e != nil {
		err = errors.Join(err, e, web.Close())
	}
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}
