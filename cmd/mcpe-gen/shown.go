package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// These limits apply to the text format without --notes. The other formats are complete because programs read them.
const (
	maxPerCode = 3  // notes and warnings of one code
	maxErrors  = 50 // errors of a run
)

// diagnose writes diagnostics. In the text format, it writes the diagnostics that matter to a person and a count of the
// others.
func (c *command) diagnose(w io.Writer, ds []source.Diagnostic, o source.WriteOptions) error {
	if c.Quiet {
		ds = slices.DeleteFunc(slices.Clone(ds), func(d source.Diagnostic) bool { return !c.isFailing(d) })
	}
	if o.Format != source.Text {
		return source.Write(w, c.markSilenced(ds), o)
	}
	shown, more := c.shownDiagnostics(ds)
	if err := source.Write(w, shown, o); err != nil {
		return err
	}
	for _, m := range more {
		if _, err := fmt.Fprintln(w, m); err != nil {
			return err
		}
	}
	return nil
}

// markSilenced marks the diagnostics that the config silences.
func (c *command) markSilenced(ds []source.Diagnostic) []source.Diagnostic {
	if len(c.runConfig().Silences) == 0 {
		return ds
	}
	ds = slices.Clone(ds)
	for i, d := range ds {
		ds[i].Silenced, _ = c.silenceReason(d)
	}
	return ds
}

// silenceReason returns the config's reason for silencing a diagnostic, if it does.
func (c *command) silenceReason(d source.Diagnostic) (string, bool) {
	for _, s := range c.runConfig().Silences {
		if s.Covers(d) {
			return s.Reason, true
		}
	}
	return "", false
}

// A tally is the number of hidden diagnostics with one code.
type tally struct {
	severity source.Severity
	code     string
	hidden   int
	files    map[string]bool
}

// String returns the line that is printed instead of the hidden diagnostics.
func (t *tally) String() string {
	what := t.severity.String()
	if t.code != "" {
		what += " " + t.code
	}
	return fmt.Sprintf("%s: %d more in %s (--notes shows all)", what, t.hidden, count(len(t.files), "file", "files"))
}

// shownDiagnostics returns the diagnostics to print in the text format and the counts of hidden ones. It neither prints
// nor counts notes about foreign files, which the user cannot change, or diagnostics that the config silences. It
// always counts the diagnostics that make a run with --strict fail.
func (c *command) shownDiagnostics(ds []source.Diagnostic) ([]source.Diagnostic, []*tally) {
	var shown []source.Diagnostic
	var more []*tally
	seen := map[string]int{}
	tallies := map[string]*tally{}
	for _, d := range ds {
		if _, silent := c.silenceReason(d); silent && !c.isFailing(d) {
			continue
		}
		limit, key := maxPerCode, d.Severity.String()+d.Code
		if d.Severity == source.Error {
			limit, key = maxErrors, ""
		}
		switch seen[key]++; {
		case c.notes:
		case d.Severity == source.Note && strings.HasPrefix(d.Code, "MCPE") && c.isForeign(d.Range.Start.File):
			seen[key]--
			continue
		case seen[key] > limit:
			t := tallies[key]
			if t == nil {
				t = &tally{severity: d.Severity, files: map[string]bool{}}
				if d.Severity != source.Error {
					t.code = d.Code
				}
				tallies[key] = t
				more = append(more, t)
			}
			t.hidden++
			t.files[d.Range.Start.File] = true
			continue
		}
		shown = append(shown, d)
	}
	slices.SortStableFunc(more, func(a, b *tally) int { return int(a.severity) - int(b.severity) })
	return shown, more
}

// isForeign reports whether a file was reached through a $ref and is not one of the run's event files.
func (c *command) isForeign(path string) bool {
	return len(c.ownFiles) > 0 && !c.ownFiles[absolute(path)]
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return filepath.Clean(path)
}
