// Package doctor looks at the PostgreSQL of a cluster of servers and says what is wrong with it: the verb doctor. It
// writes nothing.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/plain"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/postgres"
)

// Options are what the verb was given.
type Options struct {
	// URL is a connection string, as postgres.Open takes it.
	URL string
	// Schema is the store's.
	Schema string
	// Lease is that of the servers (Options.Replica.Lease).
	Lease time.Duration
	// JSON writes one document.
	JSON   bool
	Stdout io.Writer
	// Paint marks the state of a line.
	Paint func(State, string) string
}

// A UsageError is a mistake in the command line.
type UsageError struct{ reason string }

func (e *UsageError) Error() string { return e.reason }

// A State is how serious a line is.
type State string

// The states of lines.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
)

// A Line is one check, what was found, and what to do about it; that is empty where all is well.
type Line struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// A Report is what all checks have found.
type Report struct {
	Schema string `json:"schema"`
	Lines  []Line `json:"checks"`
	Warned int    `json:"warned"`
	Failed int    `json:"failed"`
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
		return nil, fmt.Errorf("connecting: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	p := &patient{Options: o, quoted: pgx.Identifier{o.Schema}.Sanitize(), known: postgres.SchemaVersion()}
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
	r := &Report{Schema: o.Schema, Lines: p.lines}
	for _, l := range r.Lines {
		switch l.State {
		case Warn:
			r.Warned++
		case Fail:
			r.Failed++
		}
	}
	return r, r.write(o)
}

func (r *Report) write(o Options) error {
	if o.JSON {
		e := json.NewEncoder(o.Stdout)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	w := tabwriter.NewWriter(o.Stdout, 0, 0, 2, ' ', 0)
	for _, l := range r.Lines {
		// The width of what is painted is counted: all states are painted alike.
		fmt.Fprintf(w, "%s\t%s\t%s\n", o.Paint(l.State, fmt.Sprintf("%-4s", l.State)), l.Check, plain.Text(l.Found))
		if l.Advice != "" {
			fmt.Fprintf(w, "%s\t\t→ %s\n", o.Paint(l.State, "    "), plain.Text(l.Advice))
		}
	}
	fmt.Fprintf(w, "%d checks, %d warnings, %d failures\n", len(r.Lines), r.Warned, r.Failed)
	return w.Flush()
}
