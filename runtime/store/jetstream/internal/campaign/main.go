// Command campaign is the campaign of servers on three nats-servers, which are killed, stopped, restarted and emptied, and
// whose network is parted, never so that two of them are away at once: make cluster ENGINE=jetstream. See
// runtime/internal/campaign. With -outages all three are killed at once, again and again. With -relay the author's data are
// in a PostgreSQL with an outbox, and the relay is killed between append and deletion: make cluster-relay ENGINE=jetstream.
//
// Beside the replicas a program without our code publishes to a stream of its own: what plain JetStream loses in the same
// run stands in the report.
//
// Each nats-server is this program again, started as "campaign nats".
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

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/campaign/relayed"
	"github.com/mcpe-gen/mcpe-gen/runtime/store/jetstream"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == asServer {
		if err := serveNATS(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, "campaign nats:", err)
			os.Exit(1)
		}
		return
	}
	outages := flag.Int("outages", 0, "kill all nats-servers at once so many times in 20 minutes, fewer in less time, instead of their other faults")
	relay := flag.Bool("relay", false, "have the author's data in a PostgreSQL, with an outbox and a relay (OB-1 to OB-5)")
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

// settings are those of a campaign in full, but for the faults of the servers.
func settings(d time.Duration, f faults) campaign.Settings {
	s := campaign.Full(d)
	s.Kills, s.Stops = scale(200, d), scale(20, d)
	s.Lease, s.Late, s.Transactions = 12*time.Second, 3*time.Minute, false
	s.Start = func(ctx context.Context, dir string) (campaign.Database, error) { return start(ctx, dir, f) }
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

// asServer is the argument that makes this program a nats-server, before the path of its configuration.
const asServer = "nats"

// serveNATS is the main function of a nats-server. It ends with the program that has started it, by its standard input.
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
