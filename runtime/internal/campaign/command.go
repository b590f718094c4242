// Package campaign shows that replicas lose nothing. It runs three servers on one database behind a round-robin
// balancer, with emitters, pollers, streams, clients and webhook receivers. It kills, stops and replaces the servers,
// while the database has separate faults and webhooks are added and removed. At the end, every consumer must have
// received exactly the acknowledged occurrences that match its filter, in the order of the log; a receiver may have
// received deliveries twice that a replica could not store before a fault. Main prints a table and exits with 1 if
// there is a finding.
//
// A program per engine calls [Main]: the one for PostgreSQL is in directory postgres, the one for JetStream in the
// module of its store. Each replica is another process of that program, started as "campaign replica" (replica.go).
// The faults of replicas are in faults.go, those of the database in the engine's program, the judgment in report.go.
package campaign

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// Main runs the program of an engine: a replica if the first argument is "replica", otherwise a campaign with the
// settings that full returns for a duration. flag.CommandLine may already have flags of the engine.
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
