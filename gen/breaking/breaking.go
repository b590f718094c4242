// Package breaking compares two versions of event files and says which changes break whom: callers
// whose arguments are no longer valid, receivers whose payloads are no longer what they were, and Go
// code that uses the generated package.
//
// Start with [Compare]. A rule is an ID, a category, a purpose and one function. Those about schemas
// are the rules of package evolve, which also judges live changes; those about events are in
// events.go, those about generated Go in golang.go. rules/ID.txtar shows an old and a new event file
// that break each rule, and is both its test and what `mcpe-gen explain ID` prints. Package against
// finds the old version.
//
// The package makes no promise of compatibility.
package breaking

import (
	"crypto/sha256"
	"embed"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
)

// The categories.
const (
	// Wire changes break servers and clients that go by the published event types.
	Wire = string(evolve.Wire)
	// Source changes break Go code that uses the generated package.
	Source = string(evolve.Source)
	// Strict changes break only receivers that refuse what they are told to expect, such as a new
	// value of an enum.
	Strict = string(evolve.Strict)
)

// Categories are the categories; none contains another.
var Categories = []string{Wire, Source, Strict}

// A Package is the event files of one Go package.
type Package struct {
	// Key tells the packages of a version apart: its output directory. Where both versions have one
	// package only, they are compared whatever their keys.
	Key string
	Set *schema.Set
	// Go says how the package is typed; only Source rules need it.
	Go ir.Options
	// Label returns how a path is shown; nil means as it is.
	Label func(path string) string
}

// Options says how [Compare] works.
type Options struct {
	// Rules chooses among the rules; without Use it is Wire.
	Rules rule.Selection
	// Now is the time by which announced removals are judged; zero means the present.
	Now time.Time
}

//go:embed rules/*.txtar
var examples embed.FS

// Example returns the txtar archive that shows what a rule is about: old.yaml and new.yaml.
func Example(id string) []byte { return rule.Example(examples, id) }

// Rules returns all rules: those about events, about schemas and about generated Go.
func Rules() []rule.Rule {
	var all []rule.Rule
	for _, r := range eventRules {
		all = append(all, r.Rule)
	}
	for _, r := range evolve.Rules() {
		all = append(all, rule.Rule{ID: r.ID, Category: string(r.Category), Purpose: r.Purpose})
	}
	return append(all, goRules...)
}

// Compare returns the changes from the packages of an old version to those of a new one, all of
// severity error: at their place in the new files, or in the old ones where an event or a package has
// gone. The code of a finding is the ID of its rule. Event types that were experimental may change
// in any way, and one that was deprecated may go after the date that was announced, which gives a note.
func Compare(old, new []Package, o Options) []source.Diagnostic {
	if len(o.Rules.Use) == 0 {
		o.Rules.Use = []string{Wire}
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	c := &comparison{old: old, new: new, now: o.Now, options: o, rules: map[string]rule.Rule{}, versions: map[[2]*Package]*evolve.Versions{}, walks: map[walkKey]*walk{}}
	for _, r := range Rules() {
		c.rules[r.ID] = r
	}
	for i := range old {
		c.events(&old[i])
	}
	c.golang()
	return source.Sort(c.merged())
}

// comparison is the state of one Compare.
type comparison struct {
	old, new []Package
	now      time.Time
	options  Options
	rules    map[string]rule.Rule
	found    []finding
	// newEvents and arrived are made when they are first asked for: the new event types by name, and
	// the names of those that the old version has not, by their payload.
	newEvents map[string][]side
	arrived   map[[sha256.Size]byte]string
	// versions compare the schemas of two packages.
	versions map[[2]*Package]*evolve.Versions
	walks    map[walkKey]*walk
}

// A finding is a diagnostic about one event or one package.
type finding struct {
	source.Diagnostic
	// subject is the event and the place in it, said once for findings that are otherwise the same.
	subject string
}

// report adds a finding of a rule unless the configuration excepts it.
func (c *comparison) report(id string, at source.Range, event, subject string, d source.Diagnostic) {
	r := c.rules[id]
	level, on := c.options.Rules.Level(r)
	if !on || c.options.Rules.Ignores(r, at.Start.File, event) {
		return
	}
	if d.Severity == source.Error {
		d.Severity = level
	}
	d.Code, d.Range = id, at
	c.found = append(c.found, finding{d, subject})
}

// asks reports whether any rule of a category counts.
func (c *comparison) asks(category string) bool {
	return slices.ContainsFunc(Rules(), func(r rule.Rule) bool {
		_, on := c.options.Rules.Level(r)
		return on && r.Category == category
	})
}

// merged joins what is found of one shared schema through every event that refers to it.
func (c *comparison) merged() []source.Diagnostic {
	type key struct {
		code, message string
		at            source.Range
	}
	var order []key
	subjects := map[key][]string{}
	said := map[[2]any]bool{}
	first := map[key]source.Diagnostic{}
	for _, f := range c.found {
		k := key{f.Code, f.Message, f.Range}
		if _, ok := first[k]; !ok {
			first[k] = f.Diagnostic
			order = append(order, k)
		}
		if about := [2]any{k, f.subject}; !said[about] {
			said[about] = true
			subjects[k] = append(subjects[k], f.subject)
		}
	}
	var out []source.Diagnostic
	for _, k := range order {
		d := first[k]
		if s := among(subjects[k]); s != "" {
			d.Message = s + ": " + d.Message
		}
		out = append(out, d)
	}
	return out
}

// label shows a range of an old file.
func (p *Package) label(r source.Range) source.Range {
	if p.Label != nil {
		r.Start.File, r.End.File = p.Label(r.Start.File), p.Label(r.End.File)
	}
	return r
}
