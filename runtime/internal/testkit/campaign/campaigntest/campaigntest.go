// Package campaigntest runs a campaign as a test. It makes no compatibility promise.
package campaigntest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcpe-gen/mcpe-gen/runtime/internal/testkit/campaign"
)

// Run runs a campaign whose replicas are the test binary, and logs its report. If the campaign fails, Run also logs the
// ends of the logs of all processes.
func Run(t *testing.T, s campaign.Settings) {
	t.Helper()
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

// logs logs the ends of the log files, without dumps of goroutines.
func logs(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ = bytes.Cut(text, []byte("\nSIGQUIT"))
		t.Logf("%s:\n%s", filepath.Base(f), text[max(0, len(text)-8_000):])
	}
}
