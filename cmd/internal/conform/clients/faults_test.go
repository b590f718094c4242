package clients

import (
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/wrongserver"
)

// deaf is the fault of a program that does not end when it is asked to.
const deaf = "ignores-sigterm"

// TestRight judges the client without a fault, which is the measure of all faults.
func TestRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := judgeIn(t, Options{Handled: "-"}, wrongly(""))
		for _, f := range found(report) {
			t.Errorf("%+v", f)
		}
		if report.Skipped > 0 || report.Unfinished != nil {
			t.Errorf("%d skipped, %v", report.Skipped, report.Unfinished)
		}
	})
}

// TestFirstScenes holds that no first scene takes its mode from another, which is played at the same time.
func TestFirstScenes(t *testing.T) {
	for _, sc := range scenes() {
		if sc.runsFirst && sc.mode == "" {
			t.Errorf("%q is a first scene and has no mode of its own", sc.name)
		}
	}
}

// TestFaults judges the client with each fault, and without one.
func TestFaults(t *testing.T) {
	t.Parallel()
	none := func(verdict.Check) bool { return false }
	wrongserver.Try(t, wrongserver.Client, Checks(), none, func(t *testing.T, f wrongserver.Fault) *verdict.Report {
		return judgeHow(t, Options{Handled: "-"}, wrongly(f.Name), f.Name == deaf)
	})
}
