package postgres_test

import (
	"context"
	"encoding/json"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/server"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// All replicas of a server open the same database.
func ExampleOpen() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	srv := mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil)
	es, err := server.New(srv, server.Options{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer es.Shutdown(ctx)
	// Register event types, then serve with package transport.
}

// An occurrence is emitted if and only if the author's transaction commits.
func ExampleStore_EmitPgx() {
	ctx := context.Background()
	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"), postgres.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	es, err := server.New(mcp.NewServer(&mcp.Implementation{Name: "incidents", Version: "1"}, nil), server.Options{Store: store})
	if err != nil {
		log.Fatal(err)
	}
	defer es.Shutdown(ctx)
	type incident struct {
		ID string `json:"id"`
	}
	created, err := server.Register(es, events.Type[struct{}, incident]{Info: events.Info{
		Name: "incident.created", InputSchema: json.RawMessage(`{"type":"object"}`), PayloadSchema: json.RawMessage(`{"type":"object"}`),
	}}, server.Hooks[struct{}, incident]{})
	if err != nil {
		log.Fatal(err)
	}

	db, err := pgx.Connect(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close(ctx)
	err = pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `INSERT INTO incidents (id) VALUES ($1)`, "INC-1"); err != nil {
			return err
		}
		prepared, err := server.Prepare(ctx, created, incident{ID: "INC-1"})
		if err != nil {
			return err
		}
		return store.EmitPgx(ctx, tx, prepared)
	})
	if err != nil {
		log.Print(err)
	}
}
