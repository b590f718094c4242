package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-ops/internal/doctor"
	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
	"github.com/mcpe-gen/mcpe-gen/runtime/outbox/pgoutbox"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/engine"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// examined is what doctor says with these arguments, and its exit code.
func examined(t *testing.T, args ...string) (r doctor.Report, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(append([]string{"doctor", "--format", "json"}, args...), &stdout, &stderr, cli.Version{})
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s%s", err, stdout.String(), stderr.String())
	}
	return r, code
}

// says expects a line of a check in a state that has some words.
func says(t *testing.T, r doctor.Report, check string, state checkup.State, words ...string) {
	t.Helper()
	for _, l := range r.Lines {
		if l.Check != check || l.State != state || (l.Advice == "") != (state == checkup.OK) {
			continue
		}
		all := true
		for _, w := range words {
			all = all && strings.Contains(l.Found, w)
		}
		if all {
			return
		}
	}
	t.Errorf("no line of %q is %q and has %q: %+v", check, state, words, r.Lines)
}

// connected connects to a database; do executes statements there.
func connected(t *testing.T, db string) (conn *pgx.Conn, do func(statements ...string)) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn, func(statements ...string) {
		t.Helper()
		for _, sql := range statements {
			if _, err := conn.Exec(t.Context(), sql); err != nil {
				t.Fatalf("%s: %v", sql, err)
			}
		}
	}
}

// The verb doctor finds what is wrong with a PostgreSQL, and says nothing against one where all is well but that it is
// a throwaway one.
func TestDoctor(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no database")
	}
	server := clitest.Postgres(t)
	if server == "" {
		t.Skip("no PostgreSQL")
	}
	t.Setenv("NO_COLOR", "1")
	ctx := t.Context()
	db := clitest.OwnDatabase(t, server, "doctor")
	conn, do := connected(t, db)
	as := func(role string) string {
		u, err := url.Parse(db)
		if err != nil {
			t.Fatal(err)
		}
		u.User = url.UserPassword(role, "hunter2")
		return u.String()
	}

	r, code := examined(t, db)
	says(t, r, "schema", checkup.Warn, `schema "mcpe" does not exist`)
	// The settings of a throwaway server lose data.
	for _, name := range []string{"fsync", "full_page_writes"} {
		var setting string
		if err := conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&setting); err != nil {
			t.Fatal(err)
		}
		if setting == "off" {
			says(t, r, "settings", checkup.Fail, name+" is off")
		}
	}
	if (code == exitDoctor) != (r.Failed > 0) || r.Warned == 0 {
		t.Errorf("exit code %d, %d failed, %d warnings", code, r.Failed, r.Warned)
	}
	if _, code := examined(t, db, "--strict"); code != exitDoctor {
		t.Errorf("exit code %d with warnings and --strict", code)
	}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), db)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "DROP OWNED BY nobody_much CASCADE; DROP ROLE nobody_much"); err != nil {
			t.Error(err)
		}
	})
	do("CREATE ROLE nobody_much LOGIN PASSWORD 'hunter2'", "REVOKE EXECUTE ON FUNCTION pg_control_system(), pg_walfile_name(pg_lsn) FROM PUBLIC")
	r, _ = examined(t, as("nobody_much"))
	says(t, r, "schema", checkup.Fail, "may not create it")

	s, err := postgres.Open(ctx, db, postgres.Options{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.OpenLog(ctx, "log", store.LogOptions{}); err != nil {
		t.Fatal(err)
	}
	r, _ = examined(t, as("nobody_much"))
	says(t, r, "schema", checkup.Fail, "may not read")
	do("GRANT USAGE ON SCHEMA mcpe TO nobody_much", "GRANT SELECT ON ALL TABLES IN SCHEMA mcpe TO nobody_much")
	r, _ = examined(t, as("nobody_much"))
	says(t, r, "rights", checkup.Fail, "nobody_much lacks", "DELETE on table outbox", "USAGE on sequence")
	do("GRANT ALL ON ALL TABLES IN SCHEMA mcpe TO nobody_much", "GRANT USAGE ON ALL SEQUENCES IN SCHEMA mcpe TO nobody_much")
	r, _ = examined(t, as("nobody_much"))
	says(t, r, "rights", checkup.Warn, "pg_control_system")

	// One that nobody serves, and then one that is served.
	if _, err := s.Establish(ctx, engine.OutboxTopic, 1); err != nil {
		t.Fatal(err)
	}
	r, _ = examined(t, db)
	says(t, r, "lease", checkup.Warn, "no server is running")
	says(t, r, "shards", checkup.Warn, "1 of 1", engine.OutboxTopic)
	lease, err := s.Join(ctx, "one", 10*time.Minute, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if won, err := s.Claim(ctx, lease.Fence, []engine.ShardFence{{Shard: engine.Shard{Topic: engine.OutboxTopic}}}); err != nil || len(won) != 1 {
		t.Fatal(won, err)
	}
	r, _ = examined(t, db, "--lease", "10m")
	for _, l := range r.Lines {
		if l.State != checkup.OK && l.Check != "settings" {
			t.Errorf("%+v", l)
		}
	}
	for _, check := range []string{"server", "connections", "schema", "rights", "generation", "lease", "round trip", "shards", "outbox", "rejected", "bloat", "clock", "notifications"} {
		says(t, r, check, checkup.OK)
	}
	r, _ = examined(t, db, "--lease", "1h")
	says(t, r, "lease", checkup.Warn, "1 servers are running", "of 1h left")

	// What waits, who holds a snapshot, and what is dead.
	do(`INSERT INTO mcpe.outbox (log, event_id, timestamp, data, once, above, at) VALUES ('log', 'x', '2026-01-01T00:00:00Z', '{}', false, 0, now() - interval '2 minutes')`,
		`INSERT INTO mcpe.rejected (at, reason, log, event_id, timestamp, data, once, above) VALUES (now(), 'bad', 'log', 'x', '', '{', false, 0)`,
		"ALTER TABLE mcpe.marks SET (autovacuum_enabled = off)",
		"INSERT INTO mcpe.marks SELECT g::text, '', 0, 0 FROM generate_series(1, 20000) g", "DELETE FROM mcpe.marks")
	config, err := pgx.ParseConfig(db)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = "the nightly report"
	report, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer report.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"} {
		if _, err := report.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) { // statistics come late
		r, code = examined(t, db)
		if strings.Contains(fmt.Sprint(r.Lines), "marks") || time.Since(began) > time.Minute {
			break
		}
	}
	says(t, r, "outbox", checkup.Fail, "1 occurrences wait", "2m", `"log"`)
	says(t, r, "rejected", checkup.Warn, "1 occurrences")
	says(t, r, "oldest snapshot", checkup.OK, fmt.Sprint("pid ", report.PgConn().PID()), "the nightly report")
	says(t, r, "bloat", checkup.Warn, "marks has 20000 dead rows")
	if code != exitDoctor {
		t.Errorf("exit code %d", code)
	}

	// Copies, promoted servers and newer builds.
	do("UPDATE mcpe.store SET timeline = '000000FF'")
	r, _ = examined(t, db)
	says(t, r, "generation", checkup.Warn, "promoted")
	do("UPDATE mcpe.store SET system = '7'")
	r, _ = examined(t, db)
	says(t, r, "generation", checkup.Warn, "another database system")
	do("UPDATE mcpe.store SET system = ''")
	r, _ = examined(t, db)
	says(t, r, "generation", checkup.Warn, "not recorded yet")
	do("UPDATE mcpe.leases SET expires = now() - interval '1 s'")
	r, _ = examined(t, db)
	says(t, r, "lease", checkup.Warn, "no server is running, 1 leases have expired")
	do("UPDATE mcpe.store SET version = 1000, min_version = 999")
	r, _ = examined(t, db)
	says(t, r, "schema", checkup.Fail, "999")
	do("ALTER TABLE mcpe.store RENAME min_version TO compatible")
	r, _ = examined(t, db)
	says(t, r, "schema", checkup.Fail, "was created by an unreleased build of mcpe-gen")
	do("ALTER TABLE mcpe.store RENAME compatible TO min_version")
	do("UPDATE mcpe.store SET version = 1000, min_version = 1")
	r, _ = examined(t, db)
	says(t, r, "schema", checkup.OK, "version 1000")
	do("DROP TABLE mcpe.leases")
	r, _ = examined(t, db)
	says(t, r, "lease", checkup.Fail, "the schema is incomplete", "mcpe.leases")

	var stdout, stderr bytes.Buffer
	if code := run([]string{"doctor", db}, &stdout, &stderr, cli.Version{}); code != exitDoctor || !strings.Contains(stdout.String(), "fail  settings") || stderr.Len() > 0 {
		t.Errorf("exit code %d\n%s%s", code, stdout.String(), stderr.String())
	}
	if n := strings.Count(stdout.String(), "→"); n != r.Failed+r.Warned {
		t.Errorf("%d lines have advice, %d failed and %d warn", n, r.Failed, r.Warned)
	}
}

// A connection string that is none, or leads nowhere, is told without its password.
func TestDoctorUnreachable(t *testing.T) {
	for args, want := range map[string]int{
		"postgres://u:hunter2@127.0.0.1:1/db":                   cli.Failure,
		"postgres://u:hunter2@127.0.0.1:port/db":                cli.Usage,
		"host=127.0.0.1 port=1 password=hunter2 sslmode=whatev": cli.Usage,
		"": cli.Usage,
	} {
		t.Setenv("DATABASE_URL", "")
		var stdout, stderr bytes.Buffer
		if code := run([]string{"doctor", args}, &stdout, &stderr, cli.Version{}); code != want {
			t.Errorf("%q: exit code %d, want %d: %s", args, code, want, stderr.String())
		}
		if strings.Contains(stderr.String(), "hunter2") || stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 || strings.Contains(stderr.String(), `\`) {
			t.Errorf("%q: %s%s", args, stdout.String(), stderr.String())
		}
	}
}

// What the verb says of an outbox whose events are in another store (OB-1, OB-3, OB-5): what waits, what its role
// lacks, and who moves rows.
func TestDoctorRelay(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no database")
	}
	server := clitest.Postgres(t)
	if server == "" {
		t.Skip("no PostgreSQL")
	}
	ctx := t.Context()
	db := clitest.OwnDatabase(t, server, "doctor_relay")
	_, do := connected(t, db)
	lines := func(r doctor.Report) (n int) {
		for _, l := range r.Lines {
			if strings.HasPrefix(l.Check, "relay") {
				n++
			}
		}
		return n
	}
	if r, _ := examined(t, db); lines(r) != 0 {
		t.Errorf("without an outbox: %+v", r.Lines)
	}
	do("CREATE SCHEMA mcpe_outbox")
	r, _ := examined(t, db)
	says(t, r, "relay schema", checkup.Warn, "holds no outbox")
	box, err := pgoutbox.Open(ctx, db, pgoutbox.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	r, _ = examined(t, db)
	says(t, r, "schema", checkup.OK, "in another store")
	for _, check := range []string{"relay schema", "relay rights", "relay outbox", "relay rejected", "relay"} {
		says(t, r, check, checkup.OK)
	}
	if r, _ := examined(t, db, "--outbox", ""); lines(r) != 0 {
		t.Errorf("with --outbox '': %+v", r.Lines)
	}

	do(`INSERT INTO mcpe_outbox.outbox (log, event_id, timestamp, data, once, above, at) VALUES ('log', 'x', '2026-01-01T00:00:00Z', '{}', false, 0, now() - interval '2 minutes')`,
		`INSERT INTO mcpe_outbox.rejected (at, reason, log, event_id, timestamp, data, once, above) VALUES (now(), 'bad', 'log', 'x', '', '{', false, 0)`)
	r, code := examined(t, db)
	says(t, r, "relay outbox", checkup.Fail, "1 occurrences wait", "2m", `"log"`)
	says(t, r, "relay rejected", checkup.Warn, "1 occurrences")
	if code != exitDoctor {
		t.Errorf("exit code %d", code)
	}

	// Roles: one that may do nothing, one that may emit.
	const role = "relay_nobody"
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), db)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "DROP OWNED BY "+role+" CASCADE; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	do("CREATE ROLE " + role + " LOGIN PASSWORD 'hunter2'")
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role, "hunter2")
	r, _ = examined(t, u.String())
	says(t, r, "relay schema", checkup.Fail, "may not use")
	do("GRANT USAGE ON SCHEMA mcpe_outbox TO " + role)
	r, _ = examined(t, u.String())
	says(t, r, "relay rights", checkup.Fail, role+" lacks", "DELETE on table outbox", "USAGE on sequence outbox_id_seq")
	do("GRANT INSERT ON mcpe_outbox.outbox TO "+role, "GRANT USAGE ON SEQUENCE mcpe_outbox.outbox_id_seq TO "+role)
	r, _ = examined(t, u.String())
	says(t, r, "relay rights", checkup.Warn, role+" may emit", "DELETE on table outbox")

	// A relay that stands in the middle of a step has the lock.
	stands, goes := make(chan struct{}), make(chan struct{})
	events, err := postgres.Open(ctx, db, postgres.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	into := standing{events, stands, goes}
	relay := box.Relay(into)
	if _, err := into.Establish(ctx, engine.OutboxTopic, 1); err != nil {
		t.Fatal(err)
	}
	lease, err := into.Join(ctx, "one", time.Minute, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := engine.ShardFence{Shard: engine.Shard{Topic: engine.OutboxTopic}}
	if won, err := into.Claim(ctx, lease.Fence, []engine.ShardFence{h}); err != nil || len(won) != 1 {
		t.Fatal(won, err)
	}
	h.Fence = lease.Fence
	ended := make(chan error, 1)
	go func() {
		_, err := relay.Sequence(ctx, h, 10, func(context.Context, store.Outgoing) (fault, err error) { return nil, nil })
		ended <- err
	}()
	select {
	case <-stands:
	case err := <-ended:
		t.Fatalf("the relay has moved nothing: %v", err)
	}
	r, _ = examined(t, db)
	close(goes)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	says(t, r, "relay", checkup.OK, "has been moving rows for ")
}

// standing is a store that stands still in the middle of an append.
type standing struct {
	engine.Shared
	stands, goes chan struct{}
}

func (s standing) AppendGroup(context.Context, string, []store.Outgoing) ([]engine.Appended, error) {
	close(s.stands)
	<-s.goes
	return nil, engine.ErrNoLog
}

// Behind a pooler in transaction mode, which drops notifications, doctor says so.
func TestDoctorHearsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: no database")
	}
	server := clitest.Postgres(t)
	if server == "" {
		t.Skip("no PostgreSQL")
	}
	t.Setenv("NO_COLOR", "1")
	db := clitest.OwnDatabase(t, server, "deaf")
	r, _ := examined(t, db)
	says(t, r, "notifications", checkup.OK)
	r, _ = examined(t, unnotified(t, db))
	says(t, r, "notifications", checkup.Warn, "pooler in transaction mode")
}

// unnotified returns the connection string of a proxy for the database that drops notifications.
func unnotified(t *testing.T, db string) string {
	t.Helper()
	u, err := url.Parse(db)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	target := u.Host
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", target)
			if err != nil {
				t.Error(err)
				client.Close()
				continue
			}
			wg.Go(func() { defer upstream.Close(); io.Copy(upstream, client) })
			wg.Go(func() { defer client.Close(); copyUnnotified(client, upstream) })
		}
	})
	u.Host = l.Addr().String()
	q := u.Query()
	q.Set("sslmode", "disable")
	u.RawQuery = q.Encode()
	return u.String()
}

// copyUnnotified copies what a server says, except notifications, until either end is closed.
func copyUnnotified(client io.Writer, server io.Reader) {
	messages := pgproto3.NewFrontend(server, nil)
	for {
		m, err := messages.Receive()
		if err != nil {
			return
		}
		if _, ok := m.(*pgproto3.NotificationResponse); ok {
			continue
		}
		text, err := m.Encode(nil)
		if err != nil {
			return
		}
		if _, err := client.Write(text); err != nil {
			return
		}
	}
}
