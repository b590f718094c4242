package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// BRIDGE-8: a scripted agent over the bridge waits for CI, acts by a tool, and misses nothing over a restart.
func TestAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds the command")
	}
	program := filepath.Join(t.TempDir(), "mcpe-gen")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/mcpe-gen").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	var out strings.Builder
	if err := run(ctx, program, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	// How many batches a burst is depends on how busy the machine is.
	var got []string
	for line := range strings.Lines(out.String()) {
		if !strings.Contains(line, "woken by a batch") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := []string{
		"agent: waits for CI",
		"build of 4f2a91c: success",
		"test of 4f2a91c: failure",
		"lint of 4f2a91c: success",
		"agent: calls rerun_job: started run-2-again",
		"agent: ends, and the bridge with it",
		"agent: is back, and waits",
		"test of 4f2a91c: success",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", out.String())
	}
}

// A bridge that cannot be started is an error that says so.
func TestNoBridge(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), filepath.Join(t.TempDir(), "none"), &out); err == nil || !strings.Contains(err.Error(), "starting the bridge") {
		t.Errorf("got %v", err)
	}
}
