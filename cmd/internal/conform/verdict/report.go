package verdict

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A Report contains the findings of a run.
type Report struct {
	Target string `json:"target"`
	// Revision is the protocol revision of the run, or "" if none was negotiated.
	Revision string `json:"revision,omitempty"`
	// Seed repeats the values that the run drew.
	Seed     uint64  `json:"seed"`
	Seconds  float64 `json:"seconds"`
	Passed   int     `json:"passed"`
	Failed   int     `json:"failed"`
	Skipped  int     `json:"skipped"`
	Advised  int     `json:"advised"`
	Unjudged int     `json:"unjudged"`
	Accepted int     `json:"accepted,omitempty"`
	// Obsolete names the checks in Accept that passed.
	Obsolete []string `json:"obsolete,omitempty"`
	// Unfinished is nil if the run completed every check that it could.
	Unfinished *Unfinished `json:"unfinished,omitempty"`
	Findings   []Finding   `json:"findings"`
}

// An Unfinished explains why a run proves less than its findings suggest. The run ended early or completed almost no
// checks.
type Unfinished struct {
	Reason string `json:"reason"`
	// Request is the request that was unanswered when the run ended, or "".
	Request string `json:"request,omitempty"`
}

// Count counts the findings by outcome at the end of the run. It marks the report as unfinished if a finding is
// unjudged, or if no check passed or failed.
func (r *Report) Count() {
	r.Passed, r.Failed, r.Skipped, r.Advised, r.Unjudged, r.Accepted = 0, 0, 0, 0, 0, 0
	var why []string
	for _, f := range r.Findings {
		switch f.Outcome {
		case Pass:
			r.Passed++
		case Fail:
			r.Failed++
		case Skip:
			r.Skipped++
		case Advice:
			r.Advised++
		case Accepted:
			r.Accepted++
		case Unjudged:
			r.Unjudged++
			if !slices.Contains(why, f.Got) {
				why = append(why, f.Got)
			}
		}
	}
	if r.Passed+r.Failed+r.Accepted == 0 && why == nil {
		why = append(why, "no check passed or failed")
	}
	if why != nil && r.Unfinished == nil {
		r.Unfinished = &Unfinished{Reason: strings.Join(why, "; ")}
	}
}

// Accept turns failures of the named checks into accepted ones, for a program with known faults, and counts the findings.
func (r *Report) Accept(names []string) {
	for i, f := range r.Findings {
		switch accepted := slices.Contains(names, f.Name); {
		case accepted && f.Outcome == Fail:
			r.Findings[i].Outcome = Accepted
		case accepted && f.Outcome == Pass:
			r.Obsolete = append(r.Obsolete, f.Name)
		}
	}
	r.Count()
}

// End records why findings are unjudged. The reason is that ctx was canceled or the run reached its time limit. request
// is the request that was unanswered then, or "". End does nothing unless a check was not completed for that reason.
func (r *Report) End(ctx context.Context, limit time.Duration, request string) {
	switch {
	case !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Outcome == Unjudged && f.Got == string(ErrRunEnded) }):
	case ctx.Err() != nil:
		r.Unfinished = &Unfinished{Reason: "it was interrupted"}
	default:
		r.Unfinished = &Unfinished{Reason: fmt.Sprintf("its limit of %v ended the run", limit), Request: request}
	}
}

// WriteText writes a line for each finding, followed by the expected and the actual result. quiet omits findings that
// passed, were skipped or are unjudged.
func (r *Report) WriteText(w io.Writer, quiet bool, paint func(Outcome, string) string) error {
	var b bytes.Buffer
	for _, f := range r.Findings {
		if quiet && (f.Outcome == Pass || f.Outcome == Skip || f.Outcome == Unjudged) {
			continue
		}
		fmt.Fprintf(&b, "%s  %-7s  %s: %s\n", paint(f.Outcome, fmt.Sprintf("%-8s", f.Outcome)), f.ID, f.Name, f.Title)
		for _, line := range []struct{ name, text string }{{"expected", f.Expected}, {"got", f.Got}, {"request",
			f.Request}, {"answer", f.Answer}} {
			if line.text == "" {
				continue
			}
			if f.Outcome == Skip || f.Outcome == Unjudged {
				line.name = "because"
			}
			fmt.Fprintf(&b, "          %-8s %s\n", line.name, line.text)
		}
	}
	b.WriteString(r.Target)
	if r.Revision != "" {
		b.WriteString(", revision " + r.Revision)
	}
	fmt.Fprintf(&b, ": %s\n", r.Summary())
	if u := r.Unfinished; u != nil {
		fmt.Fprintf(&b, "%s\n", u)
	}
	for _, name := range r.Obsolete {
		fmt.Fprintf(&b, "%s passed; remove it from --accept\n", name)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Summary describes the number of findings by outcome in words.
func (r *Report) Summary() string {
	text := fmt.Sprintf("%d passed, %d failed, %d skipped", r.Passed, r.Failed, r.Skipped)
	if r.Accepted > 0 {
		text += fmt.Sprintf(", %d accepted", r.Accepted)
	}
	if r.Advised > 0 {
		text += fmt.Sprintf(", %d advised", r.Advised)
	}
	if r.Unjudged > 0 {
		text += fmt.Sprintf(", %d not judged", r.Unjudged)
	}
	return text + fmt.Sprintf(" in %.1f s, seed %d", r.Seconds, r.Seed)
}

// String returns the reason on one line.
func (u *Unfinished) String() string {
	text := "not finished: " + u.Reason
	if u.Request != "" {
		text += "; no answer came to " + u.Request
	}
	return text
}

// These types are the elements of the JUnit format that CI systems read.
type (
	junitSuite struct {
		XMLName    xml.Name        `xml:"testsuite"`
		Name       string          `xml:"name,attr"`
		Tests      int             `xml:"tests,attr"`
		Failures   int             `xml:"failures,attr"`
		Errors     int             `xml:"errors,attr"`
		Skipped    int             `xml:"skipped,attr"`
		Time       string          `xml:"time,attr"`
		Properties []junitProperty `xml:"properties>property"`
		Cases      []junitCase     `xml:"testcase"`
	}
	junitProperty struct {
		Name  string `xml:"name,attr"`
		Value string `xml:"value,attr"`
	}
	junitCase struct {
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Failure *junitNote `xml:"failure,omitempty"`
		Error   *junitNote `xml:"error,omitempty"`
		Skipped *junitNote `xml:"skipped,omitempty"`
		Output  string     `xml:"system-out,omitempty"`
	}
	junitNote struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as a test suite. A requirement becomes a class, and the name of a check becomes a case.
// Advice and an accepted failure are passed cases with output. A check that was not completed is an error. An
// unfinished run adds a case with an error.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{Name: "mcpe-conform " + r.Target, Tests: len(r.Findings), Failures: r.Failed, Errors: r.Unjudged,
		Skipped: r.Skipped, Time: fmt.Sprintf("%.3f", r.Seconds), Properties: []junitProperty{{"seed", fmt.Sprint(r.Seed)}}}
	for _, f := range r.Findings {
		c := junitCase{Class: f.ID, Name: f.Name}
		text := strings.Join([]string{"expected " + f.Expected, "got " + f.Got, "request " + f.Request,
			"answer " + f.Answer}, "\n")
		switch f.Outcome {
		case Fail:
			c.Failure = &junitNote{Message: "expected " + f.Expected + ", got " + f.Got, Text: text}
		case Skip:
			c.Skipped = &junitNote{Message: f.Got}
		case Unjudged:
			c.Error = &junitNote{Message: f.Got}
		case Advice, Accepted:
			c.Output = text
		}
		suite.Cases = append(suite.Cases, c)
	}
	if r.Unfinished != nil {
		suite.Tests++
		suite.Errors++
		suite.Cases = append(suite.Cases, junitCase{Class: "run", Name: "the run is finished", Error: &junitNote{Message: r.Unfinished.String()}})
	}
	b, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append([]byte(xml.Header), append(b, '\n')...))
	return err
}
