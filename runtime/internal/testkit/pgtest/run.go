package pgtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// clusterVariable is the environment variable in which Run passes the cluster's connection string to the tests.
const clusterVariable = "MCPE_GEN_TEST_CLUSTER"

// Run executes a command, such as go test, with one cluster for all its test binaries. Each binary creates a database
// in the cluster. A nested Run uses the cluster of the outer Run. If [Variable] is set, Run does not start a cluster.
// If the PostgreSQL programs are missing, it executes the command without a cluster, and each test reports the reason.
// Run returns the command's exit code.
func Run(command []string) (code int, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test ends its children
	cmd.WaitDelay = 3 * time.Second
	if os.Getenv(Variable) == "" && started() == "" {
		c, missing := Start(Fast)
		switch {
		case missing == nil:
			defer func() { err = errors.Join(err, c.Stop()) }()
			cmd.Env = append(os.Environ(), clusterVariable+"="+c.URL())
		case !errors.Is(missing, ErrMissing):
			return 0, missing
		}
	}
	err = cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(ended.ExitCode(), 1), nil // -1 means that a signal terminated the command
	}
	return 0, err
}

// Database creates a database in the cluster that Run started. It returns the connection string and a function that
// drops the database. The connection string is empty if Run has not started a cluster.
func Database() (dsn string, drop func() error, err error) {
	cluster := started()
	if cluster == "" {
		return "", nil, nil
	}
	return database(cluster)
}

// started returns the connection string of the cluster that Run started, or "" if Run has not started one. It does not
// use os.Getenv, because cached test results depend on variables read that way, and this variable differs in every run.
func started() string {
	for _, v := range os.Environ() {
		if url, ok := strings.CutPrefix(v, clusterVariable+"="); ok {
			return url
		}
	}
	return ""
}

// database creates a database in a cluster. end drops the database even if it is in use.
func database(cluster string) (dsn string, end func() error, err error) {
	u, err := url.Parse(cluster)
	if err != nil {
		return "", nil, err
	}
	name := "tests_" + strings.ToLower(rand.Text()[:12])
	u.Path = "/" + name
	exec := func(sql string) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, cluster)
		if err != nil {
			return fmt.Errorf("the cluster of all tests: %w", err)
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, sql)
		return err
	}
	return u.String(), func() error { return exec("DROP DATABASE " + name + " WITH (FORCE)") }, exec("CREATE DATABASE " + name)
}
