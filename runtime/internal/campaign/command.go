// Package campaign proves that replicas lose nothing: it runs three servers over one database behind a round-robin
// balancer, with emitters, pollers, streams, clients and webhook receivers, and kills, stops and replaces them while
// the database has faults of its own kind. Webhooks come and go meanwhile. At the end every consumer has to have what
// was acknowledged and matches, in the order of the log, and nothing else; a receiver may have got again what its
// replica could not write down before a fault. It prints a table and exits with 1 otherwise.
//
// A program for each engine calls [Main]: PostgreSQL's is below postgres, JetStream's in the module of its store. Each
// replica is that program again, started as "campaign replica" (replica.go). The faults of replicas are in faults.go,
// those of the database with the program, the judgement in report.go.
package campaign

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// Main runs the program of an engine: a replica when the first argument says so, else a campaign by the settings that
// full returns for a time. Flags of the engine's own are in flag.CommandLine already.
func Main(full func(d time.Duration) Settings, open Open) {
	if len(os.Args) > 1 && os.Args[1] == "replica" {
		if err := ServeReplica(os.Args[2:], open); err != nil {
			fmt.Fprintln(os.Stderr, "campaign replica:", err)
			os.Exit(1)
		}
		return
	}
	d := flag.Duration("time", fullTime, "how long faults happen; below 5 minutes there are fewer of them")
	first := flag.Bool("first", false, "end with the first finding")
	restores := flag.Int("restores", 0, "put an older backup back so often, in the place of all else")
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
