package doctor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
	"github.com/mcpe-gen/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// Thresholds of the checks.
const (
	waitsWarn, waitsFail       = 5 * time.Second, time.Minute // of the oldest row of the outbox
	snapshotWarn, snapshotFail = 5 * time.Minute, time.Hour   // of the oldest snapshot
	skewWarn                   = time.Second
	deadWarn                   = 10_000 // dead rows, unless there are more live ones
	leaseTrips                 = 20     // round trips in the minimum duration of a lease
	trips                      = 5
	countMax                   = 10_000
	minServer                  = 130000
)

// A checker runs the checks on one database.
type checker struct {
	Options
	quoted string // the schema
	usable bool   // the schema exists, and this build supports it
	checkup.Report
}

func (p *checker) in(sql string) string { return withSchema(p.Schema, sql) }

// withSchema replaces each "@" before a "." in a query with the name of a schema.
func withSchema(schema, sql string) string {
	return strings.ReplaceAll(sql, "@.", pgx.Identifier{schema}.Sanitize()+".")
}

// runAll runs all checks, each within its own savepoint. A check that the role may not run or that takes too long is
// reported and does not stop the other checks.
func (p *checker) runAll(ctx context.Context, tx pgx.Tx) error {
	for _, c := range []struct {
		name   string
		schema bool // needs a usable schema
		make   func(context.Context, pgx.Tx) error
	}{
		{"server", false, p.checkServer},
		{"settings", false, p.checkSettings},
		{"connections", false, p.checkConnections},
		{"schema", false, p.checkSchema},
		{"rights", true, p.checkRights},
		{"generation", true, p.checkGeneration},
		{"lease", true, p.checkLeases},
		{"shards", true, p.checkShards},
		{"outbox", true, p.checkOutbox},
		{"rejected", true, p.checkRejected},
		{"relay", false, p.checkRelaySchema},
		{"oldest snapshot", false, p.checkSnapshots},
		{"bloat", false, p.checkBloat},
		{"clock", false, p.checkClock},
	} {
		if c.schema && !p.usable {
			continue
		}
		err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return c.make(ctx, tx) })
		if ctx.Err() != nil {
			return ctx.Err()
		}
		switch {
		case isIncomplete(err):
			p.Add(checkup.Fail, c.name, fmt.Sprintf("the schema is incomplete: %v", err), "restore the schema from a backup")
		case err != nil:
			p.Add(checkup.Warn, c.name, fmt.Sprintf("unknown: %v", err), "run doctor as a role with this right, or check by other means")
		}
	}
	return nil
}

// isIncomplete reports whether a table, column or function of the schema's version is missing.
func isIncomplete(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && slices.Contains([]string{"42P01", "42703", "42883"}, pg.Code)
}

func (p *checker) checkServer(ctx context.Context, tx pgx.Tx) error {
	var version int
	var text, encoding, readOnly string
	var recovering bool
	// The transaction is read-only. The reset value is the setting that applies to the role's other transactions.
	err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_setting('server_encoding'),
		(SELECT setting FROM pg_settings WHERE name = 'default_transaction_read_only'), pg_is_in_recovery()`).
		Scan(&version, &text, &encoding, &readOnly, &recovering)
	if err != nil {
		return err
	}
	found := fmt.Sprintf("PostgreSQL %s, %s", text, encoding)
	switch {
	case version < minServer:
		p.Add(checkup.Fail, "server", found, "upgrade to PostgreSQL 13 or later")
	case encoding != "UTF8":
		p.Add(checkup.Fail, "server", found, "create a database with ENCODING 'UTF8'")
	case recovering:
		p.Add(checkup.Fail, "server", found+", a standby", "connect to the primary: target_session_attrs=read-write with all hosts in the connection string")
	case readOnly == "on":
		p.Add(checkup.Fail, "server", found+", default_transaction_read_only is on", "set default_transaction_read_only to off for the role and the database")
	default:
		p.Add(checkup.OK, "server", found, "")
	}
	return nil
}

// checkSettings checks for settings that can lose acknowledged data or let tables grow without limit.
func (p *checker) checkSettings(ctx context.Context, tx pgx.Tx) error {
	wrong := []struct {
		name   string
		values []string
		state  checkup.State
		advice string
	}{
		{"fsync", []string{"off"}, checkup.Fail, "set fsync to on: a crash of the machine loses or ruins the database"},
		{"full_page_writes", []string{"off"}, checkup.Fail, "set full_page_writes to on: a crash in the middle of a write ruins pages"},
		{"zero_damaged_pages", []string{"on"}, checkup.Fail, "set zero_damaged_pages to off: damaged pages are emptied without a word"},
		{"ignore_checksum_failure", []string{"on"}, checkup.Fail, "set ignore_checksum_failure to off"},
		{"synchronous_commit", []string{"off", "local"}, checkup.Warn, "set synchronous_commit to on for your own transactions: the store's wait for the disk anyway, unless Relaxed is set"},
		{"autovacuum", []string{"off"}, checkup.Fail, "set autovacuum to on: small tables that change all the time grow without bound"},
		{"track_counts", []string{"off"}, checkup.Fail, "set track_counts to on: autovacuum does not work without it"},
		{"data_checksums", []string{"off"}, checkup.Warn, "enable checksums with pg_checksums at the next occasion: a disk that answers wrongly is noticed"},
		{"idle_in_transaction_session_timeout", []string{"0"}, checkup.Warn, "set idle_in_transaction_session_timeout, say to 10min: a forgotten transaction keeps dead rows in all tables"},
	}
	values := map[string]string{}
	rows, err := tx.Query(ctx, `SELECT name, setting FROM pg_settings`)
	if err != nil {
		return err
	}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error { values[name] = value; return nil }); err != nil {
		return err
	}
	good := 0
	for _, w := range wrong {
		if slices.Contains(w.values, values[w.name]) {
			p.Add(w.state, "settings", w.name+" is "+values[w.name], w.advice)
		} else {
			good++
		}
	}
	p.Add(checkup.OK, "settings", fmt.Sprintf("%d of %d are as recommended", good, len(wrong)), "")
	return nil
}

func (p *checker) checkConnections(ctx context.Context, tx pgx.Tx) error {
	var used, most, limit int
	err := tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int,
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
		(SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user)`).Scan(&used, &most, &limit)
	if err != nil {
		return err
	}
	found := fmt.Sprintf("%d of %d are in use", used, most)
	if limit >= 0 && limit < most {
		found += fmt.Sprintf(", this role may have %d", limit)
	}
	state := checkup.OK
	if used*10 >= most*9 {
		state = checkup.Warn
	}
	p.Add(state, "connections", found, "raise max_connections, or lower Options.Connections: a process needs that many and one more, in a rolling deploy twice")
	return nil
}

func (p *checker) checkSchema(ctx context.Context, tx pgx.Tx) error {
	var there, use, read, create, unreleased, relays bool
	err := tx.QueryRow(ctx, `SELECT n.oid IS NOT NULL, coalesce(has_schema_privilege(n.oid, 'USAGE'), false),
			coalesce((SELECT has_table_privilege(c.oid, 'SELECT') FROM pg_class c WHERE c.relnamespace = n.oid AND c.relname = 'store'), false),
			has_database_privilege(current_database(), 'CREATE'),
			EXISTS (SELECT FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = n.oid AND c.relname = 'store' AND a.attname = 'compatible'),
			EXISTS (SELECT FROM pg_namespace WHERE nspname = $2)
		FROM (VALUES (1)) AS one LEFT JOIN pg_namespace n ON n.nspname = $1`, p.Schema, p.Outbox).Scan(&there, &use, &read, &create, &unreleased, &relays)
	switch {
	case err != nil:
		return err
	case !there && relays:
		p.Add(checkup.OK, "schema", fmt.Sprintf("schema %s does not exist: the events of the outbox are in another store", p.quoted), "")
		return nil
	case !there && create:
		p.Add(checkup.Warn, "schema", fmt.Sprintf("schema %s does not exist", p.quoted), "start a server, which creates it, or pass --schema")
		return nil
	case !there:
		p.Add(checkup.Fail, "schema", fmt.Sprintf("schema %s does not exist, and the role may not create it", p.quoted), "GRANT CREATE ON DATABASE, or CREATE SCHEMA … AUTHORIZATION the role; or pass --schema")
		return nil
	case unreleased:
		p.Add(checkup.Fail, "schema", fmt.Sprintf("schema %s was created by an unreleased build of mcpe-gen", p.quoted), "use a new schema")
		return nil
	case !use || !read:
		p.Add(checkup.Fail, "schema", fmt.Sprintf("the role may not read %s.store", p.quoted), "GRANT USAGE on the schema and SELECT, INSERT, UPDATE, DELETE on its tables, or run doctor as the servers' role")
		return nil
	}
	var version, least int
	if err := tx.QueryRow(ctx, p.in(`SELECT version, min_version FROM @.store`)).Scan(&version, &least); err != nil {
		return err
	}
	known := postgres.SchemaVersion()
	found := fmt.Sprintf("version %d; builds that know %d can use it, this one knows %d", version, least, known)
	if least > known {
		p.Add(checkup.Fail, "schema", found, "use a newer build")
		return nil
	}
	p.usable = true
	p.Add(checkup.OK, "schema", found, "")
	return nil
}

func (p *checker) checkRights(ctx context.Context, tx pgx.Tx) error {
	role, lacking, err := missingRights(ctx, tx, p.Schema)
	if err != nil {
		return err
	}
	var told bool
	err = tx.QueryRow(ctx, `SELECT has_function_privilege('pg_control_system()', 'EXECUTE') AND has_function_privilege('pg_walfile_name(pg_lsn)', 'EXECUTE')`).Scan(&told)
	switch {
	case err != nil:
		return err
	case len(lacking) > 0:
		p.Add(checkup.Fail, "rights", fmt.Sprintf("role %s lacks %s", role, strings.Join(lacking, "; ")), "GRANT them, or run doctor as the servers' role")
	case !told:
		p.Add(checkup.Warn, "rights", fmt.Sprintf("role %s may not call pg_control_system or pg_walfile_name", role),
			"GRANT EXECUTE ON FUNCTION pg_control_system(), pg_walfile_name(pg_lsn): without them a failover is not noticed")
	default:
		p.Add(checkup.OK, "rights", fmt.Sprintf("role %s needs no further rights for serving", role), "")
	}
	return nil
}

// missingRights returns the privileges that the role lacks on the objects of a schema.
func missingRights(ctx context.Context, tx pgx.Tx, schema string) (role string, lacking []string, err error) {
	err = tx.QueryRow(ctx, `SELECT current_user, (SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM (
			SELECT 'SELECT, INSERT, UPDATE, DELETE on table ' || c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = $1 AND CASE WHEN c.relkind = 'r' THEN NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
					AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')) END
			UNION ALL SELECT 'USAGE on sequence ' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
				WHERE n.nspname = $1 AND CASE WHEN c.relkind = 'S' THEN NOT has_sequence_privilege(c.oid, 'USAGE') END
			UNION ALL SELECT 'EXECUTE on function ' || f.proname FROM pg_proc f JOIN pg_namespace n ON n.oid = f.pronamespace
				WHERE n.nspname = $1 AND NOT has_function_privilege(f.oid, 'EXECUTE')) AS l)`, schema).Scan(&role, &lacking)
	return role, lacking, err
}

func (p *checker) checkGeneration(ctx context.Context, tx pgx.Tx) error {
	var generation int64
	var system, timeline string
	err := tx.QueryRow(ctx, p.in(`SELECT generation, system, timeline FROM @.store`)).Scan(&generation, &system, &timeline)
	if err != nil {
		return err
	}
	found := fmt.Sprintf("%d, of timeline %s", generation, timeline)
	var now, its string
	asked := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
		return tx.QueryRow(ctx, `SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), system_identifier::text FROM pg_control_system()`).Scan(&now, &its)
	})
	switch {
	case system == "" || timeline == "":
		p.Add(checkup.Warn, "generation", fmt.Sprintf("%d; the database system is not recorded yet", generation),
			"let one server run with a role that may call pg_control_system and pg_walfile_name: otherwise a failover with a loss is not noticed")
	case asked != nil:
		p.Add(checkup.OK, "generation", found, "") // the check of rights reports it
	case its != system:
		p.Add(checkup.Warn, "generation", fmt.Sprintf("%s, but of another database system", found), "this is a copy: the next server begins new epochs; do not run servers on both")
	case now != timeline:
		p.Add(checkup.Warn, "generation", fmt.Sprintf("%s; the server has timeline %s: it was promoted or recovered", found, now),
			"the next server or write begins new epochs, unless SynchronousStandby is set")
	default:
		p.Add(checkup.OK, "generation", found, "")
	}
	return nil
}

func (p *checker) checkLeases(ctx context.Context, tx pgx.Tx) error {
	var live, over int
	var least *float64
	err := tx.QueryRow(ctx, p.in(`SELECT count(*) FILTER (WHERE expires > clock_timestamp())::int, count(*) FILTER (WHERE expires <= clock_timestamp())::int,
		extract(epoch FROM min(expires) FILTER (WHERE expires > clock_timestamp()) - clock_timestamp())::float8 FROM @.leases`)).Scan(&live, &over, &least)
	if err != nil {
		return err
	}
	switch {
	case live == 0:
		p.Add(checkup.Warn, "lease", fmt.Sprintf("no server is running, %d leases have expired", over), "start a server: until then no event is delivered to webhooks, and the outbox waits")
	case over > 0:
		p.Add(checkup.Warn, "lease", fmt.Sprintf("%d servers are running, %d leases have expired", live, over), "find out why those servers ended or did not renew: their logs contain `the lease is lost`. Others take over within seconds")
	default:
		left := seconds(*least)
		state := checkup.OK
		if left < p.Lease/3 { // leases are renewed once a third has passed
			state = checkup.Warn
		}
		p.Add(state, "lease", fmt.Sprintf("%d servers are running; the first lease to expire has %v of %s left", live, left.Round(100*time.Millisecond), plain.Duration(p.Lease)),
			"renewals are late: the database answers slowly, or a server stands still; compare --lease with replicas.Options.Lease")
	}
	var took []time.Duration
	for range trips {
		began := time.Now()
		if _, err := tx.Exec(ctx, p.in("SELECT 1 FROM @.store")); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	trip := took[len(took)/2]
	state := checkup.OK
	if trip*leaseTrips > p.Lease {
		state = checkup.Warn
	}
	p.Add(state, "round trip", fmt.Sprintf("%v from here; a lease of %s lasts %d of them", trip.Round(10*time.Microsecond), plain.Duration(p.Lease), int(p.Lease/max(trip, 1))),
		fmt.Sprintf("make replicas.Options.Lease longer than %d round trips, or bring servers and database closer together", leaseTrips))
	return nil
}

func seconds(f float64) time.Duration { return time.Duration(math.Round(f * float64(time.Second))) }

func (p *checker) checkShards(ctx context.Context, tx pgx.Tx) error {
	var all, free int
	var topics []string
	err := tx.QueryRow(ctx, p.in(`SELECT count(*)::int, count(*) FILTER (WHERE l.fence IS NULL)::int,
		coalesce(array_agg(DISTINCT s.topic::text) FILTER (WHERE l.fence IS NULL), '{}')
		FROM @.shards s LEFT JOIN @.leases l ON l.fence = s.fence AND l.expires > clock_timestamp()`)).Scan(&all, &free, &topics)
	if err != nil {
		return err
	}
	if free == 0 {
		p.Add(checkup.OK, "shards", fmt.Sprintf("all %d have an owner", all), "")
		return nil
	}
	const shown = 5
	more := ""
	if len(topics) > shown {
		topics, more = topics[:shown], " and others"
	}
	p.Add(checkup.Warn, "shards", fmt.Sprintf("%d of %d have no owner: %s%s", free, all, strings.Join(topics, ", "), more),
		"start a server that registers these event types; after a crash wait for the lease and 2 s")
	return nil
}

func (p *checker) checkOutbox(ctx context.Context, tx pgx.Tx) error {
	return p.checkPending(ctx, tx, "outbox", p.Schema,
		"see whether the shard /outbox has an owner, and its log for `it cannot be appended to its log`: somebody may have locked a row of logs")
}

// checkPending reports the number of pending rows in a schema's outbox and the age of the oldest row.
func (p *checker) checkPending(ctx context.Context, tx pgx.Tx, check, schema, advice string) error {
	var n int
	var oldest *float64
	var log *string
	err := tx.QueryRow(ctx, withSchema(schema, `SELECT count(*)::int, extract(epoch FROM clock_timestamp() - min(at))::float8, (array_agg(left(log, 128) ORDER BY id))[1]
		FROM (SELECT * FROM @.outbox ORDER BY id LIMIT $1) AS o`), countMax).Scan(&n, &oldest, &log)
	switch {
	case err != nil:
		return err
	case n == 0:
		p.Add(checkup.OK, check, "empty", "")
		return nil
	}
	found := fmt.Sprintf("%d occurrences wait", n)
	if n == countMax {
		found = fmt.Sprintf("%d or more occurrences wait", n)
	}
	waits := seconds(*oldest)
	p.Add(checkup.Worse(waits, waitsWarn, waitsFail), check, fmt.Sprintf("%s, the oldest for %v, for %q", found, waits.Round(time.Second), *log), advice)
	return nil
}

func (p *checker) checkRejected(ctx context.Context, tx pgx.Tx) error {
	return p.checkRejectedIn(ctx, tx, "rejected", p.Schema)
}

func (p *checker) checkRejectedIn(ctx context.Context, tx pgx.Tx, check, schema string) error {
	var n int
	var last *time.Time
	err := tx.QueryRow(ctx, withSchema(schema, `SELECT count(*)::int, max(at) FROM (SELECT at FROM @.rejected ORDER BY id DESC LIMIT $1) AS r`), countMax).Scan(&n, &last)
	if err != nil {
		return err
	}
	if n == 0 {
		p.Add(checkup.OK, check, "none", "")
		return nil
	}
	p.Add(checkup.Warn, check, fmt.Sprintf("%d occurrences, the last at %s", n, plain.Time(*last)),
		"see `mcpe-gen admin outbox URL`, then putback or drop each")
	return nil
}

// checkSnapshots looks for transactions that prevent the removal of dead rows.
func (p *checker) checkSnapshots(ctx context.Context, tx pgx.Tx) error {
	var who string
	var age float64
	err := tx.QueryRow(ctx, `SELECT who, age FROM (
			SELECT format('pid %s (%s, %s, %s)', pid, coalesce(usename, backend_type), nullif(left(application_name, 64), ''), coalesce(state, 'state unknown')) AS who,
				extract(epoch FROM clock_timestamp() - xact_start)::float8 AS age
			FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND xact_start IS NOT NULL
				AND backend_type <> 'autovacuum worker' AND (datname = current_database() OR datname IS NULL)
			UNION ALL
			SELECT format('prepared transaction %L', left(gid, 64)), extract(epoch FROM clock_timestamp() - prepared)::float8
			FROM pg_prepared_xacts WHERE database = current_database()) AS held
		ORDER BY age DESC LIMIT 1`).Scan(&who, &age)
	switch {
	case err == pgx.ErrNoRows:
		p.Add(checkup.OK, "oldest snapshot", "none", "")
	case err != nil:
		return err
	default:
		held := seconds(age)
		p.Add(checkup.Worse(held, snapshotWarn, snapshotFail), "oldest snapshot", fmt.Sprintf("%s for %v", who, held.Round(time.Second)),
			"end it, or wait for it: until then no dead row of any table is removed. pg_terminate_backend(pid), or ROLLBACK PREPARED")
	}
	var slots []string
	err = tx.QueryRow(ctx, `SELECT coalesce(array_agg(slot_name::text), '{}') FROM pg_replication_slots
		WHERE NOT active AND (xmin IS NOT NULL OR catalog_xmin IS NOT NULL OR restart_lsn IS NOT NULL)`).Scan(&slots)
	if err == nil && len(slots) > 0 {
		p.Add(checkup.Warn, "replication slots", fmt.Sprintf("no consumer reads %s", strings.Join(slots, ", ")),
			"drop them with pg_drop_replication_slot, or bring their standby back: they keep WAL, and may keep dead rows")
	}
	return err
}

func (p *checker) checkBloat(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, `SELECT format('%I.%I', schemaname, relname), n_live_tup::bigint, n_dead_tup::bigint, pg_size_pretty(pg_total_relation_size(relid))
		FROM pg_stat_user_tables WHERE schemaname IN ($1, $3) AND n_dead_tup >= greatest($2, n_live_tup) ORDER BY n_dead_tup DESC LIMIT 5`, p.Schema, deadWarn, p.Outbox)
	if err != nil {
		return err
	}
	var name, size string
	var live, dead int64
	bad := 0
	_, err = pgx.ForEachRow(rows, []any{&name, &live, &dead, &size}, func() error {
		bad++
		p.Add(checkup.Warn, "bloat", fmt.Sprintf("table %s has %d dead rows and %d live ones, %s", name, dead, live, size),
			fmt.Sprintf("if nobody holds an old snapshot, VACUUM %s, and see why autovacuum does not keep up", name))
		return nil
	})
	if err == nil && bad == 0 {
		p.Add(checkup.OK, "bloat", "no table has more dead rows than live ones", "")
	}
	return err
}

// checkClock compares the clocks of this machine and the database.
func (p *checker) checkClock(ctx context.Context, tx pgx.Tx) error {
	var there time.Time
	began := time.Now()
	if err := tx.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
		return err
	}
	took := time.Since(began)
	apart := there.Sub(began.Add(took / 2))
	state := checkup.OK
	if apart.Abs() > skewWarn+took/2 {
		state = checkup.Warn
	}
	p.Add(state, "clock", fmt.Sprintf("the database is %v ahead of this machine, ±%v", apart.Round(time.Millisecond), (took/2).Round(100*time.Microsecond)),
		"set the clocks by NTP: stored times and leases are the database's, the logs of servers are not")
	return nil
}
