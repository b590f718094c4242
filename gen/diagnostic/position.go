package diagnostic

import (
	"cmp"
	"strconv"
)

// A Position is a place in a file, as an editor would show it.
type Position struct {
	// File is the path as the user gave it.
	File string `json:"file"`
	// Line counts from 1; 0 means that only the file is known.
	Line int `json:"line,omitempty"`
	// Column counts characters (not bytes) from 1; 0 means that only the line is known.
	Column int `json:"column,omitempty"`
}

// String returns file:line:col, without the unknown parts.
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
