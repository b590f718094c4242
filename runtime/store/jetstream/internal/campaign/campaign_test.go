package main

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign/campaigntest"
)

// TestMain runs a nats-server or a replica if the first argument says so.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == serverArg:
		err = serveNATS(os.Args[2])
	case len(os.Args) > 1 && os.Args[1] == "replica":
		err = campaign.ServeReplica(os.Args[2:], open)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// The short form of make cluster ENGINE=jetstream: REP-1, REP-2, REP-5 to REP-11, REP-14, REP-16 and REP-22 on three
// nats-server processes: one is killed, one loses its disk, one is cut off, and all are restarted.
func TestCampaign(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	s := settings(20*time.Second, faults{kills: 1, rolls: 1, partitions: 1, empties: 1, parted: 5 * time.Second})
	s.Kills, s.Stops, s.Deploy = 6, 0, true
	s.Pollers, s.Streams, s.Typed, s.Receivers, s.Emitters = 2, 3, 2, 2, 2
	campaigntest.Run(t, s)
}
