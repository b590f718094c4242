package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets/ticketsserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// A desk opens tickets.
type desk struct {
	db      *pgxpool.Pool
	events  *postgres.Store
	created *ticketsserver.TicketCreatedEmitter
	log     *slog.Logger
}

// deskLock is the key of the lock that prevents several processes from creating the table concurrently.
const deskLock = 7241

// prepare creates the desk's table.
func (d *desk) prepare(ctx context.Context) error {
	return pgx.BeginFunc(ctx, d.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", deskLock); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS tickets
			(id text PRIMARY KEY, title text NOT NULL, severity text NOT NULL)`)
		return err
	})
}

// maxTicket is the maximum size of a ticket's JSON in bytes.
const maxTicket = 64 << 10

// ServeHTTP opens the ticket in the path. The status is 201 if the ticket is new or 200 if it already exists, so a
// client that did not receive a response can retry with any process.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var t struct {
		Title    string           `json:"title"`
		Severity tickets.Severity `json:"severity"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxTicket)).Decode(&t); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	fresh, err := d.open(r.Context(), tickets.TicketCreatedPayload{
		TicketID: r.PathValue("id"), Title: t.Title, Severity: t.Severity, OpenedAt: events.NewTime(time.Now().UTC())})
	switch {
	case errors.Is(err, events.ErrInvalidPayload), errors.Is(err, events.ErrEventID):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		d.log.Warn("a ticket was not opened", "error", err)
		http.Error(w, "try again", http.StatusServiceUnavailable)
	case fresh:
		w.WriteHeader(http.StatusCreated)
	}
}

// open inserts the ticket and emits its event in one transaction.
func (d *desk) open(ctx context.Context, t tickets.TicketCreatedPayload) (fresh bool, err error) {
	// Validate before any write.
	occurrence, err := server.Prepare(ctx, d.created, t, events.WithID("ticket-"+t.TicketID))
	if err != nil {
		return false, err
	}
	err = pgx.BeginFunc(ctx, d.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "INSERT INTO tickets (id, title, severity) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
			t.TicketID, t.Title, string(t.Severity))
		if err != nil {
			return err
		}
		if fresh = tag.RowsAffected() == 1; !fresh {
			return nil
		}
		return d.events.EmitPgx(ctx, tx, occurrence)
	})
	return fresh, err
}
