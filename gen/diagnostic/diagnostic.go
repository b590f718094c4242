// Package diagnostic represents problems that the generator finds in the user's files. A [Diagnostic] has a [Severity],
// a stable code and a [Range] in a file. gen.Generate and similar functions return diagnostics. `mcpe-gen explain CODE`
// explains a code.
package diagnostic

import (
	"fmt"
	"slices"
)

// A Severity is the severity of a [Diagnostic].
type Severity int

// The severities. An error stops generation.
const (
	Error Severity = iota
	Warning
	Note
)

var severityNames = [...]string{"error", "warning", "note"}

// String returns "error", "warning" or "note".
func (s Severity) String() string { return severityNames[s] }

// MarshalText returns the result of String.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Diagnostic is a problem in the user's files.
type Diagnostic struct {
	// Code is the stable identifier, such as MCPE103.
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Range    Range    `json:"range"`
	Message  string   `json:"message"`
	// Hint describes how to fix the problem, if known.
	Hint string `json:"hint,omitempty"`
	// Related lists other locations that are relevant to the problem.
	Related []Related `json:"related,omitempty"`
	// Silenced is the reason in the configuration for hiding the diagnostic. It is empty if the diagnostic is not
	// hidden.
	Silenced string `json:"silenced,omitempty"`
}

// Related is another location of a [Diagnostic].
type Related struct {
	Range   Range  `json:"range"`
	Message string `json:"message"`
}

// WithHint returns a copy of d with a hint.
func (d Diagnostic) WithHint(format string, args ...any) Diagnostic {
	d.Hint = fmt.Sprintf(format, args...)
	return d
}

// WithRelated returns a copy of d with an additional related location.
func (d Diagnostic) WithRelated(at Range, format string, args ...any) Diagnostic {
	d.Related = append(slices.Clip(d.Related), Related{Range: at, Message: fmt.Sprintf(format, args...)})
	return d
}

// String formats the diagnostic like a compiler message: file:line:col: error MCPE103: message.
func (d Diagnostic) String() string {
	return fmt.Sprintf("%s: %s %s: %s", d.Range.Start, d.Severity, d.Code, d.Message)
}

// HasErrors reports whether any diagnostic has severity [Error].
func HasErrors(ds []Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}
