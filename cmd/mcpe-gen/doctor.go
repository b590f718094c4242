package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-gen/internal/doctor"
	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
	"github.com/mcpe-gen/mcpe-gen/runtime/outbox/pgoutbox"
)

const doctorHelp = `Check the PostgreSQL database of a cluster of servers: the server's settings, above all
those that can lose acknowledged events; the role's privileges; the version and
generation of the schema; leases, and shards without an owner; how long the outbox has
waited; who holds the oldest snapshot; dead rows; clocks; notifications. An outbox whose
events are in another store (package pgoutbox) is looked at too: its rows, privileges and
relay.

Each line says what was found and, if something is wrong, what to do. doctor writes
nothing, and does not read payloads, arguments or secrets.

URL is a connection string as for postgres.Open; the default is $DATABASE_URL. Run
doctor with the servers' role and on one of their machines: it reports the privileges,
round trips and clock that it sees itself. Keep the password out of the command line:
put it into PGPASSWORD or ~/.pgpass.

Exit codes: 0 when nothing fails; 1 when there is no connection; 7 when something fails
or, with --strict, warns.`

func newDoctor(c *command) *cobra.Command {
	var o doctor.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor [URL]",
		Short: "Diagnose a PostgreSQL store",
		Long:  doctorHelp,
		Example: `  mcpe-gen doctor postgres://events@db.example.com/events
  mcpe-gen doctor --strict --json > doctor.json`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 1:
				return usagef("doctor takes one connection string, got %d", len(args))
			case len(args) == 1:
				o.URL = args[0]
			default:
				o.URL = os.Getenv("DATABASE_URL")
			}
			if o.URL == "" {
				return usagef("doctor needs a connection string, as an argument or in DATABASE_URL")
			}
			if asJSON {
				c.format = "json"
			}
			return c.doctor(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.Schema, "schema", "mcpe", "the store's `schema`")
	flags.StringVar(&o.Outbox, "outbox", pgoutbox.DefaultSchema, "the `schema` of an outbox with a relay, if there is one")
	flags.DurationVar(&o.Lease, "lease", 10*time.Second, "the servers' Options.Replica.Lease, the `time` that delays are compared with")
	flags.BoolVar(&asJSON, "json", false, "the same as --format json")
	return cmd
}

func (c *command) doctor(ctx context.Context, o doctor.Options) error {
	switch {
	case c.format != "text" && c.format != "json":
		return usagef("--format %s: doctor writes text and json", c.format)
	case o.Lease <= 0:
		return usagef("--lease is %v, it must be above 0", o.Lease)
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	o.JSON, o.Stdout, o.Paint = c.format == "json", c.stdout, c.paintState
	report, err := doctor.Run(ctx, o)
	if wrong, ok := errors.AsType[*doctor.UsageError](err); ok {
		return refuse(wrong)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return err
	case report.Failed > 0 || c.strict && report.Warned > 0:
		return silent(exitDoctor)
	}
	return nil
}

// stateColors are ANSI's: green, yellow, red.
var stateColors = map[checkup.State]string{checkup.OK: "32", checkup.Warn: "33", checkup.Fail: "31"}

// paintState marks a state where standard output is looked at by a person.
func (c *command) paintState(s checkup.State, text string) string {
	if !c.coloredOn(c.stdout) {
		return text
	}
	return fmt.Sprintf("\x1b[%sm%s\x1b[0m", stateColors[s], text)
}
