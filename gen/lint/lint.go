// Package lint checks event files for what is allowed and regretted later: names that do not read
// alike, members that nobody explains, payloads larger than an agent wants to read.
//
// Start with [Check]. Each check is a [rule.Rule] with one function, an entry of the table in
// table.go; rules/ID.txtar shows an event file that it objects to and one that it does not, and is
// both its test and what `mcpe-gen explain ID` prints. Where a rule is wrong, the author silences it by
// a comment on the line or on the line above:
//
//	# mcpe:ignore PAYLOAD_FREE_TEXT The text is what this event is about.
//
// The package makes no promise of compatibility.
package lint

import (
	"embed"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// The categories: each contains the rules of the ones before it when a configuration names it.
const (
	// Minimal rules find what is a mistake in any event file.
	Minimal = "MINIMAL"
	// Standard rules are those that most event files should follow.
	Standard = "STANDARD"
	// Strict rules are for event types that many others depend on.
	Strict = "STRICT"
)

// Categories are the categories, the widest last.
var Categories = []string{Minimal, Standard, Strict}

// Options says how [Check] works.
type Options struct {
	// Rules chooses among the rules; without Use it is Standard. A category brings the smaller ones.
	Rules rule.Selection
	// Now is the time by which removal dates are judged; zero means the present.
	Now time.Time
	// ReadFile reads a file again for its comments; nil means [source.ReadFile].
	ReadFile func(path string) ([]byte, error)
}

//go:embed rules/*.txtar
var examples embed.FS

// Example returns the txtar archive that shows what a rule is about: bad.yaml and good.yaml.
func Example(id string) []byte { return rule.Example(examples, id) }

// Rules returns all rules in the order of the table.
func Rules() []rule.Rule {
	all := make([]rule.Rule, len(table))
	for i, e := range table {
		all[i] = e.Rule
	}
	return all
}

// Check returns the findings about the given files of a set that was loaded without errors; those
// that only a $ref reached count as its surroundings. The code of a finding is the ID of its rule.
func Check(set *schema.Set, o Options) []source.Diagnostic {
	if o.ReadFile == nil {
		o.ReadFile = source.ReadFile
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	if len(o.Rules.Use) == 0 {
		o.Rules.Use = []string{Standard}
	}
	o.Rules.Use = widen(o.Rules.Use)
	c := &checker{set: set, now: o.Now, sides: sidesOf(set)}
	for _, f := range set.Files {
		c.files = append(c.files, c.survey(f))
	}
	var found []finding
	for _, e := range table {
		level, on := o.Rules.Level(e.Rule)
		if !on {
			continue
		}
		for _, f := range c.files {
			if !f.file.Given {
				continue
			}
			e.check(&pass{checker: c, File: f.file, sites: f.sites, report: func(at source.Range, event *schema.Event, d source.Diagnostic) {
				d.Code, d.Severity, d.Range = e.ID, level, at
				name := ""
				if event != nil {
					name = event.Name
				}
				if !o.Rules.Ignores(e.Rule, at.Start.File, name) {
					found = append(found, finding{d, e.Rule})
				}
			}})
		}
	}
	return source.Sort(suppress(set, found, o))
}

// A finding is a diagnostic and the rule that it follows from.
type finding struct {
	source.Diagnostic
	rule rule.Rule
}

// widen adds to each category those that it contains.
func widen(use []string) []string {
	out := slices.Clone(use)
	for _, word := range use {
		if i := slices.Index(Categories, word); i > 0 {
			out = append(out, Categories[:i]...)
		}
	}
	return out
}
