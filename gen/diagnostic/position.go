package diagnostic

import (
	"cmp"
	"strconv"
)

// A Position is a location in a file, as shown by an editor.
type Position struct {
	// File is the path as specified by the user.
	File string `json:"file"`
	// Line is the line number, starting at 1. If it is 0, only the file is known.
	Line int `json:"line,omitempty"`
	// Column is the column number in characters, not bytes, starting at 1. If it is 0, only the line is known.
	Column int `json:"column,omitempty"`
}

// String returns file:line:col. It omits an unknown line or column.
func (p Position) String() string {
	s := p.File
	if p.Line > 0 {
		s += ":" + strconv.Itoa(p.Line)
		if p.Column > 0 {
			s += ":" + strconv.Itoa(p.Column)
		}
	}
	return s
}

// Compare orders positions by file, line and column.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// A Range is the text from Start up to, but not including, End.
type Range struct {
	Start Position `json:"start"`
	End   Position `json:"end"`
}

// String returns the start of the range.
func (r Range) String() string { return r.Start.String() }
