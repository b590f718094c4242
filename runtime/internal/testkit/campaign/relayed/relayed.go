// Package relayed adds an author's database to campaigns. The author's data are stored on a separate PostgreSQL server,
// and a relay (package pgoutbox) moves occurrences emitted there to the logs of an engine. The package also adds faults
// of that server and of the relay. It works with any engine. The package has no compatibility guarantee.
package relayed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign/pgserver"
	"github.com/mcpe-gen/mcpe-gen/runtime/outbox/pgoutbox"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
)

// Counts specifies how often to cause each fault of the relay and of the author's database.
type Counts struct{ Kills, Restarts, Cuts, Terminations, Locks, Hushes int }

// Full returns the counts of a full campaign, scaled to the time available.
func Full(d time.Duration) Counts {
	return Counts{
		Kills: campaign.Scale(40, d), Restarts: campaign.Scale(10, d), Cuts: campaign.Scale(100, d),
		Terminations: campaign.Scale(25, d), Locks: campaign.Scale(10, d), Hushes: campaign.Scale(10, d),
	}
}

// With adds the author's database and its faults to the campaign of an engine. The replicas must use [Open].
func With(s campaign.Settings, counts Counts) campaign.Settings {
	of := s.Start
	s.Transactions = true
	s.Start = func(ctx context.Context, dir string) (campaign.Database, error) {
		d, err := of(ctx, dir)
		if err != nil {
			return nil, err
		}
		return start(ctx, d, counts)
	}
	return s
}

// A database combines an engine's database with the author's database.
type database struct {
	campaign.Database
	counts  Counts
	authors *pgserver.Server

	catching sync.Mutex // held while waiting for the relay's next deletion
}

// start adds the author's database to an engine's database. If that fails, it stops the engine's database.
func start(ctx context.Context, of campaign.Database, counts Counts) (_ *database, err error) {
	authors, err := pgserver.Start(campaign.Replicas)
	if err != nil {
		return nil, errors.Join(err, of.Stop())
	}
	d := &database{Database: of, counts: counts, authors: authors}
	if err := authors.Ticketed(ctx); err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	box, err := pgoutbox.Open(ctx, authors.Cluster.URL(), pgoutbox.Options{})
	if err != nil {
		return nil, errors.Join(err, d.Stop())
	}
	box.Close() // it has created its tables
	return d, nil
}

// Stop implements [campaign.Database].
func (d *database) Stop() error { return errors.Join(d.Database.Stop(), d.authors.Stop()) }

// URL implements [campaign.Database]. It returns the URLs of the engine's and the author's database, separated by a
// space.
func (d *database) URL(replica int) string {
	return d.Database.URL(replica) + " " + d.authors.URL(replica)
}

// Open returns a function that opens the store of a replica with open. If the campaign has an author's database (see
// [With]), the function also opens that database.
func Open(open campaign.Open) campaign.Open {
	return func(ctx context.Context, url string, log *slog.Logger) (_ *campaign.Store, err error) {
		of, authors, ok := strings.Cut(url, " ")
		kept, err := open(ctx, of, log)
		if err != nil || !ok {
			return kept, err
		}
		if kept.Authors != nil {
			kept.Authors.Close()
			kept.Authors = nil
		}
		shared, ok := kept.Store.(engine.Shared)
		if !ok {
			return nil, errors.Join(fmt.Errorf("%T cannot be shared", kept.Store), kept.Close())
		}
		box, err := pgoutbox.Open(ctx, authors, pgoutbox.Options{Logger: log})
		if err != nil {
			return nil, errors.Join(err, kept.Close())
		}
		if kept.Authors, err = pgxpool.New(ctx, authors); err != nil {
			box.Close()
			return nil, errors.Join(err, kept.Close())
		}
		kept.Outbox, kept.Emit = box.Relay(shared), func(ctx context.Context, tx pgx.Tx, occurrence store.Prepared) error {
			return box.EmitPgx(ctx, tx, occurrence)
		}
		return kept, nil
	}
}

// Waiting implements [campaign.Database].
func (d *database) Waiting(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // the table may be locked
	defer cancel()
	err = d.authors.With(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT count(*) FROM mcpe_outbox.outbox").Scan(&n)
	})
	return n, err
}

// Faults implements [campaign.Database]. Faults of the author's database are not accepted as a reason for repeated
// deliveries.
func (d *database) Faults(c *campaign.Campaign) []campaign.Fault {
	var turn sync.Mutex
	alone := func(f func(context.Context) error) func(context.Context) error {
		return func(ctx context.Context) error {
			turn.Lock()
			defer turn.Unlock()
			return f(ctx)
		}
	}
	return append(d.Database.Faults(c), []campaign.Fault{
		{Name: "relays killed between append and deletion", Count: d.counts.Kills, Do: func(ctx context.Context) error { return d.kill(ctx, c) }},
		{Name: "author's database crashed and restarted", Count: d.counts.Restarts,
			Do: alone(func(context.Context) error { return d.authors.Restart(rand.N(time.Second)) })},
		{Name: "author's connections cut, an answer lost", Count: d.counts.Cuts, Do: func(context.Context) error { d.authors.Cut(); return nil }},
		{Name: "author's backends ended (pg_terminate_backend)", Count: d.counts.Terminations, Do: alone(d.authors.Terminate)},
		{Name: "outbox locked (LOCK TABLE)", Count: d.counts.Locks, Do: alone(func(ctx context.Context) error {
			_, _, _, err := d.authors.Lock(ctx, "mcpe_outbox.outbox", time.Second)
			return err
		})},
		{Name: "author's connections half-open for seconds", Count: d.counts.Hushes, Do: func(context.Context) error { d.authors.Hush(5 * time.Second); return nil }},
	}...)
}

// catchTime is the maximum time without a moved occurrence, as a multiple of the lease.
const catchTime = 10

// catch waits until the relay has appended occurrences and sends the deletion. It withholds the deletion until release
// is called. It locks and returns the relay's slot.
func (d *database) catch(ctx context.Context, c *campaign.Campaign) (s *campaign.Slot, release func(), err error) {
	d.catching.Lock()
	defer d.catching.Unlock()
	for range catchTime {
		s = c.OwnerSlot(ctx, engine.OutboxTopic)
		at, release := d.authors.Trap(s.Number(), "DELETE FROM", ".outbox WHERE id = ANY")
		select {
		case <-at:
			return s, release, nil
		case <-time.After(c.Lease): // another process has become the relay, or a database is unavailable
		}
		release()
		s.Unlock()
	}
	return nil, nil, fmt.Errorf("nothing was moved within %v", catchTime*c.Lease)
}

// kill kills the relay after it has appended occurrences and before it deletes them. When the next relay appends the
// same entries, the log recognizes them by their IDs.
func (d *database) kill(ctx context.Context, c *campaign.Campaign) error {
	s, release, err := d.catch(ctx, c)
	if err != nil {
		return err
	}
	defer s.Unlock()
	return c.Kill(ctx, s, release)
}
