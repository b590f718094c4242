// Command consumer calls people for what happens to incidents. It loses no event, whatever becomes of it, of the server
// and of the pager in between:
//
//	MCP_URL=https://example.com/mcp PAGER_URL=https://pager.example.com/calls consumer
//
// It keeps its place and its dead letters in consumer.db of the working directory; while it does not run,
// `mcpe-gen deadletters consumer.db` lists, retries and drops them. docs/consuming.md has the rules of it all.
//
// It is a module of its own and imports what a program elsewhere would: generated types, the client and a store. A test
// counts this file's lines, so that a consumer stays as short as this.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents"
	"github.com/mcpe-gen/mcpe-gen/runtime/client"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/sqlite"
)

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := sqlite.Open(ctx, "consumer.db", sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	c, err := client.Connect(ctx, client.HTTP(os.Getenv("MCP_URL"), nil), client.Options{WaitForServer: true})
	if err != nil {
		return err
	}
	defer c.Close()
	return client.Consume(ctx, c, client.ConsumeOptions{Store: store, Workers: 8, MaxTries: 3},
		incidents.HandleIncidentCreated(incidents.IncidentCreatedArguments{}, func(ctx context.Context, ev *incidents.IncidentCreatedEvent) error {
			return call(ctx, ev.ID, fmt.Sprintf("%s is a new %s", ev.Data.IncidentID, ev.Data.Severity))
		}),
		incidents.HandleIncidentUpdated(incidents.IncidentUpdatedArguments{}, func(ctx context.Context, ev *incidents.IncidentUpdatedEvent) error {
			return call(ctx, ev.ID, fmt.Sprintf("%s has changed %d times", ev.Data.IncidentID, client.BurstOf(ctx, ev).Count))
		}, client.WithCoalescing(client.Coalescing{Quiet: time.Second})),
		incidents.HandleIncidentDigest(incidents.IncidentDigestArguments{}, func(ctx context.Context, ev *incidents.IncidentDigestEvent) error {
			if len(ev.Data.Open) == 0 {
				return nil
			}
			return call(ctx, ev.ID, fmt.Sprintf("%d incidents are P1", ev.Data.Open["P1"]))
		}))
}
