package wrongserver

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/mcpe-gen/mcpe-gen/cmd/internal/conform/verdict"
	"github.com/mcpe-gen/mcpe-gen/internal/testkit/sampletest"
)

// samplesPerPeer is the number of faults per peer that a run tries. If MCPE_TEST_ALL is set, it tries all of them.
const samplesPerPeer = 30

// Try runs the judge with each fault of a peer, and once without a fault, each in its own synctest bubble. The checks
// of a fault must report it, and no other check may fail. checks are the checks of the judge. Every check must have a
// fault unless untried exempts it.
func Try(t *testing.T, p Peer, checks []verdict.Check, untried func(verdict.Check) bool, judge func(*testing.T, Fault) *verdict.Report) {
	t.Helper()
	faults := Of(p)
	known, named := map[string]bool{}, map[string]bool{}
	for _, c := range checks {
		if known[c.Name] {
			t.Errorf("two checks are called %q", c.Name)
		}
		known[c.Name] = true
	}
	for _, f := range faults {
		for _, name := range f.Checks {
			named[name] = true
		}
		for _, name := range slices.Concat(f.Checks, f.Also) {
			if !known[name] {
				t.Errorf("%s: no check has the name %q", f.Name, name)
			}
		}
	}
	for _, c := range checks {
		if !named[c.Name] && !untried(c) {
			t.Errorf("%s, %s: has no fault", c.ID, c.Name)
		}
	}
	faults = sampletest.Draw(t, faults, samplesPerPeer)
	for _, f := range append([]Fault{{Peer: p}}, faults...) {
		name := f.Name
		if name == "" {
			name = "no fault"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f.checkReport(t, judge(t, f)) })
		})
	}
}

// secretPattern matches the beginning of a secret, but not the bare prefix.
var secretPattern = regexp.MustCompile("whsec_[A-Za-z0-9+/]")

// checkReport checks a report against the fault.
func (f Fault) checkReport(t *testing.T, report *verdict.Report) {
	t.Helper()
	blamed := map[string]bool{}
	for _, found := range report.Findings {
		if found.Outcome != verdict.Fail && found.Outcome != verdict.Advice {
			continue
		}
		blamed[found.Name] = true
		if !slices.Contains(slices.Concat(f.Checks, f.Also), found.Name) {
			t.Errorf("it is blamed for what it does right: %+v", found)
		}
		if found.Expected == "" || found.Got == "" || found.Request == "" && found.Answer == "" {
			t.Errorf("a finding that does not say what is wrong: %+v", found)
		}
	}
	for _, name := range f.Checks {
		if !blamed[name] {
			var text bytes.Buffer
			_ = report.WriteText(&text, true, func(_ verdict.Outcome, s string) string { return s })
			t.Errorf("%s does not name it:\n%s", name, text.String())
		}
	}
	if f.Name == "" && report.Unfinished != nil {
		t.Errorf("the run was not finished: %+v", report.Unfinished)
	}
	if text, err := json.Marshal(report); err != nil || secretPattern.Match(text) {
		t.Errorf("the report has a secret: %v", err)
	}
}
