// Package checkup formats the reports of programs that check a store. A report has a line for each check, with the
// result and advice. `mcpe-ops doctor` and `mcpe-jetstream doctor` use it.
package checkup

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/mcpe-gen/mcpe-gen/internal/plain"
)

// A State is the severity of a [Line].
type State string

// The states of lines.
const (
	OK   State = "ok"
	Warn State = "warn"
	Fail State = "fail"
)

// Worse returns Fail if v is at least fail, Warn if v is at least warn, and OK otherwise.
func Worse[T ~int | ~int64 | ~uint64 | ~float64](v, warn, fail T) State {
	switch {
	case v >= fail:
		return Fail
	case v >= warn:
		return Warn
	}
	return OK
}

// A Line is the result of a check. Advice is empty if State is OK.
type Line struct {
	Check  string `json:"check"`
	State  State  `json:"state"`
	Found  string `json:"found"`
	Advice string `json:"advice,omitempty"`
}

// A Report holds the results of all checks.
type Report struct {
	Lines  []Line `json:"checks"`
	Warned int    `json:"warned"`
	Failed int    `json:"failed"`
}

// Add adds a line. It ignores the advice if the state is OK.
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

// Text writes the report as text. paint returns the text in the style of a state.
func (r *Report) Text(to io.Writer, paint func(s State, text string) string) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, l := range r.Lines {
		// Painting adds the same width to all states, so columns stay aligned.
		fmt.Fprintf(w, "%s\t%s\t%s\n", paint(l.State, fmt.Sprintf("%-4s", l.State)), l.Check, plain.Text(l.Found))
		if l.Advice != "" {
			fmt.Fprintf(w, "%s\t\t→ %s\n", paint(l.State, "    "), plain.Text(l.Advice))
		}
	}
	fmt.Fprintf(w, "%d checks, %d warnings, %d failures\n", len(r.Lines), r.Warned, r.Failed)
	return w.Flush()
}

// JSON writes a report, or a value that contains a report, as JSON.
func JSON(to io.Writer, report any) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(report)
}
