package source

import "github.com/mcpe-gen/mcpe-gen/gen/diagnostic"

// A Position is a line and a column in a file, as displayed by an editor.
type Position = diagnostic.Position

// A Range is a section of a file.
type Range = diagnostic.Range

// InFile returns a range for diagnostics about a whole file.
func InFile(path string) Range {
	p := Position{File: path}
	return Range{Start: p, End: p}
}
