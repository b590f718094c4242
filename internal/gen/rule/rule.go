// Package rule defines the description and the selection of rules for packages lint and breaking.
//
// Start with [Rule] and [Selection].
package rule

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A Rule describes one check.
type Rule struct {
	// ID is the name in findings, configurations and comments. It consists of upper-case words.
	ID string `json:"id"`
	// Category is the category of the rule.
	Category string `json:"category"`
	// Severity is the default severity of its findings.
	Severity source.Severity `json:"severity"`
	// Purpose is a sentence that states the requirement.
	Purpose string `json:"purpose"`
}

// IDs returns the IDs of rules.
func IDs(rules []Rule) []string {
	list := make([]string, len(rules))
	for i, r := range rules {
		list[i] = r.ID
	}
	return list
}

// Example returns the archive rules/ID.txtar, which illustrates the rule with the ID. It returns nil if there is no
// such file.
func Example(examples fs.FS, id string) []byte {
	text, err := fs.ReadFile(examples, "rules/"+id+".txtar")
	if err != nil {
		return nil
	}
	return text
}

// A Selection selects rules and excludes files and events from them.
type Selection struct {
	// Use lists the categories and IDs of selected rules.
	Use []string
	// Except lists the IDs of excluded rules.
	Except []string
	// Severity maps rule IDs to severities that replace the default.
	Severity map[string]source.Severity
	// Ignore lists the files and events that rules ignore.
	Ignore []Ignore
}

// An Ignore excludes files and events from rules. An empty field matches everything.
type Ignore struct {
	// Path is a glob pattern relative to Dir. The element ** matches any number of directories. A pattern that matches
	// a directory includes all files below it.
	Dir, Path string
	// Event is a glob pattern for event names.
	Event string
	// Rules lists the IDs and categories of the rules.
	Rules []string
	// Range is the location in the configuration.
	Range source.Range
}

// Level returns the severity of a rule's findings, or false if the rule does not apply.
func (s Selection) Level(r Rule) (source.Severity, bool) {
	if slices.Contains(s.Except, r.ID) || !slices.Contains(s.Use, r.ID) && !slices.Contains(s.Use, r.Category) {
		return 0, false
	}
	if level, ok := s.Severity[r.ID]; ok {
		return level, true
	}
	return r.Severity, true
}

// Ignores reports whether a rule does not apply to an event in a file. event is empty for findings that are not about
// an event.
func (s Selection) Ignores(r Rule, file, event string) bool {
	return slices.ContainsFunc(s.Ignore, func(i Ignore) bool {
		if len(i.Rules) > 0 && !slices.Contains(i.Rules, r.ID) && !slices.Contains(i.Rules, r.Category) {
			return false
		}
		return (i.Event == "" || i.Matches(event)) && (i.Path == "" || i.Covers(file))
	})
}

// Matches reports whether Event matches the name of an event.
func (i Ignore) Matches(event string) bool {
	ok, err := path.Match(i.Event, event)
	return ok && err == nil
}

// Covers reports whether Path matches a file or a directory above it.
func (i Ignore) Covers(file string) bool {
	return Covers(i.Dir, i.Path, file) || Covers(i.Dir, i.Path+"/**", file)
}

// Covers reports whether a glob pattern relative to dir matches a file. The element ** matches any number of
// directories.
func Covers(dir, pattern, file string) bool {
	dir, err1 := filepath.Abs(dir)
	abs, err2 := filepath.Abs(file)
	if err1 != nil || err2 != nil {
		return false
	}
	rel, err := filepath.Rel(dir, abs)
	return err == nil && Glob(strings.Split(path.Clean(pattern), "/"), strings.Split(filepath.ToSlash(rel), "/"))
}

// Glob reports whether the segments of a glob pattern match the segments of a path. The segment ** matches any number
// of segments.
func Glob(pattern, name []string) bool {
	if len(pattern) == 0 {
		return len(name) == 0
	}
	if pattern[0] == "**" {
		for i := 0; i <= len(name); i++ {
			if Glob(pattern[1:], name[i:]) {
				return true
			}
		}
		return false
	}
	if len(name) == 0 {
		return false
	}
	ok, err := path.Match(pattern[0], name[0])
	return ok && err == nil && Glob(pattern[1:], name[1:])
}
