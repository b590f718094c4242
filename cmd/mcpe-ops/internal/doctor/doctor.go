// Package doctor implements the verb doctor. It checks the PostgreSQL database of a server cluster and reports
// problems. It does not write to the database.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
)

// Options configures an execution of the verb.
type Options struct {
	// URL is a connection string as accepted by postgres.Open.
	URL string
	// Schema is the database schema of the store.
	Schema string
	// Outbox is the schema of an outbox with a relay. If it is "", no outbox is checked.
	Outbox string
	// Lease is the lease duration of the servers (replicas.Options.Lease).
	Lease time.Duration
	// JSON writes the report as a single JSON document.
	JSON   bool
	Stdout io.Writer
	// Paint colors the text of a state.
	Paint func(checkup.State, string) string
}

// A Report contains the findings of all checks.
type Report struct {
	Schema string `json:"schema"`
	checkup.Report
}

const (
	// connectTime is the timeout for connecting. statementTime is the timeout for a statement. lockTime is the timeout
	// for waiting for a lock.
	connectTime   = 10 * time.Second
	statementTime = "15s"
	lockTime      = "2s"
)

// Run runs the checks and writes the report. If it cannot connect, it returns an error and no report.
func Run(ctx context.Context, o Options) (*Report, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, cli.Refusef("the connection string: %v", err) // pgx omits the password
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	// A pooler in transaction mode keeps no session state.
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connecting: %s", strings.NewReplacer(":\n\t", ": ", "\n\t", "; ").Replace(err.Error()))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	p := &checker{Options: o, quoted: pgx.Identifier{o.Schema}.Sanitize()}
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for name, value := range map[string]string{"statement_timeout": statementTime, "lock_timeout": lockTime} {
			if _, err := tx.Exec(ctx, "SELECT set_config($1, $2, true)", name, value); err != nil {
				return err
			}
		}
		return p.runAll(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	p.checkNotifications(ctx, conn, config)
	r := &Report{o.Schema, p.Report}
	if o.JSON {
		return r, checkup.JSON(o.Stdout, r)
	}
	return r, r.Text(o.Stdout, o.Paint)
}
