// Package diagnostic describes the findings of the generator about the user's files. A [Diagnostic] has a [Severity],
// a stable code and a [Range] in a file. gen.Generate and its siblings return diagnostics; `mcpe-gen explain CODE`
// explains a code.
package diagnostic

import (
	"fmt"
	"slices"
)

// A Severity says whether a [Diagnostic] stops generation.
type Severity int

// The severities. An error stops generation.
const (
	Error Severity = iota
	Warning
	Note
)

var severityNames = [...]string{"error", "warning", "note"}

// String returns the word for the severity in rendered diagnostics.
func (s Severity) String() string { return severityNames[s] }

// MarshalText writes the severity's word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Diagnostic is one finding about the user's files.
type Diagnostic struct {
	// Code is the stable identifier, such as MCPE103.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Range    Range    `json:"range"`
	Message  string   `json:"message"`
	// Hint says how to fix the problem, if known.
	Hint string `json:"hint,omitempty"`
	// Related lists other places that the finding concerns.
	Related []Related `json:"related,omitempty"`
	// Silenced is the reason that the configuration gives for hiding the finding, empty if it is not hidden.
	Silenced string `json:"silenced,omitempty"`
}

// Related is a second place of a [Diagnostic].
type Related struct {
	Range   Range  `json:"range"`
	Message string `json:"message"`
}

// WithHint returns d with a hint.
func (d Diagnostic) WithHint(format string, args ...any) Diagnostic {
	d.Hint = fmt.Sprintf(format, args...)
	return d
}

// WithRelated returns d with one more related place.
func (d Diagnostic) WithRelated(at Range, format string, args ...any) Diagnostic {
	d.Related = append(slices.Clip(d.Related), Related{Range: at, Message: fmt.Sprintf(format, args...)})
	return d
}

// String returns the finding in compiler form: file:line:col: error MCPE103: message.
func (d Diagnostic) String() string {
	return fmt.Sprintf("%s: %s %s: %s", d.Range.Start, d.Severity, d.Code, d.Message)
}

// HasErrors reports whether any diagnostic has severity [Error].
func HasErrors(ds []Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}
