// Command github is an MCP server with the events of a GitHub repository.
//
// It receives GitHub's own webhooks on POST /github and serves MCP on /mcp (Streamable HTTP, both
// protocol eras) or on stdio:
//
//	github -http 127.0.0.1:8080 -github-secret S -tokens tokens.json
//
// With -db, events and subscriptions survive a restart. -webhooks enables delivery by webhook, -tools adds tools for
// clients that do not support events, and -operators adds an operators' console on /ops/. Probes use /healthz and
// /readyz. The event types are in examples/schemas/github.yaml. The code is in receive.go (GitHub's endpoint),
// payloads.go (GitHub's bodies to typed payloads), webhooks.go (options of webhook delivery) and operators.go (the
// console).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/github/githubserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// shutdownTime limits an orderly shutdown. It exceeds the 6 s that http.Server.Shutdown waits for a connection without
// a request.
const shutdownTime = 8 * time.Second

type options struct {
	http, secret, tokens string
	stdio, tools         bool
	heartbeat            time.Duration
	webhooks             webhookOptions
	operators            operatorOptions
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	if err == nil {
		err = run(ctx, o, os.Stderr)
	} else if errors.Is(err, flag.ErrHelp) {
		return
	} else {
		fmt.Fprintln(os.Stderr, "github:", err)
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "github:", err)
		os.Exit(1)
	}
}

func parse(argv []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("github", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.http, "http", "", "address to serve MCP (/mcp) and GitHub's webhooks (/github) on, for example 127.0.0.1:8080")
	fs.BoolVar(&o.stdio, "stdio", false, "serve MCP on standard input and output")
	fs.StringVar(&o.secret, "github-secret", "", "secret of GitHub's webhooks; without it bodies are not authenticated")
	fs.StringVar(&o.tokens, "tokens", "", "JSON file with an object of bearer token to principal; without it callers are not authenticated")
	fs.BoolVar(&o.tools, "tools", false, "offer tools to clients that do not support events: one that reads each event type, and events_wait")
	fs.DurationVar(&o.heartbeat, "heartbeat", 0, "heartbeat interval of streams; 0 means the default of 15 s")
	o.webhooks.flags(fs)
	o.operators.flags(fs)
	if err := fs.Parse(argv); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.http == "" && !o.stdio:
		return o, errors.New("give -http ADDR, -stdio or both")
	}
	return o, errors.Join(o.webhooks.check(), o.operators.check(o.http))
}

// run serves until ctx ends or, on stdio, until the client disconnects.
func run(ctx context.Context, o options, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	kept, err := o.webhooks.openStore(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	so := server.Options{Store: kept, Operators: operators.New(), Heartbeat: o.heartbeat, NextPoll: time.Second, Logger: log}
	if err := o.webhooks.apply(&so); err != nil {
		return err
	}
	if o.webhooks.on && o.tokens == "" {
		log.Warn("webhooks are on, but without -tokens nobody can own a subscription")
	}
	srv := mcp.NewServer(&mcp.Implementation{Name: "github-events", Version: "0.1.0"}, nil)
	es, err := server.New(srv, so)
	if err != nil {
		return err
	}
	emit, err := register(es)
	if err != nil {
		return err
	}
	if o.tools {
		if err := errors.Join(es.AddReadTools(githubserver.ReadTools()...), es.AddWaitTool()); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var web *http.Server
	failed := make(chan error, 1)
	if o.http != "" {
		mux := http.NewServeMux()
		var hooks http.Handler = &receiver{secret: []byte(o.secret), emit: emit, log: log}
		if o.secret == "" { // without signatures a web page could send events
			hooks = transport.SameOrigin(hooks)
		}
		mux.Handle("/github", hooks)
		mcpHandler, err := withTokens(o.tokens, transport.NewHandler(es, transport.HandlerOptions{}))
		if err != nil {
			return err
		}
		mux.Handle("/mcp", mcpHandler)
		if err := o.operators.mount(mux, es, log); err != nil {
			return err
		}
		ln, err := net.Listen("tcp", o.http)
		if err != nil {
			return err
		}
		web = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
		fmt.Fprintf(stderr, "github: listening on http://%s\n", ln.Addr())
		go func() {
			if err := web.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				failed <- err
				cancel()
			}
		}()
	}
	if o.stdio {
		err = transport.Run(ctx, es, &mcp.StdioTransport{})
		if ctx.Err() != nil || errors.Is(err, io.EOF) {
			err = nil
		}
	} else {
		<-ctx.Done()
	}
	select {
	case e := <-failed:
		err = errors.Join(err, e)
	default:
	}
	return errors.Join(err, shutdown(es, web))
}

// shutdown first ends streams, because http.Server.Shutdown waits for open requests.
func shutdown(es *server.Server, web *http.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err := es.Shutdown(ctx)
	if web != nil {
		if e := web.Shutdown(ctx); e != nil {
			err = errors.Join(err, e, web.Close())
		}
	}
	return err
}

// withTokens returns a handler that requires a bearer token from the file. The subscriptions belong to the token's
// principal.
func withTokens(file string, next http.Handler) (http.Handler, error) {
	if file == "" {
		return next, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var principals map[string]string
	if err := json.Unmarshal(b, &principals); err != nil {
		return nil, fmt.Errorf("%s: want a JSON object of token to principal: %w", file, err)
	}
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		principal, ok := principals[token]
		if !ok {
			return nil, auth.ErrInvalidToken
		}
		return &auth.TokenInfo{UserID: principal}, nil
	}
	// Tokens from a file do not expire. A stream opened with an expiring token would end when the token expires.
	return transport.Challenge(auth.RequireBearerToken(verify, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(next)), nil
}
