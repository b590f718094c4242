package pgoutbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/outbox/pgoutbox"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/operators"
	"github.com/mcpe-gen/mcpe-gen/runtime/server/replicas"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

type arguments struct{}

type payload struct {
	TicketID string `json:"ticketId"`
}

// Generated code has such a description for each event type of an event file.
var ticketCreated = events.Type[arguments, payload]{Info: events.Info{
	Name:        "ticket.created",
	Description: "Fires when a ticket is created.",
	InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false}`),
	PayloadSchema: json.RawMessage(
		`{"type":"object","properties":{"ticketId":{"type":"string"}},"required":["ticketId"],"additionalProperties":false}`),
}}

// The events are in a separate database, and the tickets in the author's. The program runs with both, as EVENTS_URL
// and DATABASE_URL; a store of package jetstream is used in the same way.
func Example() {
	if err := createTicket(context.Background(), "T-1"); err != nil {
		fmt.Println(err)
	}
}

func createTicket(ctx context.Context, id string) error {
	st, err := postgres.Open(ctx, os.Getenv("EVENTS_URL"), postgres.Options{Schema: "example_events"})
	if err != nil {
		return err
	}
	defer st.Close()
	box, err := pgoutbox.Open(ctx, os.Getenv("DATABASE_URL"), pgoutbox.Options{Schema: "example_outbox"})
	if err != nil {
		return err
	}
	defer box.Close()
	srv := mcp.NewServer(&mcp.Implementation{Name: "tickets", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Store: st, Replicas: replicas.New(replicas.Options{}), Operators: operators.New(), Outbox: box.Relay(st), Retention: server.Retention{MaxAge: day}})
	if err != nil {
		return err
	}
	defer es.Shutdown(ctx)
	created, err := server.Register(es, ticketCreated, server.Hooks[arguments, payload]{})
	if err != nil {
		return err
	}
	tail, err := es.Admin().Tail("ticket.created")
	if err != nil {
		return err
	}

	occurrence, err := server.Prepare(ctx, created, payload{TicketID: id})
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		// Insert the ticket here.
		return box.EmitPgx(ctx, tx, occurrence)
	})
	if err != nil {
		return err
	}
	seen, _, err := tail.Next(ctx)
	if err != nil {
		return err
	}
	fmt.Println(string(seen[0].Data))
	return nil
}
