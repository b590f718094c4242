// Command consumer pages people about incidents. It does not lose an event if it, the server or the pager fails:
//
//	MCP_URL=https://example.com/mcp PAGER_URL=https://pager.example.com/calls consumer
//
// It stores its position and its dead letters in consumer.db in the working directory. While it is stopped, `mcpe-ops
// deadletters` lists, retries and drops them. See docs/consuming.md.
//
// It is a separate module with the imports of an external program: generated types, the client and a store. A test
// counts this file's lines, to keep consumers short.
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
	"github.com/mcpe-gen/mcpe-gen/examples/generated/incidents/incidentsclient"
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
		incidentsclient.HandleIncidentCreated(incidents.IncidentCreatedArguments{}, func(ctx context.Context, ev *incidents.IncidentCreatedEvent) error {
			return call(ctx, ev.ID, fmt.Sprintf("%s is a new %s", ev.Data.IncidentID, ev.Data.Severity))
		}),
		incidentsclient.HandleIncidentUpdated(incidents.IncidentUpdatedArguments{}, func(ctx context.Context, ev *incidents.IncidentUpdatedEvent) error {
			return call(ctx, ev.ID, fmt.Sprintf("%s has changed %d times", ev.Data.IncidentID, client.BurstOf(ctx, ev).Count))
		}, client.WithCoalescing(client.Coalescing{Quiet: time.Second})),
		incidentsclient.HandleIncidentDigest(incidents.IncidentDigestArguments{}, func(ctx context.Context, ev *incidents.IncidentDigestEvent) error {
			if len(ev.Data.Open) == 0 {
				return nil
			}
			return call(ctx, ev.ID, fmt.Sprintf("%d incidents are P1", ev.Data.Open["P1"]))
		}))
}
