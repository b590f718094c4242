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

// A badge is well-formed whatever the target is called, and its colour is that of the outcome.
func TestBadge(t *testing.T) {
	for _, tt := range []struct {
		r           Report
		text, color string
	}{
		{Report{Passed: 93, Skipped: 2}, "93 passed, 2 skipped", badgeGreen},
		{Report{Passed: 91, Failed: 2, Advised: 5}, "2 failed of 93", badgeRed},
		{Report{Skipped: 4}, "nothing tried", badgeGrey},
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
