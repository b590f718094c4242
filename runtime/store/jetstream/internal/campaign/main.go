// Command campaign runs the cluster campaign on three nats-servers: make cluster ENGINE=jetstream. It kills, stops,
// restarts and wipes nats-servers and partitions their network, but never affects two of them at the same time. See
// runtime/internal/testkit/campaign. With -outages, it repeatedly kills all three simultaneously. With -relay, the author's
// data is in a PostgreSQL database with an outbox, and the campaign kills the relay between append and deletion: make
// cluster-relay ENGINE=jetstream.
//
// While the replicas run, a plain NATS client publishes to a separate stream. For comparison, the report counts the
// messages that plain JetStream loses.
//
// Each nats-server is a separate process of this program, started as "campaign nats".
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign/relayed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == serverArg {
		if err := serveNATS(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "campaign nats:", err)
			os.Exit(1)
		}
		return
	}
	outages := flag.Int("outages", 0, "kill all nats-servers at once this many times in 20 minutes, proportionally fewer in less time, instead of other faults")
	relay := flag.Bool("relay", false, "keep the author's data in PostgreSQL, with an outbox and a relay (OB-1 to OB-5)")
	campaign.Main(func(d time.Duration) campaign.Settings {
		f := fullFaults(d)
		if *outages > 0 {
			f = faults{outages: scale(*outages, d)}
		}
		s := settings(d, f)
		if *relay {
			s = relayed.With(s, relayed.Full(d))
		}
		return s
	}, relayed.Open(open))
}

// settings returns the settings of a full campaign with the given nats-server faults.
func settings(d time.Duration, f faults) campaign.Settings {
	s := campaign.Full(d)
	s.Kills, s.Stops = scale(200, d), scale(20, d)
	s.Lease, s.Late, s.Transactions = 12*time.Second, 3*time.Minute, false
	s.Start = func(ctx context.Context, dir string) (campaign.Database, error) { return startDatabase(ctx, dir, f) }
	return s
}

// open opens a replica's store.
func open(ctx context.Context, url string, log *slog.Logger) (*campaign.Store, error) {
	kept, err := jetstream.Open(ctx, url, jetstream.Options{Logger: log})
	if err != nil {
		return nil, err
	}
	return &campaign.Store{Store: kept}, nil
}

// serverArg is the argument that makes this program run as a nats-server. It is followed by the path of a configuration
// file.
const serverArg = "nats"

// serveNATS runs a nats-server. It exits when its standard input is closed, which happens when its parent process
// exits.
func serveNATS(config string) error {
	o, err := server.ProcessConfigFile(config)
	if err != nil {
		return err
	}
	s, err := server.NewServer(o)
	if err != nil {
		return err
	}
	s.ConfigureLogger()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if err := server.Run(s); err != nil {
		return err
	}
	s.WaitForShutdown()
	return nil
}
