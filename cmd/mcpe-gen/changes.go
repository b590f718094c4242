package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcpe-gen/mcpe-gen/gen"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A change describes how a plan changes one file.
type change struct {
	Path string `json:"path"`
	// Action is create, update, delete or unchanged.
	Action string `json:"action"`
	// Diff is a unified diff. It is set only if requested.
	Diff string `json:"diff,omitempty"`
}

// changesOf returns the changes of a plan, sorted by path.
func changesOf(p *gen.Plan, withDiff bool) []change {
	changes := []change{}
	add := func(action string, files []gen.File) {
		for _, f := range files {
			ch := change{Path: f.Path, Action: action}
			if withDiff && action != "unchanged" {
				ch.Diff = unifiedDiff(action, f)
			}
			changes = append(changes, ch)
		}
	}
	add("create", p.Create)
	add("update", p.Update)
	add("delete", p.Delete)
	add("unchanged", p.Unchanged)
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.Path, b.Path) })
	return changes
}

func drifted(changes []change) int {
	n := 0
	for _, ch := range changes {
		if ch.Action != "unchanged" {
			n++
		}
	}
	return n
}

// driftDiagnostics returns a diagnostic for each file that is not current.
func driftDiagnostics(changes []change) (ds []source.Diagnostic) {
	for _, ch := range changes {
		if ch.Action != "unchanged" {
			ds = append(ds, source.Diagnostic{Range: source.InFile(ch.Path), Message: ch.Path + " is not current", Hint: `run "mcpe-gen generate"`})
		}
	}
	return ds
}

// unifiedDiff returns a diff that patch(1) and git apply can read. A missing file is /dev/null.
func unifiedDiff(action string, f gen.File) string {
	before, after := f.Path, f.Path
	var old, now []byte
	switch action {
	case "create":
		before, now = "/dev/null", f.Content
	case "update":
		old, now = f.Old, f.Content
	case "delete":
		after, old = "/dev/null", f.Old
	}
	text := diff.Diff(before, old, after, now)
	_, text, _ = bytes.Cut(text, []byte("\n")) // the first line is a command line that names /dev/null
	return string(text)
}

// printChanges prints the changes of a plan except unchanged files.
func (c *command) printChanges(changes []change, asDiff bool) error {
	if c.Format == "json" {
		return c.PrintJSON(map[string]any{"files": changes})
	}
	var b bytes.Buffer
	for _, ch := range changes {
		switch {
		case ch.Action == "unchanged":
		case asDiff:
			b.WriteString(ch.Diff)
		default:
			fmt.Fprintf(&b, "%s %s\n", ch.Action, ch.Path)
		}
	}
	return c.Print(b.Bytes())
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
