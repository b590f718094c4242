// Package rule holds what the rules of lint and of breaking have in common: how they are described,
// and how a configuration chooses among them.
//
// Start with [Rule] and [Selection].
//
// The package makes no promise of compatibility.
package rule

import (
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// A Rule describes one check to people and to configurations.
type Rule struct {
	// ID is the name in findings, configurations and comments: upper-case words.
	ID string `json:"id"`
	// Category is the set that the rule belongs to.
	Category string `json:"category"`
	// Severity is that of its findings unless the configuration says otherwise.
	Severity source.Severity `json:"severity"`
	// Purpose is a sentence that says what the rule asks for.
	Purpose string `json:"purpose"`
}

// Example returns the archive that shows what a rule is about, rules/ID.txtar of a package's examples;
// nil when it has none.
func Example(examples fs.FS, id string) []byte {
	text, err := fs.ReadFile(examples, "rules/"+id+".txtar")
	if err != nil {
		return nil
	}
	return text
}

// A Selection says which rules count, and where.
type Selection struct {
	// Use holds categories and IDs.
	Use []string
	// Except holds IDs that do not count anywhere.
	Except []string
	// Severity replaces the severity of rules, by ID.
	Severity map[string]source.Severity
	// Ignore are the places where rules do not count.
	Ignore []Ignore
}

// An Ignore is a place where rules do not count. What it leaves empty is any.
type Ignore struct {
	// Path is a glob pattern relative to Dir: ** stands for any directories. A directory stands for
	// all that is in it.
	Dir, Path string
	// Event is a glob pattern of event names.
	Event string
	// Rules are IDs and categories.
	Rules []string
}

// Level returns the severity of a rule's findings; false when it does not count.
func (s Selection) Level(r Rule) (source.Severity, bool) {
	if slices.Contains(s.Except, r.ID) || !slices.Contains(s.Use, r.ID) && !slices.Contains(s.Use, r.Category) {
		return 0, false
	}
	if level, ok := s.Severity[r.ID]; ok {
		return level, true
	}
	return r.Severity, true
}

// Ignores reports whether a rule does not count in a file for an event; event is empty for what
// belongs to none.
func (s Selection) Ignores(r Rule, file, event string) bool {
	return slices.ContainsFunc(s.Ignore, func(i Ignore) bool {
		if len(i.Rules) > 0 && !slices.Contains(i.Rules, r.ID) && !slices.Contains(i.Rules, r.Category) {
			return false
		}
		if i.Event != "" {
			if ok, err := path.Match(i.Event, event); !ok || err != nil {
				return false
			}
		}
		return i.Path == "" || i.covers(file)
	})
}

func (i Ignore) covers(file string) bool {
	return Covers(i.Dir, i.Path, file) || Covers(i.Dir, i.Path+"/**", file)
}

// Covers reports whether a glob pattern relative to dir covers a file; ** stands for any directories.
func Covers(dir, pattern, file string) bool {
	dir, err1 := filepath.Abs(dir)
	abs, err2 := filepath.Abs(file)
	if err1 != nil || err2 != nil {
		return false
	}
	rel, err := filepath.Rel(dir, abs)
	return err == nil && Glob(strings.Split(path.Clean(pattern), "/"), strings.Split(filepath.ToSlash(rel), "/"))
}

// Glob reports whether the segments of a glob pattern cover those of a path; ** covers any number.
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
