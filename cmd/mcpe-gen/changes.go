package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mcpe-gen/mcpe-gen/gen"
)

// A change is what a plan does to one file, as it is listed.
type change struct {
	Path string `json:"path"`
	// Action is create, update, delete or unchanged.
	Action string `json:"action"`
	// Diff is a unified diff, only when it was asked for.
	Diff string `json:"diff,omitempty"`
}

// changesOf lists every file of a plan by path.
func changesOf(p *gen.Plan, withDiff bool) []change {
	changes := []change{}
	add := func(action string, files []gen.File) {
		for _, f := range files {
			ch := change{Path: f.Path, Action: action}
			if withDiff && action != "unchanged" {
				ch.Diff = unified(action, f)
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

// unified is a diff as patch(1) and git apply read it, with /dev/null for the side that does not exist.
func unified(action string, f gen.File) string {
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
	_, text, _ = bytes.Cut(text, []byte("\n")) // its first line is a command line that names /dev/null
	return string(text)
}

// printChanges prints what a plan does, leaving out what it leaves alone.
func (c *command) printChanges(changes []change, asDiff bool) error {
	if c.format == "json" {
		return c.printJSON(map[string]any{"files": changes})
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
	return c.print(b.Bytes())
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
