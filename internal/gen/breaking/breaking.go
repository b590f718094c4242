// Package breaking compares two versions of event files and reports breaking changes. Such changes affect callers,
// receivers of events, or Go code that uses the generated package.
//
// Start with [Compare]. A rule consists of an ID, a category, a purpose and a function. The schema rules are in package
// evolve, which also classifies changes in live servers. The event rules are in events.go, and the rules for generated
// Go in golang.go. The archive rules/ID.txtar contains an old and a new event file that violate the rule. The archive
// tests the rule, and `mcpe-gen explain ID` prints it. Package against loads the old version.
package breaking

import (
	"crypto/sha256"
	"embed"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/evolve"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// The categories.
const (
	// Wire changes break servers and clients that rely on the published event types.
	Wire = string(evolve.Wire)
	// Source changes break Go code that uses the generated package.
	Source = string(evolve.Source)
	// Strict changes break only receivers that reject unknown values, such as a new enum value.
	Strict = string(evolve.Strict)
)

// Categories lists the rule categories. Each rule has exactly one.
var Categories = []string{Wire, Source, Strict}

// A Package contains the event files of one Go package.
type Package struct {
	// Key is the output directory, which identifies the package within a version. If both versions have only one
	// package, Compare ignores the keys.
	Key string
	// Server and Client are the directories of the packages for servers and for clients, like Key. One is empty if the
	// package is not generated, or if the configuration is unknown.
	Server, Client string
	Set            *schema.Set
	// Go contains the options for building the typed model. Only Source rules need it.
	Go ir.Options
	// Label returns the displayed form of a path. If it is nil, paths are displayed unchanged.
	Label func(path string) string
}

// Options configures [Compare].
type Options struct {
	// Rules selects the rules. The default is Wire.
	Rules rule.Selection
	// Now is the reference time for announced removals. The default is the current time.
	Now time.Time
}

//go:embed rules/*.txtar
var examples embed.FS

// Example returns the txtar archive of a rule, which contains old.yaml and new.yaml.
func Example(id string) []byte { return rule.Example(examples, id) }

// Rules returns the rules for events, schemas and generated Go.
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

// Compare returns the breaking changes between the packages of two versions. Their ranges are in the new files, or in
// the old files if an event or a package was removed. The code of a finding is the ID of its rule. Compare does not
// report changes of event types that were experimental in the old version. If a deprecated event type is removed after
// the announced date, Compare returns only a note.
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
		c.compareEvents(&old[i])
	}
	c.compareGo()
	return source.Sort(c.merged())
}

// A comparison is the state of one Compare call.
type comparison struct {
	old, new []Package
	now      time.Time
	options  Options
	rules    map[string]rule.Rule
	found    []finding
	// newEvents maps names to the new event types. added maps payload hashes to the names of event types without an old
	// version. Both are computed on first use.
	newEvents map[string][]side
	added     map[[sha256.Size]byte]string
	// versions caches the schema comparison of two packages.
	versions map[[2]*Package]*evolve.Versions
	walks    map[walkKey]*walk
}

// A finding is a diagnostic about an event or a package.
type finding struct {
	source.Diagnostic
	// subject is the event name and the path within the event. Findings that differ only in subject are merged.
	subject string
}

// report adds a finding for a rule, unless the configuration excludes it.
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

// isSelected reports whether any rule of a category is selected.
func (c *comparison) isSelected(category string) bool {
	return slices.ContainsFunc(Rules(), func(r rule.Rule) bool {
		_, on := c.options.Rules.Level(r)
		return on && r.Category == category
	})
}

// merged returns the findings. It merges findings about a shared schema from several events.
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
		if s := summarize(subjects[k]); s != "" {
			d.Message = s + ": " + d.Message
		}
		out = append(out, d)
	}
	return out
}

// label replaces the paths in a range with their displayed form.
func (p *Package) label(r source.Range) source.Range {
	if p.Label != nil {
		r.Start.File, r.End.File = p.Label(r.Start.File), p.Label(r.End.File)
	}
	return r
}
