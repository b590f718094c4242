package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/examples/generated/tickets"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign/pgserver"
)

// A database is a PostgreSQL server with the store's tables and the author's table.
type database struct {
	*pgserver.Server
	faults faults
}

func start(ctx context.Context, f faults) (*database, error) {
	s, err := pgserver.Start(campaign.Replicas)
	if err != nil {
		return nil, err
	}
	if err := s.Ticketed(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return &database{s, f}, nil
}

// waitOwned waits until every shard has an owner with a lease. It returns an error if that takes longer than the limit.
func (d *database) waitOwned(ctx context.Context, limit time.Duration) error {
	for end := time.Now().Add(limit); ; campaign.Sleep(ctx, 100*time.Millisecond) {
		free := 1
		err := d.With(ctx, func(c *pgx.Conn) error {
			return c.QueryRow(ctx, `SELECT count(*) FROM mcpe.shards s
				WHERE NOT EXISTS (SELECT 1 FROM mcpe.leases l WHERE l.fence = s.fence AND l.expires > clock_timestamp())`).Scan(&free)
		})
		if err == nil && free == 0 || ctx.Err() != nil || time.Now().After(end) {
			return err
		}
	}
}

// Owner implements [campaign.Database].
func (d *database) Owner(ctx context.Context, topic string) (name string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // the table may be locked
	defer cancel()
	err = d.With(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT coalesce((SELECT l.name FROM mcpe.shards s JOIN mcpe.leases l ON l.fence = s.fence
			WHERE s.topic = $1 AND l.expires > clock_timestamp() ORDER BY s.number LIMIT 1), '')`, topic).Scan(&name)
	})
	return name, err
}

// Waiting implements [campaign.Database].
func (d *database) Waiting(ctx context.Context) (n int, err error) {
	err = d.With(ctx, func(c *pgx.Conn) error { return c.QueryRow(ctx, "SELECT count(*) FROM mcpe.outbox").Scan(&n) })
	return n, err
}

// Subscriptions implements [campaign.Database].
func (d *database) Subscriptions(ctx context.Context, principal string) (n int, err error) {
	err = d.With(ctx, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, "SELECT count(*) FROM mcpe.subscriptions WHERE principal = $1", []byte(principal)).Scan(&n)
	})
	return n, err
}

// Log implements [campaign.Database]. Every consumer must receive the tickets in this order (REP-1).
func (d *database) Log(ctx context.Context) (ids []string, err error) {
	err = d.With(ctx, func(conn *pgx.Conn) error {
		var waiting int
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM mcpe.outbox").Scan(&waiting); err != nil || waiting > 0 {
			return errors.Join(err, fmt.Errorf("%d occurrences wait in the outbox", waiting))
		}
		rows, err := conn.Query(ctx, `SELECT e.position, coalesce(convert_from(e.data, 'UTF8')::json ->> 'ticketId', '')
			FROM mcpe.entries e JOIN mcpe.logs l ON l.id = e.log WHERE l.name = $1 ORDER BY e.position`, tickets.TicketCreatedEventName)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var position int64
			var id string
			if err := rows.Scan(&position, &id); err != nil {
				return err
			}
			if ids = append(ids, id); position != int64(len(ids)) {
				return fmt.Errorf("the log has position %d, want %d", position, len(ids))
			}
		}
		return rows.Err()
	})
	return ids, err
}

// Story implements [campaign.Database].
func (d *database) Story(ctx context.Context, path string) string {
	var b strings.Builder
	for _, q := range []string{
		"SELECT to_jsonb(s) - 'secrets' FROM mcpe.subscriptions s WHERE position(convert_to($1, 'UTF8') in url::bytea) > 0",
		"SELECT to_jsonb(s) FROM mcpe.shards s WHERE $1 <> ''",
		"SELECT to_jsonb(s) FROM mcpe.leases s WHERE $1 <> ''",
		"SELECT to_jsonb(s) FROM mcpe.marks s WHERE $1 <> ''",
	} {
		fmt.Fprintln(&b, "  "+q)
		if err := d.With(ctx, func(conn *pgx.Conn) error {
			rows, err := conn.Query(ctx, q, path)
			if err != nil {
				return err
			}
			all, err := pgx.CollectRows(rows, pgx.RowTo[string])
			for _, row := range all {
				fmt.Fprintln(&b, "    "+row)
			}
			return err
		}); err != nil {
			fmt.Fprintln(&b, "    ", err)
		}
	}
	return b.String()
}

// Note implements [campaign.Database].
func (d *database) Note(context.Context) string { return "" }

// Backup implements [campaign.Restorer].
func (d *database) Backup(context.Context) error { return d.Cluster.Dump() }

// Restore implements [campaign.Restorer] as described in docs/postgres.md. It begins new epochs, so webhook
// subscriptions are truncated.
func (d *database) Restore(ctx context.Context) error {
	if err := d.Cluster.Restore(); err != nil {
		return err
	}
	return d.With(ctx, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, "SELECT mcpe.begin_epochs()")
		return err
	})
}
