package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
	"github.com/mcpe-gen/mcpe-gen/runtime/store"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// as returns the connection string with changes.
func as(t *testing.T, dsn string, change func(u *url.URL, q url.Values)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	change(u, q)
	u.RawQuery = q.Encode()
	return u.String()
}

// role creates a role that may log in and returns its connection string.
func role(t *testing.T, name string) string {
	t.Helper()
	dsn := pgtest.URL(t)
	pgtest.Exec(t, dsn, "CREATE ROLE "+name+" LOGIN PASSWORD 'hunter2'")
	t.Cleanup(func() { pgtest.Exec(t, dsn, "DROP OWNED BY "+name+" CASCADE", "DROP ROLE "+name) })
	return as(t, dsn, func(u *url.URL, _ url.Values) { u.User = url.UserPassword(name, "hunter2") })
}

// refused expects an error that matches want, contains some words, and does not contain the password.
func isRefused(t *testing.T, dsn string, o postgres.Options, want error, words ...string) {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn, quiet(o))
	if err == nil {
		s.Close()
		t.Fatal("it was opened")
	}
	if !errors.Is(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the password is in %q", err)
	}
}

func TestOpenConfig(t *testing.T) {
	for _, dsn := range []string{"postgres://u:hunter2@host:port/db", "host=a sslmode=maybe password=hunter2", "mysql://u:hunter2@h/d"} {
		isRefused(t, dsn, postgres.Options{}, postgres.ErrConfig)
	}
	good := "postgres://u:hunter2@127.0.0.1:1/db"
	isRefused(t, good, postgres.Options{Listen: "postgres://u:hunter2@host:port/db"}, postgres.ErrConfig)
	isRefused(t, good, postgres.Options{Schema: strings.Repeat("x", 49)}, postgres.ErrConfig, "48", "49")
	isRefused(t, good, postgres.Options{Schema: "pg_mine"}, postgres.ErrConfig, "pg_")
	isRefused(t, good, postgres.Options{Schema: "a@b"}, postgres.ErrConfig)
	isRefused(t, good, postgres.Options{Poll: -1}, postgres.ErrConfig, "Poll")
	isRefused(t, good, postgres.Options{Key: []byte("short")}, postgres.ErrKey)
	isRefused(t, good, postgres.Options{}, postgres.ErrUnreachable)
}

func TestOpenLogin(t *testing.T) {
	dsn := as(t, pgtest.URL(t), func(u *url.URL, _ url.Values) { u.User = url.UserPassword("nobody_here", "hunter2") })
	isRefused(t, dsn, postgres.Options{}, postgres.ErrUnreachable, "nobody_here")
	isRefused(t, as(t, pgtest.URL(t), func(u *url.URL, _ url.Values) { u.Path = "/none" }), postgres.Options{}, postgres.ErrUnreachable, "none")
}

func TestOpenRights(t *testing.T) {
	schema := pgtest.Schema(t)
	dsn := role(t, schema+"_r")
	o := postgres.Options{Schema: schema}
	isRefused(t, dsn, o, postgres.ErrRights, "CREATE on database")
	pgtest.Exec(t, pgtest.URL(t), "CREATE SCHEMA "+schema)
	isRefused(t, dsn, o, postgres.ErrRights, "USAGE and CREATE on schema", schema)
	open(t, schema, postgres.Options{}) // another role creates the tables
	isRefused(t, dsn, o, postgres.ErrRights, "USAGE")
	grant := func(what string) { pgtest.Exec(t, pgtest.URL(t), "GRANT "+what+" TO "+schema+"_r") }
	grant("USAGE ON SCHEMA " + schema)
	isRefused(t, dsn, o, postgres.ErrRights, "SELECT")
	grant("SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA " + schema)
	isRefused(t, dsn, o, postgres.ErrRights, "DELETE on table outbox", "USAGE on sequence")
	grant("DELETE ON ALL TABLES IN SCHEMA " + schema)
	grant("USAGE ON ALL SEQUENCES IN SCHEMA " + schema)
	// With these rights, a role that owns nothing works.
	s, err := postgres.Open(t.Context(), dsn, quiet(o))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := s.OpenLog(t.Context(), "log", store.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), entry("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Join(t.Context(), "r", time.Minute, nil, nil); err != nil {
		t.Fatal(err)
	}
}

func TestOpenOwnSchema(t *testing.T) {
	schema := pgtest.Schema(t)
	dsn := role(t, schema+"_o")
	pgtest.Exec(t, pgtest.URL(t), "CREATE SCHEMA "+schema+" AUTHORIZATION "+schema+"_o")
	s, err := postgres.Open(t.Context(), dsn, quiet(postgres.Options{Schema: schema}))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

func TestOpenVersions(t *testing.T) {
	schema := pgtest.Schema(t)
	open(t, schema, postgres.Options{}).Close()
	// A newer release that this one can run next to, and one that it cannot (REP-16).
	pgtest.Exec(t, pgtest.URL(t), "UPDATE "+schema+".store SET version = 1000")
	open(t, schema, postgres.Options{}).Close()
	pgtest.Exec(t, pgtest.URL(t), "UPDATE "+schema+".store SET min_version = 999")
	isRefused(t, pgtest.URL(t), postgres.Options{Schema: schema}, postgres.ErrVersion,
		"a newer release changed the schema to version 1000, which needs a build that knows version 999; this one knows 1; upgrade mcpe-gen")
}

// The schema of a build before the first release is refused, and stays as it is.
func TestOpenUnreleased(t *testing.T) {
	schema := pgtest.Schema(t)
	pgtest.Exec(t, pgtest.URL(t), "CREATE SCHEMA "+schema,
		"CREATE TABLE "+schema+".store (one integer PRIMARY KEY, version integer NOT NULL, compatible integer NOT NULL, generation bigint NOT NULL)",
		"INSERT INTO "+schema+".store VALUES (1, 14, 7, 1)")
	for range 2 {
		isRefused(t, pgtest.URL(t), postgres.Options{Schema: schema}, postgres.ErrVersion,
			"the schema was made by an unreleased build of mcpe-gen (schema 14); use a new one")
	}
	if n := pgtest.Query(t, pgtest.URL(t), "SELECT count(*) FROM pg_tables WHERE schemaname = '"+schema+"'"); n != "1" {
		t.Errorf("the schema has %s tables", n)
	}
}

func TestOpenForeign(t *testing.T) {
	for _, table := range []string{"orders", "store"} {
		schema := pgtest.Schema(t)
		pgtest.Exec(t, pgtest.URL(t), "CREATE SCHEMA "+schema, "CREATE TABLE "+schema+"."+table+" (n int)")
		isRefused(t, pgtest.URL(t), postgres.Options{Schema: schema}, postgres.ErrForeign)
	}
}

func TestOpenReadOnly(t *testing.T) {
	dsn := as(t, pgtest.URL(t), func(_ *url.URL, q url.Values) { q.Set("default_transaction_read_only", "on") })
	isRefused(t, dsn, postgres.Options{}, postgres.ErrReadOnly, "default_transaction_read_only")
}

func TestOpenEncoding(t *testing.T) {
	name := pgtest.Schema(t)
	pgtest.Exec(t, pgtest.URL(t), "CREATE DATABASE "+name+" ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
	t.Cleanup(func() { pgtest.Exec(t, pgtest.URL(t), "DROP DATABASE "+name) })
	isRefused(t, as(t, pgtest.URL(t), func(u *url.URL, _ url.Values) { u.Path = "/" + name }), postgres.Options{}, postgres.ErrServer, "LATIN1", "UTF8")
}

func TestOpenKey(t *testing.T) {
	schema := pgtest.Schema(t)
	key := []byte("0123456789abcdef0123456789abcdef")
	plain := open(t, schema, postgres.Options{})
	sub := store.Subscription{ID: "sub_1", Event: "e", Generation: 1, Arguments: []byte(`{}`), Secrets: []store.Secret{{Key: []byte("of-before-there-was-a-key")}}}
	if _, err := plain.PutSubscription(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	plain.Close()
	keyed := open(t, schema, postgres.Options{Key: key})
	if got, _, err := keyed.Subscription(t.Context(), "sub_1"); err != nil || string(got.Secrets[0].Key) != "of-before-there-was-a-key" {
		t.Fatalf("%v, %v", got.Secrets, err)
	}
	sub.ID, sub.Secrets = "sub_2", []store.Secret{{Key: []byte("very-secret-of-32-bytes---------")}}
	if _, err := keyed.PutSubscription(t.Context(), sub); err != nil {
		t.Fatal(err)
	}
	keyed.Close()
	isRefused(t, pgtest.URL(t), postgres.Options{Schema: schema}, postgres.ErrKey)
	isRefused(t, pgtest.URL(t), postgres.Options{Schema: schema, Key: []byte("another-key-of-32-bytes---------")}, postgres.ErrKey)
	again := open(t, schema, postgres.Options{Key: key})
	got, _, err := again.Subscription(t.Context(), "sub_2")
	if err != nil || !bytes.Equal(got.Secrets[0].Key, sub.Secrets[0].Key) {
		t.Fatalf("%v, %v", got.Secrets, err)
	}
	if at := again.Raw(t, "SELECT secrets FROM @.subscriptions WHERE id = 'sub_2'"); bytes.Contains(at, []byte("very")) || len(at) < 60 {
		t.Errorf("secrets lie in the database as %q", at)
	}
}

// TestOpenTogether opens a new schema in many processes concurrently.
func TestOpenTogether(t *testing.T) {
	schema := pgtest.Schema(t)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			s, err := postgres.Open(context.Background(), pgtest.URL(t), quiet(postgres.Options{Schema: schema, Connections: 2}))
			if err != nil {
				t.Error(err)
				return
			}
			s.Close()
		})
	}
	wg.Wait()
}

// TestUnsafeServer checks the warning about settings with which a crash of the database loses acknowledged events.
func TestUnsafeServer(t *testing.T) {
	var out bytes.Buffer
	s := open(t, pgtest.Schema(t), postgres.Options{Logger: slog.New(slog.NewTextHandler(&out, nil))})
	setting := s.Raw(t, "SELECT convert_to(current_setting('fsync'), 'UTF8')")
	s.Close()
	if told := strings.Contains(out.String(), "fsync=off"); told != (string(setting) == "off") {
		t.Errorf("fsync is %s, told %v", setting, told)
	}
}

// REP-5: the synchronous_commit of a role that does not wait for the disk is overridden, unless Relaxed is set.
func TestREP5SynchronousCommit(t *testing.T) {
	for relaxed, want := range map[bool]string{false: "on", true: "off"} {
		schema := pgtest.Schema(t)
		dsn := as(t, pgtest.URL(t), func(_ *url.URL, q url.Values) { q.Set("synchronous_commit", "off") })
		s, err := postgres.Open(t.Context(), dsn, quiet(postgres.Options{Schema: schema, Relaxed: relaxed}))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		pgtest.Exec(t, pgtest.URL(t), `CREATE TABLE `+schema+`.seen (setting text)`,
			`CREATE FUNCTION `+schema+`.spy() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
				INSERT INTO `+schema+`.seen VALUES (current_setting('synchronous_commit')); RETURN NEW; END $$`,
			`CREATE TRIGGER spy AFTER INSERT ON `+schema+`.entries FOR EACH ROW EXECUTE FUNCTION `+schema+`.spy()`)
		l, err := s.OpenLog(t.Context(), "log", store.LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Append(t.Context(), entry("x")); err != nil {
			t.Fatal(err)
		}
		if got := s.Raw(t, "SELECT convert_to(setting, 'UTF8') FROM @.seen"); string(got) != want {
			t.Errorf("relaxed %v: synchronous_commit was %s", relaxed, got)
		}
	}
}

// The store keeps nothing in a session, because a pooler in transaction mode would lose it.
func TestNothingStaysInSession(t *testing.T) {
	s := open(t, pgtest.Schema(t), postgres.Options{Connections: 1, Pooled: true})
	l := openLog(t, s, store.LogOptions{MaxAge: time.Hour})
	for range 8 { // drivers prepare repeated statements after some time
		if _, _, err := l.AppendOnce(t.Context(), entry("x"), 0); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Cluster(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Read(t.Context(), 0, 10); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Raw(t, `SELECT convert_to((SELECT count(*) FROM pg_prepared_statements WHERE name <> '') || ' ' ||
		(SELECT count(*) FROM pg_listening_channels()) || ' ' || (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), 'UTF8')`)
	if string(got) != "0 0 0" {
		t.Errorf("prepared statements, channels and advisory locks of the session: %s", got)
	}
}

// withoutIdentity returns the statements that give a role what serving needs, in a database where no role may read
// the server's identity.
func withoutIdentity(role, schema string) []string {
	return []string{"REVOKE EXECUTE ON FUNCTION pg_walfile_name(pg_lsn), pg_control_system() FROM PUBLIC",
		"GRANT USAGE ON SCHEMA " + schema + " TO " + role,
		"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + schema + " TO " + role,
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA " + schema + " TO " + role}
}

// K4: a role that may not read the server's identity can write, and does not lose the identity that other processes
// have stored, in whatever order they open.
func TestREP19NotTold(t *testing.T) {
	schema := pgtest.Schema(t)
	dsn := role(t, schema+"_r")
	database := pgtest.Schema(t) // rights to functions apply to one database
	pgtest.Exec(t, pgtest.URL(t), "CREATE DATABASE "+database)
	t.Cleanup(func() { pgtest.Exec(t, pgtest.URL(t), "DROP DATABASE "+database) })
	in := func(u *url.URL, _ url.Values) { u.Path = "/" + database }
	all, own := as(t, pgtest.URL(t), in), as(t, dsn, in)
	openAs := func(dsn string) *postgres.Store {
		s, err := postgres.Open(t.Context(), dsn, quiet(postgres.Options{Schema: schema}))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	told := openAs(all)
	defer told.Close()
	known := pgtest.Query(t, all, "SELECT system || ' ' || timeline FROM "+schema+".store")
	if len(known) < 10 {
		t.Fatalf("the store knows %q of its server", known)
	}
	write := func(s *postgres.Store) {
		t.Helper()
		l, err := s.OpenLog(t.Context(), "log", store.LogOptions{})
		if err == nil {
			_, err = l.Append(t.Context(), entry("x"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Rights that are removed while it runs change nothing either.
	pgtest.Exec(t, all, "GRANT USAGE ON SCHEMA "+schema+" TO "+schema+"_r", "GRANT ALL ON ALL TABLES IN SCHEMA "+schema+" TO "+schema+"_r",
		"GRANT USAGE ON ALL SEQUENCES IN SCHEMA "+schema+" TO "+schema+"_r")
	early := openAs(own)
	defer early.Close()
	pgtest.Exec(t, all, withoutIdentity(schema+"_r", schema)...)
	t.Cleanup(func() { pgtest.Exec(t, all, "DROP OWNED BY "+schema+"_r CASCADE") })
	write(early)
	late := openAs(own)
	defer late.Close()
	write(late)
	write(told)
	if now := pgtest.Query(t, all, "SELECT system || ' ' || timeline FROM "+schema+".store"); now != known {
		t.Errorf("the store knows %q of its server, it was %q", now, known)
	}
	// A role that regains the rights reads the identity; a store without one learns it.
	pgtest.Exec(t, all, "UPDATE "+schema+".store SET system = '', timeline = ''")
	again := openAs(all)
	defer again.Close()
	if now := pgtest.Query(t, all, "SELECT system || ' ' || timeline FROM "+schema+".store"); now != known {
		t.Errorf("the store knows %q, want %q", now, known)
	}
	if n := pgtest.Query(t, all, "SELECT generation FROM "+schema+".store"); n != "1" {
		t.Errorf("the generation is %s", n)
	}
}

// K4: a temporary error, such as a slow statement, does not count as missing rights: Open fails.
func TestREP19IdentityFails(t *testing.T) {
	schema := pgtest.Schema(t)
	database := pgtest.Schema(t)
	pgtest.Exec(t, pgtest.URL(t), "CREATE DATABASE "+database)
	t.Cleanup(func() { pgtest.Exec(t, pgtest.URL(t), "DROP DATABASE "+database) })
	dsn := as(t, pgtest.URL(t), func(u *url.URL, q url.Values) {
		u.Path = "/" + database
		q.Set("search_path", "shadow,pg_catalog")
	})
	pgtest.Exec(t, dsn, "CREATE SCHEMA shadow", `CREATE FUNCTION shadow.pg_control_system() RETURNS TABLE (system_identifier bigint)
		LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'too slow' USING ERRCODE = '57014'; END $$`)
	s, err := postgres.Open(t.Context(), dsn, quiet(postgres.Options{Schema: schema}))
	if err == nil {
		s.Close()
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), "identifying the server") {
		t.Error(err)
	}
}
