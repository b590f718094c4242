// Command relay receives the events of an MCP server by webhook and serves them by poll and push. It is for clients
// that the server cannot reach: programs behind a firewall, on a laptop, or in a browser's sandbox.
//
//	relay -upstream https://events.example/mcp -token T \
//	      -listen :8443 -public-url https://relay.example:8443 -tls-cert cert.pem -tls-key key.pem \
//	      -http 127.0.0.1:8080 -db relay.db
//
// The upstream server reaches the relay at -public-url. Clients of the relay connect to http://ADDR/mcp, where ADDR is
// the value of -http. Without -event, the relay serves every event type of the upstream. With -event NAME or -event
// 'NAME?argument=value', it serves only the given types, with the given subscription arguments. These arguments are the
// only filter: clients of the relay subscribe without arguments.
//
// The relay stores every event in the -db file before it acknowledges the event to the upstream. A killed relay does
// not lose events, and reuses its callbacks after a restart. It forwards eventId, timestamp and data unchanged. If the
// upstream reports a gap, every client with a position before the gap receives truncated. If the upstream terminates a
// type, the relay terminates it with the same reason (CLI-11).
//
// main.go contains the command line, upstream.go receives events, and downstream.go serves them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// shutdownTime limits an orderly shutdown.
const shutdownTime = 10 * time.Second

type options struct {
	upstream, token              string
	listen, publicURL, cert, key string
	http, tokens, db             string
	keep                         time.Duration
	interval                     time.Duration
	selections                   []selection
}

// A selection is an event type to relay with the arguments for the subscription.
type selection struct {
	event string
	args  url.Values
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "relay:", err)
		os.Exit(1)
	}
}

// parse parses the command line.
func parse(argv []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("relay", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.upstream, "upstream", "", "URL of the server to relay, on Streamable HTTP")
	fs.StringVar(&o.token, "token", "", "bearer token for the upstream; webhooks need a principal")
	fs.StringVar(&o.listen, "listen", "", "address to receive webhooks on, for example :8443")
	fs.StringVar(&o.publicURL, "public-url", "", "https URL at which the upstream reaches -listen; default https:// and the address listened on")
	fs.StringVar(&o.cert, "tls-cert", "", "certificate file for -listen; without one something in front has to end TLS")
	fs.StringVar(&o.key, "tls-key", "", "key file of -tls-cert")
	fs.StringVar(&o.http, "http", "127.0.0.1:8080", "address to serve MCP (/mcp) on")
	fs.StringVar(&o.tokens, "tokens", "", "JSON file with an object of bearer token to principal; without it the relay's clients are not authenticated")
	fs.StringVar(&o.db, "db", "relay.db", "SQLite file for events, cursors and callbacks")
	fs.DurationVar(&o.keep, "keep", 24*time.Hour, "how long events are kept for clients that are away")
	fs.DurationVar(&o.interval, "interval", time.Second, "how soon a new event is seen by streams, and what polls are told to wait")
	fs.Func("event", "event type to relay, as NAME or NAME?argument=value&…; may be given several times; default all", func(s string) error {
		sel, err := parseSelection(s)
		o.selections = append(o.selections, sel)
		return err
	})
	if err := fs.Parse(argv); err != nil {
		return o, err
	}
	return o, o.check(fs.Args())
}

func parseSelection(text string) (selection, error) {
	u, err := url.Parse(text)
	if err != nil || u.Path == "" || u.Scheme != "" || u.Host != "" || u.Fragment != "" {
		return selection{}, errors.New("want NAME or NAME?argument=value&…")
	}
	args, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return selection{}, err
	}
	return selection{event: u.Path, args: args}, nil
}

func (o *options) check(rest []string) error {
	seen := map[string]bool{}
	for _, s := range o.selections {
		if seen[s.event] {
			return fmt.Errorf("-event %s is given twice", s.event)
		}
		seen[s.event] = true
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case o.upstream == "":
		return errors.New("-upstream is missing")
	case o.listen == "":
		return errors.New("-listen is missing")
	case (o.cert == "") != (o.key == ""):
		return errors.New("-tls-cert and -tls-key go together")
	case o.keep <= 0 || o.interval <= 0:
		return errors.New("-keep and -interval must be positive")
	}
	return nil
}

// run relays until ctx ends or a fatal error occurs.
func run(ctx context.Context, o options, stderr io.Writer) error {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	up, err := connect(ctx, o, log)
	if err != nil {
		return ignoreCanceled(ctx, err)
	}
	down, err := serve(ctx, o, up, log, cancel)
	if err != nil {
		return ignoreCanceled(ctx, errors.Join(err, up.close()))
	}
	fmt.Fprintf(stderr, "relay: receiving on %s, listening on http://%s\n", up.publicURL, down.addr)
	if err := up.subscribe(ctx, cancel, down.terminate); err != nil {
		cancel(err)
	} else {
		for _, r := range up.relayed {
			fmt.Fprintf(stderr, "relay: subscribed to %s by %s\n", r.descriptor.Name, r.sub.Subscription().Mode())
		}
	}
	<-ctx.Done()
	err = context.Cause(ctx)
	if errors.Is(err, context.Canceled) {
		err = nil // a signal
	}
	return errors.Join(err, down.close(), up.close())
}

// ignoreCanceled returns err, or nil if a signal has ended ctx.
func ignoreCanceled(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
