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

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/cli"
	"github.com/mcpe-gen/mcpe-gen/cmd/mcpe-ops/internal/doctor"
	"github.com/mcpe-gen/mcpe-gen/internal/checkup"
	"github.com/mcpe-gen/mcpe-gen/runtime/outbox/pgoutbox"
)

// exitDoctor is the exit code if a check fails or, with --strict, returns a warning.
const exitDoctor = 7

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

For the URL of a NATS server doctor starts "mcpe-jetstream doctor", a program to install
separately, with --lease, --strict and --json, and with the flags after "--".

Exit codes: 0 when nothing fails; 1 when there is no connection; 7 when something fails
or, with --strict, warns.`

func newDoctor(c *command) *cobra.Command {
	d := diagnosis{command: c}
	cmd := &cobra.Command{
		Use:   "doctor [URL] [-- FLAG...]",
		Short: "Diagnose a store in PostgreSQL or NATS JetStream",
		Long:  doctorHelp,
		Example: `  mcpe-ops doctor postgres://events@db.example.com/events
  mcpe-ops doctor --strict --format json > doctor.json
  mcpe-ops doctor nats://nats.example.com -- -creds ops.creds -monitor http://nats.example.com:8222`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              d.run,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&d.Schema, "schema", "mcpe", "the store's `schema` in PostgreSQL")
	flags.StringVar(&d.Outbox, "outbox", pgoutbox.DefaultSchema, "the `schema` of an outbox with a relay in PostgreSQL, if there is one")
	flags.DurationVar(&d.Lease, "lease", 10*time.Second, "the servers' replicas.Options.Lease, the `time` that delays are compared with")
	flags.BoolVar(&d.strict, "strict", false, "treat warnings as failures")
	return cmd
}

// A diagnosis is one execution of the verb doctor.
type diagnosis struct {
	*command
	doctor.Options
	strict bool // --strict
}

func (d *diagnosis) run(cmd *cobra.Command, args []string) error {
	var passed []string // to pass to mcpe-jetstream
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		args, passed = args[:dash], args[dash:]
	}
	switch {
	case len(args) > 1:
		return cli.Usagef("doctor takes one URL, got %d", len(args))
	case len(args) == 1:
		d.URL = args[0]
	default:
		d.URL = os.Getenv("DATABASE_URL")
	}
	switch {
	case d.URL == "":
		return cli.Usagef("doctor needs the URL of a store, as an argument or in DATABASE_URL")
	case d.Lease <= 0:
		return cli.Usagef("--lease is %v, it must be above 0", d.Lease)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if isNATS(d.URL) {
		return d.jetstream(ctx, cmd.Flags().Changed, passed)
	}
	if len(passed) > 0 {
		return cli.Usagef("flags after -- are for the URL of a NATS server, got %q", passed[0])
	}
	return d.postgres(ctx)
}

func (d *diagnosis) postgres(ctx context.Context) error {
	d.JSON, d.Options.Stdout, d.Paint = d.Format == "json", d.command.Stdout, d.paintState
	report, err := doctor.Run(ctx, d.Options)
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted")
	case err != nil:
		return err
	case report.Failed > 0 || d.strict && report.Warned > 0:
		return cli.Silent(exitDoctor)
	}
	return nil
}

// stateColors maps states to ANSI colors: green, yellow and red.
var stateColors = map[checkup.State]string{checkup.OK: "32", checkup.Warn: "33", checkup.Fail: "31"}

// paintState colors a state if standard output is a terminal.
func (c *command) paintState(s checkup.State, text string) string {
	if !c.Colored(c.Stdout) {
		return text
	}
	return fmt.Sprintf("\x1b[%sm%s\x1b[0m", stateColors[s], text)
}
