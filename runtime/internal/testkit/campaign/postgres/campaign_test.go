package main

import (
	"os"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign/campaigntest"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign/relayed"
	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/pgtest"
)

// asReplica makes the test binary a replica.
const asReplica = "MCPE_CAMPAIGN_REPLICA"

func TestMain(m *testing.M) {
	if os.Getenv(asReplica) != "" {
		if err := campaign.ServeReplica(os.Args[2:], relayed.Open(open)); err != nil {
			os.Stderr.WriteString("campaign replica: " + err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The short form of `make cluster`: REP-1, REP-2, REP-5 to REP-11, REP-14, REP-16, REP-20 and REP-22 over
// real processes, which are this test binary.
func TestCampaign(t *testing.T) {
	pgtest.Local(t)
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	f := fullFaults(12 * time.Second)
	f.cuts, f.slow = 12, 1500*time.Millisecond
	s := settings(12*time.Second, f)
	s.Kills, s.Stops, s.Lease = 8, 1, 3*time.Second
	s.Pollers, s.Streams, s.Typed, s.Receivers, s.Emitters = 2, 3, 2, 2, 4
	campaigned(t, s)
}

// The short form of `make cluster-relay`: OB-1, OB-2 and OB-5 over real processes. Relays die between append and deletion, and
// either database is away.
func TestRelay(t *testing.T) {
	pgtest.Local(t)
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	f := faults{restarts: 1, cuts: 6, terminations: 2}
	s := settings(10*time.Second, f)
	s.Kills, s.Stops, s.Lease, s.Deploy = 2, 0, 3*time.Second, false
	s.Pollers, s.Streams, s.Typed, s.Receivers, s.Guests, s.Emitters = 1, 2, 1, 1, 0, 4
	campaigned(t, relayed.With(s, relayed.Counts{Kills: 4, Restarts: 1, Cuts: 10, Terminations: 3, Locks: 1, Hushes: 1}))
}

// REP-9, REP-16: a rolling deploy and its rollback, without any fault, repeat nothing at any receiver either:
// there is none that would excuse it.
func TestRollingDeploy(t *testing.T) {
	pgtest.Local(t)
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	s := settings(5*time.Second, faults{})
	s.Kills, s.Stops = 0, 0
	s.Pollers, s.Streams, s.Typed, s.Receivers, s.Emitters = 1, 2, 0, 3, 4
	campaigned(t, s)
}

func campaigned(t *testing.T, s campaign.Settings) {
	t.Helper()
	s.Env = []string{asReplica + "=1"}
	campaigntest.Run(t, s)
}
