// Command example is an MCP server for a help desk. Any number of instances can share one NATS JetStream cluster behind
// any load balancer:
//
//	example -http 127.0.0.1:8080 -nats nats://127.0.0.1:4222
//
// PUT /tickets/{id} opens a ticket, which emits ticket.created. MCP is served on /mcp, and GET /healthz reports whether
// the store accepts writes. The event type is declared in examples/schemas/tickets.yaml. The file compose.yaml runs the
// example with three nats-servers. The package makes no compatibility promise.
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
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// shutdownTime is the timeout for a graceful shutdown. It exceeds the 6 s that http.Server.Shutdown waits for a
// connection that has not sent a request.
const shutdownTime = 8 * time.Second

// lease is how long other instances wait before they take over from a crashed instance. The crash of a nats-server can
// stall writes for 10 s, and a shorter lease might expire in that time.
const lease = 30 * time.Second

type options struct {
	http, nats string
	monitors   string
	single     bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "example:", err)
		os.Exit(1)
	}
}

func parse(argv []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("example", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.http, "http", "127.0.0.1:8080", "address on which to serve MCP (/mcp) and the desk (/tickets/)")
	fs.StringVar(&o.nats, "nats", os.Getenv("NATS_URL"), "URL of a nats-server, or several separated by commas; default $NATS_URL")
	fs.StringVar(&o.monitors, "monitors", os.Getenv("NATS_MONITORS"), "monitoring URLs of all nats-servers, separated by commas, to check at the start that each syncs before it acknowledges; default $NATS_MONITORS")
	fs.BoolVar(&o.single, "single", false, "one nats-server without a cluster, for development")
	if err := fs.Parse(argv); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.nats == "":
		return o, errors.New("give -nats or set NATS_URL")
	}
	return o, nil
}

// run serves requests until ctx is done.
func run(ctx context.Context, o options, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	settings := jetstream.Options{Single: o.single, Logger: log}
	if o.monitors != "" {
		settings.Monitors = strings.Split(o.monitors, ",")
	}
	kept, err := jetstream.Open(ctx, o.nats, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	srv := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "0.1.0"}, nil)
	es, err := server.New(srv, server.Options{
		Store: kept, NextPoll: time.Second, Replicas: replicas.New(replicas.Options{Lease: lease}), Logger: log})
	if err != nil {
		return err
	}
	created, err := ticketsserver.RegisterTicketCreated(es, ticketsserver.TicketCreatedHooks{})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", transport.NewHandler(es, transport.HandlerOptions{}))
	mux.Handle("PUT /tickets/{id}", transport.SameOrigin(&desk{created, log}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := kept.Ping(r.Context()); err != nil {
			http.Error(w, "the store does not answer", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	ln, err := net.Listen("tcp", o.http)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	fmt.Fprintf(stderr, "example: listening on http://%s\n", ln.Addr())
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(ln) }()
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	// End streams first, because http.Server.Shutdown waits for open requests.
	ending, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err = errors.Join(err, es.Shutdown(ending))
	if e := web.Shutdown(ending); e != nil {
		err = errors.Join(err, e, web.Close())
	}
	return err
}

// A desk opens tickets.
type desk struct {
	created *ticketsserver.TicketCreatedEmitter
	log     *slog.Logger
}

// maxTicket is the maximum size in bytes of a ticket's JSON.
const maxTicket = 64 << 10

// ServeHTTP opens the ticket named in the path. A caller that receives no response can retry with the same ticket on
// any instance, because the ticket's id determines the event's id.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var t struct {
		Title    string           `json:"title"`
		Severity tickets.Severity `json:"severity"`
		OpenedAt events.Time      `json:"openedAt"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxTicket)).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id := r.PathValue("id")
	err := d.created.Emit(r.Context(), tickets.TicketCreatedPayload{TicketID: id, Title: t.Title, Severity: t.Severity, OpenedAt: t.OpenedAt},
		events.WithID("ticket-"+id))
	switch {
	case errors.Is(err, events.ErrInvalidPayload), errors.Is(err, events.ErrEventID), errors.Is(err, events.ErrIDReused):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		d.log.Warn("a ticket was not opened", "error", err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
	default:
		w.WriteHeader(http.StatusCreated)
	}
}
