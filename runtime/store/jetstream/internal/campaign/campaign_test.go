package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/campaign"
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
	s.Dir = t.ArtifactDir()
	var err error
	if s.Program, err = os.Executable(); err != nil {
		t.Fatal(err)
	}
	r, err := campaign.Run(t.Context(), s)
	if err != nil {
		logs(t, s.Dir)
	}
	if r != nil {
		var b strings.Builder
		r.Print(&b)
		t.Log("\n"+b.String(), r.Short())
	}
	if err != nil {
		t.Error(err)
	}
}

// logs shows the ends of the logs of replicas and servers, without dumps of goroutines.
func logs(t *testing.T, dir string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if !strings.HasSuffix(f.Name(), ".log") {
			continue
		}
		text, err := os.ReadFile(dir + "/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ = bytes.Cut(text, []byte("\nSIGQUIT"))
		t.Logf("%s:\n%s", f.Name(), text[max(0, len(text)-6_000):])
	}
}
