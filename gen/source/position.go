package source

import "github.com/mcpe-gen/mcpe-gen/gen/diagnostic"

// A Position is a place in a file, as an editor would show it.
type Position = diagnostic.Position

// A Range is a stretch of a file's text.
type Range = diagnostic.Range

// InFile is the range of a finding that concerns a whole file.
func InFile(path string) Range {
	p := Position{File: path}
	return Range{Start: p, End: p}
}
