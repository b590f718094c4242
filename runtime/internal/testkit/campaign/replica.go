package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/admin"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign/next"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign/next/nextserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/operator"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/callbacks"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/webhooks"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/transport"
)

// heartbeat is the heartbeat interval. It is short, so that clients quickly abandon streams of a suspended process.
const heartbeat = time.Second

// replicaOptions contains the flags of a replica's process.
type replicaOptions struct {
	name, addr, database, source, callbacks string
	lease                                   time.Duration
	next                                    bool
}

func (o *replicaOptions) args() []string {
	args := []string{"replica", "-name", o.name, "-addr", o.addr, "-database", o.database, "-lease", o.lease.String(),
		"-source", o.source, "-callbacks", o.callbacks}
	if o.next {
		args = append(args, "-next")
	}
	return args
}

// ServeReplica runs a replica in this process. args are the command-line arguments after "replica".
func ServeReplica(args []string, open Open) error {
	var o replicaOptions
	fs := flag.NewFlagSet("replica", flag.ContinueOnError)
	fs.StringVar(&o.name, "name", "", "name in logs and leases")
	fs.StringVar(&o.addr, "addr", "", "address to listen on")
	fs.StringVar(&o.database, "database", "", "address of the store")
	fs.DurationVar(&o.lease, "lease", 0, "how long other replicas wait for a dead one")
	fs.BoolVar(&o.next, "next", false, "run as the next build, whose schemas have an additional member")
	fs.StringVar(&o.source, "source", "", "source address of webhook deliveries")
	fs.StringVar(&o.callbacks, "callbacks", "", "origin of the receivers; empty for no webhooks")
	if err := fs.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return o.serve(ctx, open)
}

func (o *replicaOptions) serve(ctx context.Context, open Open) (err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	kept, err := open(ctx, o.database, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.Close()) }()
	so := server.Options{
		Operators: operators.New(),
		Store:     kept.Store, Outbox: kept.Outbox, Heartbeat: heartbeat, NextPoll: 200 * time.Millisecond, Retention: server.Retention{MaxCount: -1},
		Replicas: replicas.New(replicas.Options{Name: o.name, Lease: o.lease}), Logger: log,
	}
	if o.callbacks != "" {
		so.Webhooks = webhooks.New(o.webhooks())
	}
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1"}, nil), so)
	if err != nil {
		return err
	}
	desk := &desk{store: kept}
	if desk.created, err = register(es, o.next); err != nil {
		return err
	}
	verify := func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	mux := http.NewServeMux()
	handler := transport.NewHandler(es, transport.HandlerOptions{})
	mux.Handle("/mcp", auth.RequireBearerToken(verify, nil)(handler))
	mux.HandleFunc("POST /emit", desk.emit)
	if kept.Authors != nil {
		mux.HandleFunc("POST /transaction", desk.transaction)
	}
	operators, err := admin.NewHandler(es, admin.Options{Hosts: []string{"127.0.0.1"}, Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(*http.Request) (string, error) { return "operator", nil }})
	if err != nil {
		return err
	}
	mux.Handle("/ops/", http.StripPrefix("/ops", operators))
	mux.HandleFunc("POST /gap", func(w http.ResponseWriter, r *http.Request) { // not part of the operators' API
		_, err := es.Admin().RaiseGap(r.Context(), operator.Target{ID: r.URL.Query().Get("id")})
		desk.answer(w, err)
	})
	ln, err := net.Listen("tcp", o.addr)
	if err != nil {
		return err
	}
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(ln) }()
	fmt.Fprintln(os.Stderr, listening, ln.Addr())
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	err = errors.Join(err, es.Shutdown(ending))
	if web.Shutdown(ending) != nil { // an operator's request waits for a store that takes no writes
		err = errors.Join(err, web.Close())
	}
	return err
}

// webhooks returns the options for delivering to the campaign's receivers. Each replica uses a different source
// address, by which a receiver identifies it.
func (o *replicaOptions) webhooks() webhooks.Options {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(o.source)}}
	w := webhooks.Options{}
	w.Callbacks = callbacks.Options{AllowOrigins: []string{o.callbacks}, DialContext: dialer.DialContext}
	w.Retry.Schedule = []time.Duration{0, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second,
		5 * time.Second, 10 * time.Second}
	w.MinTTL, w.Quota.PerPrincipal, w.Verify.Budget = time.Second, quota, 1<<20
	w.Attempts.PerSubscription = 2000 // an operator sends events again that came seconds ago
	w.Retry.Suspend.Min = 1 << 30     // receivers fail intentionally, and their subscriptions must not be suspended
	return w
}

// A ticket is the payload that the campaign emits.
type ticket struct {
	ID       string      `json:"id"` // also the eventId, unless it is emitted in a transaction
	Title    string      `json:"title"`
	Severity string      `json:"severity"`
	Opened   events.Time `json:"opened"`
	// Team is a member that only the next build supports.
	Team string `json:"team,omitempty"`
}

// errTeam rejects a ticket that this build cannot emit completely. Data with the same ID must always be identical.
var errTeam = errors.New("this build knows no team")

// created emits ticket.created with the schema of one build.
type created struct {
	emit    func(ctx context.Context, t ticket) error
	prepare func(ctx context.Context, t ticket) (store.Prepared, error)
}

func register(es *server.Server, build bool) (created, error) {
	if build {
		e, err := nextserver.RegisterTicketCreated(es, nextserver.TicketCreatedHooks{})
		payload := func(t ticket) next.TicketCreatedPayload {
			p := next.TicketCreatedPayload{TicketID: t.ID, Title: t.Title,
				Severity: next.Severity(t.Severity), OpenedAt: t.Opened}
			if t.Team != "" {
				p.Team = &t.Team
			}
			return p
		}
		return created{
			func(ctx context.Context, t ticket) error { return e.Emit(ctx, payload(t), events.WithID(t.ID)) },
			func(ctx context.Context, t ticket) (store.Prepared, error) {
				return server.Prepare(ctx, e, payload(t)) // the transaction ensures that it is emitted only once
			},
		}, err
	}
	e, err := ticketsserver.RegisterTicketCreated(es, ticketsserver.TicketCreatedHooks{})
	payload := func(t ticket) tickets.TicketCreatedPayload {
		return tickets.TicketCreatedPayload{TicketID: t.ID, Title: t.Title,
			Severity: tickets.Severity(t.Severity), OpenedAt: t.Opened}
	}
	return created{
		func(ctx context.Context, t ticket) error {
			if t.Team != "" {
				return errTeam
			}
			return e.Emit(ctx, payload(t), events.WithID(t.ID))
		},
		func(ctx context.Context, t ticket) (store.Prepared, error) {
			if t.Team != "" {
				return nil, errTeam
			}
			return server.Prepare(ctx, e, payload(t))
		},
	}, err
}

// A desk opens tickets.
type desk struct {
	store   *Store
	created created
}

// emit emits the ticket in the request body. It responds with status 200 if the emit succeeds.
func (d *desk) emit(w http.ResponseWriter, r *http.Request) {
	var t ticket
	if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.answer(w, d.created.emit(r.Context(), t))
}

// transaction inserts the tickets in the request body and emits them in the same transaction. It skips tickets from an
// earlier attempt that succeeded, because the response may have been lost.
func (d *desk) transaction(w http.ResponseWriter, r *http.Request) {
	var all []ticket
	if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	d.answer(w, pgx.BeginFunc(r.Context(), d.store.Authors, func(tx pgx.Tx) error {
		for _, t := range all {
			tag, err := tx.Exec(r.Context(), "INSERT INTO campaign_tickets (id) VALUES ($1) ON CONFLICT DO NOTHING", t.ID)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				continue
			}
			occurrence, err := d.created.prepare(r.Context(), t)
			if err != nil {
				return err
			}
			if err := d.store.Emit(r.Context(), tx, occurrence); err != nil {
				return err
			}
		}
		hold, _ := time.ParseDuration(r.URL.Query().Get("hold")) // so that other transactions commit first
		Sleep(r.Context(), hold)
		return nil
	}))
}

func (d *desk) answer(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
	case errors.Is(err, events.ErrIDReused), errors.Is(err, events.ErrInvalidPayload):
		http.Error(w, err.Error(), http.StatusConflict)
	default:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	}
}
