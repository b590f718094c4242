package verdict

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// A Report is what a run found.
type Report struct {
	Target string `json:"target"`
	// Revision is the protocol revision that was spoken; "" where none was agreed on.
	Revision string    `json:"revision,omitempty"`
	Seconds  float64   `json:"seconds"`
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Skipped  int       `json:"skipped"`
	Advised  int       `json:"advised"`
	Findings []Finding `json:"findings"`
}

// Count counts the findings by outcome, once all are there.
func (r *Report) Count() {
	r.Passed, r.Failed, r.Skipped, r.Advised = 0, 0, 0, 0
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
		}
	}
}

// WriteText writes a line for each finding, with what is wrong below it; quiet leaves out what passed
// and what was skipped.
func (r *Report) WriteText(w io.Writer, quiet bool, paint func(Outcome, string) string) error {
	var b bytes.Buffer
	for _, f := range r.Findings {
		if quiet && (f.Outcome == Pass || f.Outcome == Skip) {
			continue
		}
		fmt.Fprintf(&b, "%s  %-7s  %s\n", paint(f.Outcome, fmt.Sprintf("%-6s", f.Outcome)), f.ID, f.Title)
		for _, line := range []struct{ name, text string }{{"expected", f.Expected}, {"got", f.Got}, {"request",
			f.Request}, {"answer", f.Answer}} {
			if line.text == "" {
				continue
			}
			if f.Outcome == Skip {
				line.name = "because"
			}
			fmt.Fprintf(&b, "        %-8s %s\n", line.name, line.text)
		}
	}
	b.WriteString(r.Target)
	if r.Revision != "" {
		b.WriteString(", revision " + r.Revision)
	}
	fmt.Fprintf(&b, ": %s\n", r.Summary())
	_, err := w.Write(b.Bytes())
	return err
}

// Summary counts the findings in words.
func (r *Report) Summary() string {
	text := fmt.Sprintf("%d passed, %d failed, %d skipped", r.Passed, r.Failed, r.Skipped)
	if r.Advised > 0 {
		text += fmt.Sprintf(", %d advised", r.Advised)
	}
	return text + fmt.Sprintf(" in %.1f s", r.Seconds)
}

// The elements of JUnit's format as CI systems read it.
type (
	junitSuite struct {
		XMLName  xml.Name    `xml:"testsuite"`
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string     `xml:"classname,attr"`
		Name    string     `xml:"name,attr"`
		Failure *junitNote `xml:"failure,omitempty"`
		Skipped *junitNote `xml:"skipped,omitempty"`
		Output  string     `xml:"system-out,omitempty"`
	}
	junitNote struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// WriteJUnit writes the report as a test suite: a requirement is a class, a check a case, and an advice
// a case that passed with output.
func (r *Report) WriteJUnit(w io.Writer) error {
	suite := junitSuite{Name: "mcpe-gen conform " + r.Target, Tests: len(r.Findings), Failures: r.Failed,
		Skipped: r.Skipped,
		Time:    fmt.Sprintf("%.3f", r.Seconds)}
	for _, f := range r.Findings {
		c := junitCase{Class: f.ID, Name: f.Title}
		text := strings.Join([]string{"expected " + f.Expected, "got " + f.Got, "request " + f.Request,
			"answer " + f.Answer}, "\n")
		switch f.Outcome {
		case Fail:
			c.Failure = &junitNote{Message: "expected " + f.Expected + ", got " + f.Got, Text: text}
		case Skip:
			c.Skipped = &junitNote{Message: f.Got}
		case Advice:
			c.Output = text
		}
		suite.Cases = append(suite.Cases, c)
	}
	b, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append([]byte(xml.Header), append(b, '\n')...))
	return err
}
