// Package campaign tests that replicas lose no occurrences. It runs three servers on one database behind a round-robin
// load balancer, with emitters, pollers, streams, clients and webhook receivers. It kills, suspends and replaces the
// servers. At the same time, it causes faults of the database, adds and removes webhooks, and acts as an operator
// (operator.go). At the end, every consumer must have received exactly the acknowledged occurrences that match its
// filter, in the order of the log. Only a webhook receiver can have received a delivery twice, if a replica could not
// store the delivery before a fault, or an operator asked for it. Main prints a table and exits with status 1 if
// there are findings.
//
// Each engine has a program that calls [Main]. The program for PostgreSQL is in directory postgres, and the program for
// JetStream is in the module of its store. Each replica is another process of the same program, started as "campaign
// replica" (replica.go). Faults of replicas are in faults.go, faults of the database are in the engine's program, and
// the evaluation is in report.go.
package campaign

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// Main is the main function of an engine's program. If the first argument is "replica", it runs a replica. Otherwise it
// runs a campaign with the settings that full returns for the duration. flag.CommandLine can already contain flags of
// the engine.
func Main(full func(d time.Duration) Settings, open Open) {
	if len(os.Args) > 1 && os.Args[1] == "replica" {
		if err := ServeReplica(os.Args[2:], open); err != nil {
			fmt.Fprintln(os.Stderr, "campaign replica:", err)
			os.Exit(1)
		}
		return
	}
	d := flag.Duration("time", fullTime, "how long faults happen; below 5 minutes there are proportionally fewer")
	first := flag.Bool("first", false, "stop at the first finding")
	restores := flag.Int("restores", 0, "restore an older backup this many times, instead of all other faults")
	flag.Parse()
	s := full(*d)
	s.First, s.Restores = *first, *restores
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, s Settings) (err error) {
	if s.Program, err = os.Executable(); err != nil {
		return err
	}
	if s.Dir, err = os.MkdirTemp("", "mcpe-campaign-"); err != nil {
		return err
	}
	fmt.Printf("%d replicas for %v; their logs are in %s.\n", Replicas, s.Time, s.Dir)
	r, err := Run(ctx, s)
	if r != nil {
		r.Print(os.Stdout)
	}
	if err == nil && r != nil {
		err = r.Short()
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(s.Dir)
}
