// Package lint reports style problems in valid event files, such as inconsistent names, members without descriptions,
// and payloads that are too large for an agent.
//
// Start with [Check]. Each check is a [rule.Rule] with a function, and an entry of the table in table.go. The archive
// rules/ID.txtar contains an event file that the rule rejects and another that it accepts. The archive tests the rule,
// and `mcpe-gen explain ID` prints it. To suppress a false positive, the author adds a comment to the line or the line
// above:
//
//	# mcpe:ignore PAYLOAD_FREE_TEXT The text is the subject of this event.
package lint

import (
	"embed"
	"slices"
	"time"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/rule"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// The categories. In a configuration, each category includes the preceding ones.
const (
	// Minimal rules find mistakes that apply to any event file.
	Minimal = "MINIMAL"
	// Standard rules apply to most event files.
	Standard = "STANDARD"
	// Strict rules are for event types that many others depend on.
	Strict = "STRICT"
)

// Categories lists the categories, from the smallest to the largest.
var Categories = []string{Minimal, Standard, Strict}

// Options configures [Check].
type Options struct {
	// Rules selects the rules. The default is Standard. A category includes all smaller categories.
	Rules rule.Selection
	// Now is the reference time for removal dates. The default is the current time.
	Now time.Time
	// ReadFile reads the comments of a file; nil means [source.ReadFile].
	ReadFile func(path string) ([]byte, error)
}

//go:embed rules/*.txtar
var examples embed.FS

// Example returns the txtar archive of a rule, which contains bad.yaml and good.yaml.
func Example(id string) []byte { return rule.Example(examples, id) }

// Rules returns all rules in table order.
func Rules() []rule.Rule {
	all := make([]rule.Rule, len(table))
	for i, e := range table {
		all[i] = e.Rule
	}
	return all
}

// Check returns the findings about the given files of a set that was loaded without errors. Check uses files reached
// only by $ref as context. The code of a finding is the ID of its rule.
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
	o.Rules.Use = expandCategories(o.Rules.Use)
	c := &checker{set: set, now: o.Now, sides: sidesOf(set)}
	for _, f := range set.Files {
		c.files = append(c.files, c.collectSites(f))
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

// A finding is a diagnostic with its rule.
type finding struct {
	source.Diagnostic
	rule rule.Rule
}

// expandCategories returns the rules and categories with all included categories.
func expandCategories(use []string) []string {
	out := slices.Clone(use)
	for _, word := range use {
		if i := slices.Index(Categories, word); i > 0 {
			out = append(out, Categories[:i]...)
		}
	}
	return out
}
