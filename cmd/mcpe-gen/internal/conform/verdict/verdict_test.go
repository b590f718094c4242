package verdict

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
)

func TestShown(t *testing.T) {
	var r Redactor
	r.Hide(`to"ken`)
	for in, want := range map[string]string{
		"a to\"ken b":             "a [redacted] b",
		`a to\"ken b`:             "a [redacted] b",
		"\x1b[2J\u202e":           `\x1b[2J\u202e`,
		strings.Repeat("ü", 5000): strings.Repeat("ü", MaxShown/2) + "…",
	} {
		if got := r.Shown([]byte(in)); got != want {
			t.Errorf("%q: %q", in, got)
		}
	}
}

func TestJUnit(t *testing.T) {
	r := Report{Target: "http://a.example/",
		Findings: []Finding{{ID: "POLL-2", Title: "a < b", Outcome: Fail, Expected: "x", Got: "y"},
			{ID: "POLL-3", Title: "t", Outcome: Skip, Got: "why"}, {ID: "D10", Title: "t", Outcome: Advice, Expected: "x"},
			{ID: "D2", Title: "t", Outcome: Pass}}}
	r.Count()
	var b bytes.Buffer
	if err := r.WriteJUnit(&b); err != nil {
		t.Fatal(err)
	}
	var back junitSuite
	if err := xml.Unmarshal(b.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Tests != 4 || back.Failures != 1 || back.Skipped != 1 || back.Cases[0].Failure == nil ||
		back.Cases[1].Skipped.Message != "why" || back.Cases[2].Failure != nil {
		t.Errorf("%s", b.String())
	}
}
