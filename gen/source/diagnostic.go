package source

import (
	"cmp"
	"fmt"
	"slices"
)

// A Severity says whether a [Diagnostic] stops generation.
type Severity int

// The severities.
const (
	Error Severity = iota
	Warning
	Note
)

var severityNames = [...]string{"error", "warning", "note"}

// String returns the word that stands in rendered diagnostics.
func (s Severity) String() string { return severityNames[s] }

// MarshalText writes the severity's word.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Diagnostic is one finding about the user's files.
type Diagnostic struct {
	// Code is the stable identifier, a key of [Codes].
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Range    Range    `json:"range"`
	Message  string   `json:"message"`
	// Hint says what to do about it, when that is known.
	Hint string `json:"hint,omitempty"`
	// Related are further places that the finding is about.
	Related []Related `json:"related,omitempty"`
	// Silenced is the reason for which the configuration wants it not to be shown, empty when it does not.
	Silenced string `json:"silenced,omitempty"`
}

// Related is a second place of a [Diagnostic].
type Related struct {
	Range   Range  `json:"range"`
	Message string `json:"message"`
}

// New returns a diagnostic of the given code with the severity that the table of codes gives it.
func New(code string, at Range, format string, args ...any) Diagnostic {
	info, _ := Lookup(code)
	return Diagnostic{Code: code, Severity: info.Severity, Range: at, Message: fmt.Sprintf(format, args...)}
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

// Sort orders diagnostics by file, line, column, code and message, and drops exact repetitions.
func Sort(ds []Diagnostic) []Diagnostic {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(a.Range.Start.Compare(b.Range.Start), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(ds, func(a, b Diagnostic) bool {
		return a.Range == b.Range && a.Code == b.Code && a.Message == b.Message
	})
}

// HasErrors reports whether any diagnostic is of severity error.
func HasErrors(ds []Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}
