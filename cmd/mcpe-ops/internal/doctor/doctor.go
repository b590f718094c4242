// Package doctor implements the verb doctor: it checks the PostgreSQL of a cluster of servers and reports problems. It
// does not write to the database.
package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
)

// Options are the options of the verb.
type Options struct {
	// URL is a connection string in the form of postgres.Open.
	URL string
	// Schema is the schema of the store.
	Schema string
	// Outbox is the schema of an outbox with a relay, if it exists; "" checks none.
	Outbox string
	// Lease is the lease of the servers (Options.Replica.Lease).
	Lease time.Duration
	// JSON writes the report as one document.
	JSON   bool
	Stdout io.Writer
	// Paint colors the state of a line.
	Paint func(checkup.State, string) string
}

// A UsageError is a mistake in the command line.
type UsageError struct{ reason string }

func (e *UsageError) Error() string { return e.reason }

// A Report has the findings of all checks.
type Report struct {
	Schema string `json:"schema"`
	checkup.Report
}

const (
	// connectTime is the timeout of connecting, statementTime of a statement, and lockTime of its wait for a lock.
	connectTime   = 10 * time.Second
	statementTime = "15s"
	lockTime      = "2s"
)

// Run runs the checks and writes the report. It returns an error without a report if it cannot connect.
func Run(ctx context.Context, o Options) (*Report, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, &UsageError{fmt.Sprintf("the connection string: %v", err)} // pgx omits the password
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
	p := &patient{Options: o, quoted: pgx.Identifier{o.Schema}.Sanitize()}
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for name, value := range map[string]string{"statement_timeout": statementTime, "lock_timeout": lockTime} {
			if _, err := tx.Exec(ctx, "SELECT set_config($1, $2, true)", name, value); err != nil {
				return err
			}
		}
		return p.examine(ctx, tx)
	})
	if err != nil {
		return nil, err
	}
	p.notifications(ctx, conn, config)
	r := &Report{o.Schema, p.Report}
	if o.JSON {
		return r, checkup.JSON(o.Stdout, r)
	}
	return r, r.Text(o.Stdout, o.Paint)
}
