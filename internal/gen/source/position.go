package source

import "github.com/mcpe-gen/mcpe-gen/gen/diagnostic"

// A Position is a place in a file, as an editor would show it.
type Position = diagnostic.Position

// A Range is a section of a file.
type Range = diagnostic.Range

// InFile returns the range for a finding about a whole file.
func InFile(path string) Range {
	p := Position{File: path}
	return Range{Start: p, End: p}
}
