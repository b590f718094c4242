package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/clitest"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/peer"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
)

// The fixture of the public conformance suite holds what conform tries without webhooks: its callbacks
// have to be public.
func TestConformFixture(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: it builds a server and judges it whole")
	}
	program := filepath.Join(t.TempDir(), "conformance")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/conformance").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var log clitest.Lines
	cmd := exec.Command(program, "-heartbeat", "500ms", "-cadence", "50ms")
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	at := log.Find(t, regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+/mcp`))
	for _, revision := range sampletest.Draw(t, []string{"2026-07-28", "2025-11-25"}, 1) {
		report, err := conform.Run(t.Context(), conform.Options{Target: peer.Target{URL: at}, Wait: 20 * time.Second, Revision: revision})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range report.Findings {
			webhook := strings.Contains(f.Got, "--listen") || strings.Contains(f.Got, "--ssrf")
			other := strings.HasPrefix(f.Got, "only for a server") || strings.HasPrefix(f.Got, "only with --") || strings.Contains(f.Got, "revision")
			if f.Outcome == verdict.Fail || f.Outcome == verdict.Advice || f.Outcome == verdict.Skip && !webhook && !other {
				t.Errorf("%s: %+v", revision, f)
			}
		}
	}
}
