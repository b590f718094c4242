package source

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/gen/diagnostic"
)

// Package diagnostic declares these types, because it is part of the stable public API.
type (
	// A Diagnostic is a finding about the user's files. Its code is the ID of an element of [Codes].
	Diagnostic = diagnostic.Diagnostic
	// Related is an additional location of a [Diagnostic].
	Related = diagnostic.Related
	// A Severity determines whether a [Diagnostic] stops generation.
	Severity = diagnostic.Severity
)

// The severities.
const (
	Error   = diagnostic.Error
	Warning = diagnostic.Warning
	Note    = diagnostic.Note
)

// New returns a diagnostic with the given code and the severity of that code.
func New(code string, at Range, format string, args ...any) Diagnostic {
	info, _ := Lookup(code)
	return Diagnostic{Code: code, Severity: info.Severity, Range: at, Message: fmt.Sprintf(format, args...)}
}

// Sort orders diagnostics by file, line, column, code and message, and removes duplicates.
func Sort(ds []Diagnostic) []Diagnostic {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(a.Range.Start.Compare(b.Range.Start), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(ds, func(a, b Diagnostic) bool {
		return a.Range == b.Range && a.Code == b.Code && a.Message == b.Message
	})
}

// HasErrors reports whether any diagnostic has severity error.
func HasErrors(ds []Diagnostic) bool { return diagnostic.HasErrors(ds) }

// A Collector collects diagnostics.
type Collector struct {
	Found []Diagnostic
}

// Report adds diagnostics to Found.
func (c *Collector) Report(ds ...Diagnostic) { c.Found = append(c.Found, ds...) }

// ReportOnce adds a diagnostic about a value, unless Found contains another about the same value.
func (c *Collector) ReportOnce(d Diagnostic) {
	if !slices.ContainsFunc(c.Found, func(f Diagnostic) bool { return f.Range == d.Range }) {
		c.Report(d)
	}
}
