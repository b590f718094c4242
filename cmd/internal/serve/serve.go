// Package serve implements the trial server of `mcpe-gen serve`. It serves event files without generated code, to try
// them out and to develop clients. It is not meant for production. It stores nothing, accepts a single token and trusts
// everything that is posted to it.
//
// Start with [Run]. types.go turns event files into event types, http.go and stdio.go serve them, emit.go accepts
// events by POST, feed.go generates and replays events, and faults.go injects faults on request.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/sample"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/memory"
)

// Options configures the trial server.
type Options struct {
	// Sets are event files that were loaded without errors.
	Sets []*schema.Set
	// HTTP is the address to listen on, or a loopback port. If it is empty, the server uses standard input and output.
	HTTP string
	// Token is the bearer token that gives callers a principal. Without it, the server does not offer webhooks.
	Token string
	// Dev allows callbacks on loopback. CallbackCA is a PEM file with additional root certificates for callbacks.
	Dev        bool
	CallbackCA string
	// Sample is the interval between generated occurrences. If it is 0, none are generated.
	Sample time.Duration
	// Replay is a file in the format of `listen --json`, which is emitted at Speed times the original pace.
	Replay string
	Speed  float64
	// Drop is the fraction of polls, streams and subscriptions to cut off, from 0 to 1. Delay is added to each request.
	Drop  float64
	Delay time.Duration

	Stdin  io.ReadCloser
	Stdout io.WriteCloser
	// Stderr receives errors. Unless Quiet is set, it also receives messages about events.
	Stderr io.Writer
	Quiet  bool
}

// Address returns the address to listen on. A bare port is on loopback.
func (o Options) Address() string {
	if port, ok := strings.CutPrefix(o.HTTP, ":"); ok || o.HTTP != "" && !strings.Contains(o.HTTP, ":") {
		if !ok {
			port = o.HTTP
		}
		return net.JoinHostPort("127.0.0.1", port)
	}
	return o.HTTP
}

// Check returns an error if the options are invalid.
func (o Options) Check() error {
	switch {
	case o.HTTP == "" && (o.Token != "" || o.Dev || o.CallbackCA != ""):
		return cli.Refusef("--token, --dev and --callback-ca go with --http: nobody has a name on standard input and output")
	case o.Token == "" && (o.Dev || o.CallbackCA != ""):
		return cli.Refusef("--dev and --callback-ca go with --token: there are webhooks only for somebody")
	case o.Sample < 0 || o.Sample > 0 && o.Sample < minSample:
		return cli.Refusef("--sample %v: must be %v or more", o.Sample, minSample)
	case !(o.Speed >= minSpeed && o.Speed <= maxSpeed):
		return cli.Refusef("--speed %v: must be from %v to %d", o.Speed, minSpeed, maxSpeed)
	case !(o.Drop >= 0 && o.Drop < 1):
		return cli.Refusef("--drop %v: must be at least 0 and below 1", o.Drop)
	case o.Delay < 0 || o.Delay > maxDelay:
		return cli.Refusef("--delay %v: must be from 0 to %v", o.Delay, maxDelay)
	}
	if o.HTTP == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(o.Address())
	if err != nil {
		return cli.Refusef("--http %s: must be a port or HOST:PORT", o.HTTP)
	}
	if a, err := netip.ParseAddr(host); o.Token == "" && host != "localhost" && (err != nil || !a.IsLoopback()) {
		return cli.Refusef("--http %s: others can reach it, so --token is needed; a port alone stays on this machine", o.HTTP)
	}
	return nil
}

// Limits of options.
const (
	minSample    = 10 * time.Millisecond
	maxDelay     = time.Minute
	minSpeed     = 0.001
	maxSpeed     = 1_000_000
	shutdownTime = 5 * time.Second
)

// A trial is one run.
type trial struct {
	o     Options
	es    *server.Server
	types []*eventType
	// typesByName maps the name of an event type to the type.
	typesByName map[string]*eventType
	tools       []readtool.Tool
	samples     sample.Maker
	lines       sync.Mutex
}

// Run serves until ctx is done or standard input ends. It returns nil in both cases.
func Run(ctx context.Context, o Options) error {
	if err := o.Check(); err != nil {
		return err
	}
	t := &trial{o: o, typesByName: map[string]*eventType{}}
	srv := mcp.NewServer(&mcp.Implementation{Name: "mcpe-gen serve", Version: "trial"}, nil)
	webhooks, err := o.webhooks()
	if err != nil {
		return err
	}
	t.es, err = server.New(srv, server.Options{Store: memory.New(), NextPoll: time.Second, Heartbeat: 2 * time.Second,
		Webhooks: webhooks, Principal: principal,
		Logger: slog.New(slog.NewTextHandler(t, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		return err
	}
	defer t.shutdown()
	if err := t.registerTypes(); err != nil {
		return err
	}
	var replay *replay
	if o.Replay != "" {
		if replay, err = openReplay(o.Replay); err != nil {
			return err
		}
		defer replay.close()
	}
	feeding, cancel := context.WithCancel(ctx)
	var feeds sync.WaitGroup
	defer feeds.Wait()
	defer cancel()
	begin := func() {
		if o.Sample > 0 {
			feeds.Go(func() { t.emitSamples(feeding) })
		}
		if replay != nil {
			feeds.Go(func() { t.replayEvents(feeding, replay) })
		}
	}
	if o.HTTP == "" {
		err = t.serveStdio(ctx, begin)
	} else {
		err = t.serveHTTP(ctx, begin)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

func (t *trial) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	if err := t.es.Shutdown(ctx); err != nil {
		t.warn("shutting down: %v", err)
	}
}

// Write writes a line of the server's log to Stderr.
func (t *trial) Write(b []byte) (int, error) {
	t.lines.Lock()
	defer t.lines.Unlock()
	return t.o.Stderr.Write(b)
}

// warn prints a warning, and say prints a message.
func (t *trial) warn(format string, args ...any) { fmt.Fprintf(t, "mcpe-gen: "+format+"\n", args...) }

func (t *trial) printMessage(format string, args ...any) {
	if !t.o.Quiet {
		t.warn(format, args...)
	}
}

// summary describes the number of event types in words.
func (t *trial) summary() string {
	if len(t.types) == 1 {
		return "1 event type"
	}
	return fmt.Sprintf("%d event types", len(t.types))
}
