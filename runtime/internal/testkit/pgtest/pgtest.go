// Package pgtest provides a PostgreSQL server for tests. It uses the server that the environment variable
// MCPE_TEST_POSTGRES specifies. If the variable is not set, it creates a database in the cluster that [Run] started for
// all packages of a `make test`. Otherwise it starts a temporary cluster on loopback from local binaries. A cluster is
// stopped when the process that started it exits, even if it crashes. Start with [URL], and call [Main] from the test
// binary's TestMain.
package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/internal/testkit/reaper"
)

const (
	// Variable is the environment variable with the URL of a database in which tests can create and drop schemas.
	Variable = "MCPE_TEST_POSTGRES"
	// Required is the environment variable that is set if tests must not be skipped, as in CI.
	Required = "MCPE_TEST_POSTGRES_REQUIRED"
)

var shared struct {
	once sync.Once
	url  string
	// end stops the server or drops the database of these tests. It is nil if the server is external.
	end func() error
	err error
}

// URL returns a superuser's connection string for a database that all tests of this binary share. If there is no
// database, it skips the test, or fails it if Required is set or Run has started a cluster. If -short is set, it always
// skips the test.
func URL(t testing.TB) string {
	t.Helper()
	skipIfShort(t)
	shared.once.Do(func() {
		if shared.url = os.Getenv(Variable); shared.url != "" {
			return
		}
		if cluster := started(); cluster != "" {
			shared.url, shared.end, shared.err = database(cluster)
			return
		}
		var c *Cluster
		if c, shared.err = Start(Fast); shared.err == nil {
			shared.url, shared.end = c.URL(), c.Stop
		}
	})
	if shared.err != nil {
		skip(t, shared.err)
	}
	return shared.url
}

// skipIfShort skips a test that needs a database if -short is set.
func skipIfShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no database")
	}
}

func skip(t testing.TB, err error) {
	t.Helper()
	text := fmt.Sprintf("NO POSTGRESQL: set %s or install it: %v", Variable, err)
	if os.Getenv(Required) != "" || started() != "" {
		t.Fatal(text)
	}
	fmt.Fprintln(os.Stderr, text)
	t.Skip(text)
}

// Local skips the test if the programs for starting a separate cluster are missing, or fails it if Required is set.
func Local(t testing.TB) {
	t.Helper()
	skipIfShort(t)
	_, err := find()
	switch {
	case err == nil:
	case os.Getenv(Variable) != "":
		t.Skip("only a remote PostgreSQL:", err)
	default:
		skip(t, err)
	}
}

// Main runs the tests. It then stops the cluster that the tests started or drops their database.
func Main(m *testing.M) (code int) {
	defer func() {
		if shared.end != nil {
			if err := shared.end(); err != nil {
				fmt.Fprintln(os.Stderr, "stopping PostgreSQL:", err)
				code = max(code, 1)
			}
		}
	}()
	return m.Run()
}

// Schema returns the name of a new schema for the test to create. The schema is dropped when the test ends, unless the
// whole database is dropped later.
func Schema(t testing.TB) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text()[:12])
	if dsn := URL(t); shared.end == nil {
		t.Cleanup(func() { Exec(t, dsn, "DROP SCHEMA IF EXISTS "+name+" CASCADE") })
	}
	return name
}

// Exec executes statements on a new connection.
func Exec(t testing.TB, dsn string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// Query executes a query that returns one row with one column. It returns the value as text.
func Query(t testing.TB, dsn, sql string) (text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	results, err := conn.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) != 1 {
		t.Fatalf("%s: %v", sql, err)
	}
	return string(results[0].Rows[0][0])
}

// Cluster settings.
var (
	// Fast contains settings for tests that do not crash the database.
	Fast = []string{"fsync=off", "synchronous_commit=on", "full_page_writes=off"}
	// Durable has PostgreSQL's default settings.
	Durable = []string{"fsync=on", "synchronous_commit=on"}
)

// A Cluster is a private PostgreSQL cluster on loopback.
type Cluster struct {
	bin, dir, data string
	port           int
	settings       []string
	reaper         *reaper.Reaper
}

// Start creates a cluster in a temporary directory and starts it.
func Start(settings []string) (*Cluster, error) {
	bin, err := find()
	if err != nil {
		return nil, err
	}
	c, err := newCluster(bin, settings)
	if err == nil {
		err = c.init()
	}
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// newCluster creates the directory of a cluster. The caller must call Stop even if newCluster fails.
func newCluster(bin string, settings []string) (*Cluster, error) {
	// t.TempDir is not suitable, because another user needs access.
	dir, err := os.MkdirTemp("", "mcpe-pg-")
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin, dir: dir, data: filepath.Join(dir, "data"), settings: settings}
	if c.reaper, err = reaper.Watch(dir); err == nil {
		err = c.prepare()
	}
	return c, err
}

func (c *Cluster) init() error {
	return c.run("initdb", "-D", c.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
}

// Start starts a stopped cluster on the same port.
func (c *Cluster) Start() error {
	for try := 0; ; try++ {
		if c.port == 0 || try > 0 {
			port, err := freePort()
			if err != nil {
				return err
			}
			c.port = port
		}
		options := []string{"-c listen_addresses=127.0.0.1", "-c unix_socket_directories=", "-c max_connections=400",
			"-c logging_collector=off", "-c shared_buffers=32MB", "-p " + strconv.Itoa(c.port)}
		for _, s := range c.settings {
			options = append(options, "-c "+s)
		}
		err := c.run("pg_ctl", "-D", c.data, "-w", "-t", "60", "-l", filepath.Join(c.dir, "log"), "-o", strings.Join(options, " "), "start")
		if err == nil {
			return nil
		}
		text, _ := os.ReadFile(filepath.Join(c.dir, "log"))
		if try == 3 || !strings.Contains(string(text), "Address already in use") {
			return fmt.Errorf("%w\n%s", err, text)
		}
	}
}

// Crash stops the cluster without flushing data to disk, simulating a power failure.
func (c *Cluster) Crash() error {
	return c.run("pg_ctl", "-D", c.data, "-m", "immediate", "-w", "stop")
}

// Stop stops the cluster if it is running and removes its directory.
func (c *Cluster) Stop() error {
	if c == nil {
		return nil
	}
	var err error
	if _, missing := os.Stat(filepath.Join(c.data, "postmaster.pid")); missing == nil {
		err = c.Crash()
	}
	return errors.Join(err, os.RemoveAll(c.dir), c.reaper.Release())
}

// Standby creates a hot standby of c.
func (c *Cluster) Standby() (*Cluster, error) {
	s, err := newCluster(c.bin, c.settings)
	if err == nil {
		err = s.run("pg_basebackup", "-D", s.data, "-h", "127.0.0.1", "-p", strconv.Itoa(c.port), "-U", "postgres", "-R", "-c", "fast", "-N")
	}
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Dump writes a backup of the database, replacing any earlier backup.
func (c *Cluster) Dump() error {
	return c.run("pg_dump", append(c.reach(), "-Fc", "-f", c.backup(), "postgres")...)
}

// Restore restores the last backup into the same database. The database must not be in use.
func (c *Cluster) Restore() error {
	return c.run("pg_restore", append(c.reach(), "--clean", "--if-exists", "--exit-on-error", "-d", "postgres", c.backup())...)
}

func (c *Cluster) backup() string { return filepath.Join(c.dir, "backup") }

func (c *Cluster) reach() []string {
	return []string{"-h", "127.0.0.1", "-p", strconv.Itoa(c.port), "-U", "postgres"}
}

// Promote ends the recovery of a standby, which begins a new timeline.
func (c *Cluster) Promote() error { return c.run("pg_ctl", "-D", c.data, "-w", "promote") }

// Listen sets the port that the next Start uses.
func (c *Cluster) Listen(port int) { c.port = port }

// Port returns the port of the cluster.
func (c *Cluster) Port() int { return c.port }

// URL returns the superuser's connection string.
func (c *Cluster) URL() string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)), Path: "/postgres",
		RawQuery: "sslmode=disable"}
	return u.String()
}

func (c *Cluster) run(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "HOME="+c.dir)
	asOther(cmd)
	// The output goes to a file, because the server that pg_ctl starts would keep a pipe open.
	out, err := os.CreateTemp(c.dir, "out-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(out.Name())
		return fmt.Errorf("%s: %w\n%s", name, err, text)
	}
	return nil
}

// ErrMissing reports that the PostgreSQL programs for starting a cluster were not found.
var ErrMissing = errors.New("no initdb found in PATH or where packages put it")

// find returns the directory with the programs of the newest installed PostgreSQL version.
func find() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			return filepath.Dir(p), nil
		}
	}
	var found []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/initdb", "/usr/pgsql-*/bin/initdb", "/usr/local/opt/postgresql*/bin/initdb",
		"/opt/homebrew/opt/postgresql*/bin/initdb", "/usr/local/pgsql/bin/initdb", `C:\Program Files\PostgreSQL\*\bin\initdb.exe`} {
		some, _ := filepath.Glob(pattern) // the patterns are well formed
		found = append(found, some...)
	}
	if len(found) == 0 {
		return "", ErrMissing
	}
	return filepath.Dir(slices.Max(found)), nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
