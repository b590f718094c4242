// Package checkup has the report of a program that examines a store: a line for each check, with its result and what to
// do. `mcpe-gen doctor` and `mcpe-jetstream doctor` write it.
package checkup

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// A State is how serious a line is.
type State string

// The states of lines.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
)

// Worse is the state of a value that has two bounds.
func Worse[T ~int | ~int64 | ~uint64 | ~float64](v, warn, fail T) State {
	switch {
	case v >= fail:
		return Fail
	case v >= warn:
		return Warn
	}
	return OK
}

// A Line is one check, what was found, and what to do about it; that is empty where all is well.
type Line struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// A Report is what all checks have found.
type Report struct {
	Lines  []Line `json:"checks"`
	Warned int    `json:"warned"`
	Failed int    `json:"failed"`
}

// Add adds a line. Advice of one where all is well is left out.
func (r *Report) Add(state State, check, found, advice string) {
	switch state {
	case OK:
		advice = ""
	case Warn:
		r.Warned++
	case Fail:
		r.Failed++
	}
	r.Lines = append(r.Lines, Line{check, state, found, advice})
}

// Text writes the report for people. Paint marks a state.
func (r *Report) Text(to io.Writer, paint func(s State, text string) string) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, l := range r.Lines {
		// The width of what is painted is counted: all states are painted alike.
		fmt.Fprintf(w, "%s\t%s\t%s\n", paint(l.State, fmt.Sprintf("%-4s", l.State)), l.Check, plain.Text(l.Found))
		if l.Advice != "" {
			fmt.Fprintf(w, "%s\t\t→ %s\n", paint(l.State, "    "), plain.Text(l.Advice))
		}
	}
	fmt.Fprintf(w, "%d checks, %d warnings, %d failures\n", len(r.Lines), r.Warned, r.Failed)
	return w.Flush()
}

// JSON writes a report, or what contains one, as a document.
func JSON(to io.Writer, report any) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(report)
}
