// Command tickets is an MCP server for a help desk. Any number of replicas can share one PostgreSQL database behind a
// load balancer:
//
//	tickets -http 127.0.0.1:8080 -database postgres://localhost/desk
//
// PUT /tickets/{id} opens a ticket and emits ticket.created in the same transaction (desk.go), so that either both
// happen or neither. It serves MCP on /mcp. GET /healthz reports whether the process is healthy. The event type is in
// examples/schemas/tickets.yaml.
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
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// shutdownTime limits an orderly shutdown. It exceeds the 6 s that http.Server.Shutdown waits for a connection without
// a request.
const shutdownTime = 8 * time.Second

type options struct {
	http, database string
	lease          time.Duration
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		fmt.Fprintln(os.Stderr, "tickets:", err)
		os.Exit(2)
	}
	if err := run(ctx, o, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "tickets:", err)
		os.Exit(1)
	}
}

func parse(argv []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("tickets", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.http, "http", "127.0.0.1:8080", "address to serve MCP (/mcp) and the desk (/tickets/) on")
	fs.StringVar(&o.database, "database", os.Getenv("DATABASE_URL"), "PostgreSQL's connection string; default $DATABASE_URL")
	fs.DurationVar(&o.lease, "lease", 0, "how long others wait for a process that has died; 0 means 10 s")
	if err := fs.Parse(argv); err != nil {
		return o, err
	}
	switch {
	case fs.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.database == "":
		return o, errors.New("give -database or set DATABASE_URL")
	}
	return o, nil
}

// run serves until ctx ends.
func run(ctx context.Context, o options, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	kept, err := postgres.Open(ctx, o.database, postgres.Options{Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	db, err := pgxpool.New(ctx, o.database)
	if err != nil {
		return err
	}
	defer db.Close()

	srv := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "0.1.0"}, nil)
	es, err := server.New(srv, server.Options{
		Store: kept, NextPoll: time.Second, Replicas: replicas.New(replicas.Options{Lease: o.lease}), Logger: log})
	if err != nil {
		return err
	}
	created, err := ticketsserver.RegisterTicketCreated(es, ticketsserver.TicketCreatedHooks{})
	if err != nil {
		return err
	}
	d := &desk{db: db, events: kept, created: created, log: log}
	if err := d.prepare(ctx); err != nil {
		return err
	}
	mux := http.NewServeMux()
	// Without sessions, clients of MCP's older revisions reach any process.
	mux.Handle("/mcp", transport.NewHandler(es, transport.HandlerOptions{Streamable: &mcp.StreamableHTTPOptions{Stateless: true}}))
	mux.Handle("PUT /tickets/{id}", transport.SameOrigin(d))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	ln, err := net.Listen("tcp", o.http)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	fmt.Fprintf(stderr, "tickets: listening on http://%s\n", ln.Addr())
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
