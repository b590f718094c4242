// Command postgres runs the campaign with servers on one PostgreSQL server. Run it with make cluster. The PostgreSQL
// server crashes, becomes slow, locks tables, refuses connections, and has its connections cut or silenced. See package
// campaign.
package main

import (
	"context"
	"flag"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign/relayed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

func main() {
	relay := flag.Bool("relay", false, "keep the author's data in another PostgreSQL server, with an outbox and a relay (OB-1 to OB-5)")
	campaign.Main(func(d time.Duration) campaign.Settings {
		if *relay {
			return relayed.With(settings(d, fullFaults(d).forRelay()), relayed.Full(d))
		}
		return settings(d, fullFaults(d))
	}, relayed.Open(open))
}

// settings returns the settings of a full campaign with the given database faults.
func settings(d time.Duration, f faults) campaign.Settings {
	s := campaign.Full(d)
	s.Start = func(ctx context.Context, _ string) (campaign.Database, error) { return start(ctx, f) }
	return s
}

// open opens a replica's store. The author's data are stored in the same database.
func open(ctx context.Context, url string, log *slog.Logger) (*campaign.Store, error) {
	kept, err := postgres.Open(ctx, url, postgres.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	authors, err := pgxpool.New(ctx, url)
	if err != nil {
		kept.Close()
		return nil, err
	}
	return &campaign.Store{Store: kept, Authors: authors, Emit: func(ctx context.Context, tx pgx.Tx, occurrence store.Prepared) error {
		return kept.EmitPgx(ctx, tx, occurrence)
	}}, nil
}
