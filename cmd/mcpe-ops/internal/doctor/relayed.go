package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
	"github.com/mcpe-gen/mcpe-gen/internal/pglock"
)

// These limits apply to the relay. Each step of the relay takes at most 20 s, and PostgreSQL terminates an idle relay
// after 30 s.
const movesWarn, movesFail = 20 * time.Second, time.Minute

// checkRelaySchema checks the schema of an outbox with a relay (package pgoutbox), if it exists. Its events are in
// another store. The owner of the shard /outbox of that store runs the relay, and the doctor of that store reports
// whether there is an owner.
func (p *checker) checkRelaySchema(ctx context.Context, tx pgx.Tx) error {
	var there, ours, use bool
	err := tx.QueryRow(ctx, `SELECT n.oid IS NOT NULL, count(c.oid) FILTER (WHERE c.relname IN ('version', 'outbox', 'rejected')) = 3,
			coalesce(has_schema_privilege(n.oid, 'USAGE'), false)
		FROM (VALUES (1)) AS one LEFT JOIN pg_namespace n ON n.nspname = $1 LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relkind = 'r'
		GROUP BY n.oid`, p.Outbox).Scan(&there, &ours, &use)
	name := pgx.Identifier{p.Outbox}.Sanitize()
	switch {
	case err != nil:
		return err
	case !there:
		return nil
	case !ours:
		p.Add(checkup.Warn, "relay schema", fmt.Sprintf("schema %s holds no outbox", name), "open the outbox once, which creates its tables; if another program uses this schema, set Options.Schema and pass --outbox")
		return nil
	case !use:
		p.Add(checkup.Fail, "relay schema", fmt.Sprintf("the role may not use schema %s", name), "GRANT USAGE on it, see docs/outbox.md; or run doctor as the servers' role")
		return nil
	}
	p.Add(checkup.OK, "relay schema", name, "")
	for _, check := range []func(context.Context, pgx.Tx) error{p.checkRelayRights, p.checkRelayPending, p.checkRelayHolder} {
		err = errors.Join(err, pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return check(ctx, tx) }))
	}
	return err
}

// checkRelayRights reports whether the role may relay or only emit.
func (p *checker) checkRelayRights(ctx context.Context, tx pgx.Tx) error {
	role, lacking, err := missingRights(ctx, tx, p.Outbox)
	if err != nil {
		return err
	}
	var emits bool
	err = tx.QueryRow(ctx, `SELECT bool_and(CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, 'USAGE') ELSE has_table_privilege(c.oid, 'INSERT') END)
		FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname IN ('outbox', 'outbox_id_seq')`, p.Outbox).Scan(&emits)
	switch {
	case err != nil:
		return err
	case len(lacking) == 0:
		p.Add(checkup.OK, "relay rights", fmt.Sprintf("role %s needs no further rights for relaying and emitting", role), "")
	case emits:
		p.Add(checkup.Warn, "relay rights", fmt.Sprintf("role %s may emit, but lacks for relaying %s", role, strings.Join(lacking, "; ")),
			"GRANT them if a server with a relay uses this role; one whose transactions emit needs no more")
	default:
		p.Add(checkup.Fail, "relay rights", fmt.Sprintf("role %s lacks %s", role, strings.Join(lacking, "; ")),
			"GRANT them, or for a role that only emits USAGE on the schema and on outbox_id_seq, and INSERT on outbox; or run doctor as the servers' role")
	}
	return nil
}

// checkRelayPending reports the pending and invalid rows if the role may read them.
func (p *checker) checkRelayPending(ctx context.Context, tx pgx.Tx) error {
	var reads bool
	err := tx.QueryRow(ctx, `SELECT bool_and(has_table_privilege(c.oid, 'SELECT')) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE n.nspname = $1 AND c.relname IN ('outbox', 'rejected')`, p.Outbox).Scan(&reads)
	if err != nil || !reads { // the check of rights reports it
		return err
	}
	err = p.checkPending(ctx, tx, "relay outbox", p.Outbox, "see whether the shard /outbox has an owner in the store of the events, with its doctor, and the owner's log for the reason; "+
		"while that store is away rows wait, and nothing is lost")
	if err == nil {
		err = p.checkRejectedIn(ctx, tx, "relay rejected", p.Outbox)
	}
	return err
}

// checkRelayHolder reports which process currently relays. It is the holder of the relays' advisory lock.
func (p *checker) checkRelayHolder(ctx context.Context, tx pgx.Tx) error {
	key := uint64(pglock.OutboxRelay(p.Outbox))
	var pid int
	var since *float64
	var who, state *string
	err := tx.QueryRow(ctx, `SELECT l.pid, extract(epoch FROM clock_timestamp() - a.xact_start)::float8, a.usename::text, a.state
		FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
		WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.classid::bigint = $1 AND l.objid::bigint = $2
			AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`, int64(key>>32), int64(key&0xffffffff)).Scan(&pid, &since, &who, &state)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		p.Add(checkup.OK, "relay", "no session is moving rows now", "")
		return nil
	case err != nil:
		return err
	case since == nil:
		p.Add(checkup.OK, "relay", fmt.Sprintf("pid %d is moving rows", pid), "")
		return nil
	}
	held := seconds(*since)
	p.Add(checkup.Worse(held, movesWarn, movesFail), "relay", fmt.Sprintf("pid %d (%s, %s) has been moving rows for %v", pid, *who, *state, held.Round(time.Second)),
		"no other server can relay meanwhile: see whether its process stands still, or pg_terminate_backend(pid); nothing is lost")
	return nil
}
