// Package doctor looks at the PostgreSQL of a cluster of servers and says what is wrong with it: the verb doctor. It
// writes nothing.
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

// Options are what the verb was given.
type Options struct {
	// URL is a connection string, as postgres.Open takes it.
	URL string
	// Schema is the store's.
	Schema string
	// Outbox is the schema of an outbox with a relay, which may be there or not; "" looks at none.
	Outbox string
	// Lease is that of the servers (Options.Replica.Lease).
	Lease time.Duration
	// JSON writes one document.
	JSON   bool
	Stdout io.Writer
	// Paint marks the state of a line.
	Paint func(checkup.State, string) string
}

// A UsageError is a mistake in the command line.
type UsageError struct{ reason string }

func (e *UsageError) Error() string { return e.reason }

// A Report is what all checks have found.
type Report struct {
	Schema string `json:"schema"`
	checkup.Report
}

const (
	// connectTime bounds connecting, statementTime a statement, and lockTime its wait for a lock.
	connectTime   = 10 * time.Second
	statementTime = "15s"
	lockTime      = "2s"
)

// Run makes the checks and writes the report. An error means that there is none: no connection could be made.
func Run(ctx context.Context, o Options) (*Report, error) {
	config, err := pgx.ParseConfig(o.URL)
	if err != nil {
		return nil, &UsageError{fmt.Sprintf("the connection string: %v", err)} // pgx leaves the password out
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTime
	}
	// A pooler in transaction mode keeps nothing of a session.
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
