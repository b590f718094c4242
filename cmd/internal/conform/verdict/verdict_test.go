package verdict

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"slices"
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

// A short token that a signature has by chance is not given away by it (ERR-5).
func TestHolds(t *testing.T) {
	const long = "a-token-of-21-letters"
	var r Redactor
	if r.Holds([]byte("")) || r.Holds([]byte("hush")) {
		t.Error("nothing to hide is found")
	}
	for _, secret := range []string{"hush", `to"ken`, long} {
		r.Hide(secret)
	}
	for text, want := range map[string]bool{
		"v1,oaXIcoIrvEWhushQM7DOOgWXRaLT3nrpEVYcSe5B7bPBaU=": false,
		"hushes":            false,
		"a hush":            true,
		"hush":              true,
		"hushes hush":       true,
		"rehush hushes":     false,
		"ühush":             false,
		"token=hush&a=b":    true,
		`{"token":"hush"}`:  true,
		`{"m":"of\nhush"}`:  true,
		`{"m":"of\nshush"}`: false,
		`{"a":"to\"ken."}`:  true,
		"Hush":              false,
		"x" + long + "x":    true,
		long[:len(long)-1]:  false,
	} {
		if got := r.Holds([]byte(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}

func TestJUnit(t *testing.T) {
	r := Report{Target: "http://a.example/", Seed: 77,
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
		back.Cases[1].Skipped.Message != "why" || back.Cases[2].Failure != nil ||
		!slices.Equal(back.Properties, []junitProperty{{"seed", "77"}}) {
		t.Errorf("%s", b.String())
	}
}

// A badge is well-formed whatever the target is called, and its colour is that of the outcome.
func TestBadge(t *testing.T) {
	for _, tt := range []struct {
		r           Report
		text, color string
	}{
		{Report{Passed: 93, Skipped: 2}, "93 passed, 2 skipped", badgeGreen},
		{Report{Passed: 91, Failed: 2, Advised: 5}, "2 failed of 93", badgeRed},
		{Report{Passed: 15, Unjudged: 151, Unfinished: &Unfinished{Reason: "its limit ended the run"}}, "not finished", badgeGrey},
		{Report{Passed: 15, Failed: 1, Unjudged: 151, Unfinished: &Unfinished{Reason: "its limit ended the run"}}, "1 failed of 16", badgeRed},
	} {
		tt.r.Target = `a"<b>&`
		var b bytes.Buffer
		if err := tt.r.WriteBadge(&b, "client"); err != nil {
			t.Fatal(err)
		}
		var svg struct {
			XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
			Width   int      `xml:"width,attr"`
			Title   string   `xml:"title"`
			Rect    []struct {
				X     int    `xml:"x,attr"`
				Width int    `xml:"width,attr"`
				Fill  string `xml:"fill,attr"`
			} `xml:"rect"`
			Text []string `xml:"g>text"`
		}
		if err := xml.Unmarshal(b.Bytes(), &svg); err != nil {
			t.Fatalf("%v: %s", err, b.String())
		}
		if len(svg.Rect) != 2 || svg.Rect[1].Fill != tt.color || svg.Rect[1].X+svg.Rect[1].Width != svg.Width ||
			len(svg.Text) != 2 || svg.Text[0] != "MCP Events client" || svg.Text[1] != tt.text || !strings.Contains(svg.Title, tt.r.Target+": ") {
			t.Errorf("%s", b.String())
		}
	}
}

// TestUnfinished counts findings that were not judged: every form of the report says that the run was not finished.
func TestUnfinished(t *testing.T) {
	pass, skip := Finding{ID: "D2", Title: "t", Outcome: Pass}, Finding{ID: "D3", Title: "t", Outcome: Skip, Got: "no type"}
	ended := new(Redactor).Finding(Check{ID: "POLL-3", Title: "t"}, ErrRunEnded)
	for _, tt := range []struct {
		findings []Finding
		says     string
	}{
		{[]Finding{pass, skip}, ""},
		{[]Finding{pass, skip, ended}, "not finished: the run ended before"},
		{[]Finding{skip}, "not finished: no check passed or failed"},
		{nil, "not finished: no check passed or failed"},
		{[]Finding{{ID: "D2", Title: "t", Outcome: Fail, Expected: "x", Got: "y"}, skip}, ""},
	} {
		r := Report{Target: "http://a.example/", Findings: tt.findings}
		r.Count()
		var text, junit, badge bytes.Buffer
		if err := errors.Join(r.WriteText(&text, false, func(_ Outcome, s string) string { return s }), r.WriteJUnit(&junit), r.WriteBadge(&badge, "server")); err != nil {
			t.Fatal(err)
		}
		object, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var suite junitSuite
		if err := xml.Unmarshal(junit.Bytes(), &suite); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		is := tt.says != ""
		if got := lines[len(lines)-1] == tt.says; got != is {
			t.Errorf("%q: text: %s", tt.says, text.String())
		}
		if got := strings.Contains(string(object), `"unfinished":{"reason":"`); got != is {
			t.Errorf("%q: JSON: %s", tt.says, object)
		}
		if got := suite.Errors > 0 && suite.Cases[len(suite.Cases)-1].Error.Message == tt.says; got != is || suite.Tests != len(suite.Cases) {
			t.Errorf("%q: JUnit: %s", tt.says, junit.String())
		}
		if strings.Contains(badge.String(), badgeGreen) && (is || r.Failed > 0) {
			t.Errorf("%q: a green badge", tt.says)
		}
	}
}

// An accepted failure does not count as one, and a check that passed needs no acceptance.
func TestAccept(t *testing.T) {
	report := Report{Target: "x", Findings: []Finding{{Name: "a", ID: "D1", Outcome: Fail, Expected: "e", Got: "g"},
		{Name: "b", ID: "D2", Outcome: Fail}, {Name: "c", ID: "D3", Outcome: Pass}, {Name: "d", ID: "D4", Outcome: Skip}}}
	report.Accept([]string{"a", "c", "d"})
	if report.Failed != 1 || report.Accepted != 1 || report.Passed != 1 || report.Skipped != 1 || !slices.Equal(report.Obsolete, []string{"c"}) {
		t.Errorf("%+v", report)
	}
	var text bytes.Buffer
	if err := report.WriteText(&text, false, func(_ Outcome, s string) string { return s }); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"accepted  D1       a: \n          expected e\n          got      g\n",
		"x: 1 passed, 1 failed, 1 skipped, 1 accepted in 0.0 s, seed 0\n", "c passed; remove it from --accept\n"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("%q has no %q", text.String(), line)
		}
	}
	only := Report{Findings: []Finding{{Name: "a", Outcome: Fail}}}
	only.Accept([]string{"a"})
	if only.Unfinished != nil {
		t.Errorf("a run with an accepted failure alone is unfinished: %+v", only.Unfinished)
	}
}
