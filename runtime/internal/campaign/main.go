// Command campaign proves that replicas lose nothing: it runs three servers over one PostgreSQL behind a
// round-robin balancer, with emitters, pollers, streams, clients and webhook receivers, and kills, stops and
// replaces them while the database crashes, becomes slow, locks tables, and loses, refuses and silences connections. Webhooks
// come and go meanwhile. At the end every consumer has
// to have what was acknowledged and matches, in the order of the log, and nothing else; a receiver may have
// got again what its replica could not write down before a fault. It prints a table and exits with 1 otherwise.
//
// Each replica is this program again, started as "campaign replica" (replica.go). The faults are in
// faults.go, the judgement in report.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "replica" {
		if err := serveReplica(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "campaign replica:", err)
			os.Exit(1)
		}
		return
	}
	d := flag.Duration("time", fullTime, "how long faults happen; below 5 minutes there are fewer of them")
	first := flag.Bool("first", false, "end with the first finding")
	restores := flag.Int("restores", 0, "put an older backup back so often, in the place of all else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, *d, *first, *restores); err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, d time.Duration, first bool, restores int) error {
	s := full(d)
	s.first, s.restores = first, restores
	var err error
	if s.program, err = os.Executable(); err != nil {
		return err
	}
	if s.dir, err = os.MkdirTemp("", "mcpe-campaign-"); err != nil {
		return err
	}
	fmt.Printf("%d replicas for %v; their logs are in %s.\n", replicas, d, s.dir)
	r, err := run(ctx, s)
	if r != nil {
		r.print(os.Stdout)
	}
	if err == nil && r != nil {
		err = r.short()
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(s.dir)
}
