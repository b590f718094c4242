package adopt

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// An Edit changes whole lines of a file. Lines count in the file as init found it, so the edits of a file are applied
// from the last to the first. Together they compile unless a note says what is missing.
type Edit struct {
	// File is relative to the module's directory and uses slashes. It is "" if the note says where the lines go.
	File string `json:"file"`
	// Line is the line before which Insert goes. It counts from 1. It is 0 if the note says where the lines go.
	Line int `json:"line"`
	// Replace is the lines, beginning with Line, that Insert replaces. It is "" if the edit only inserts.
	Replace string `json:"replace"`
	// Insert is the new lines. It is "" if the edit only deletes or only has a note.
	Insert string `json:"insert"`
	// Imports are the import specs that the lines need and the file lacks, in Go syntax: `"os"`, `notes "m/notes"`.
	Imports []string `json:"imports"`
	// Note says what the user has to know or to do. It may be empty.
	Note string `json:"note,omitempty"`
	// Context is the line before the inserted ones, or the line that the note is about.
	Context string `json:"-"`
}

// line returns the number of the line with a position.
func (f *file) line(p token.Pos) int { return f.fset.Position(p).Line }

// lines returns the text of the lines first..last.
func (f *file) lines(first, last int) string {
	return strings.Join(strings.SplitAfter(string(f.text), "\n")[first-1:last], "")
}

// source returns the text of a node.
func (f *file) source(n ast.Node) string { return string(f.text[f.offset(n.Pos()):f.offset(n.End())]) }

// replacement returns the edit that replaces a node.
func (f *file) replacement(n ast.Node, text string) Edit {
	first := f.line(n.Pos())
	old := f.lines(first, f.line(n.End()))
	at := f.fset.Position(n.Pos()).Column - 1
	return Edit{File: f.path, Line: first, Replace: old, Insert: old[:at] + text + old[at+len(f.source(n)):], Imports: []string{}}
}

// margin returns the indentation of a line.
func (f *file) margin(line int) string {
	text := f.lines(line, line)
	return text[:len(text)-len(strings.TrimLeft(text, " \t"))]
}

// insertion returns the edit that adds lines with an indentation before a line.
func (f *file) insertion(line int, margin string, lines []string) Edit {
	return Edit{File: f.path, Line: line, Insert: margin + strings.Join(lines, "\n"+margin) + "\n", Imports: []string{}, Context: f.lines(line-1, line-1)}
}

// unusedImports returns the edits that delete the imports which only the removed nodes use, and not the inserted lines.
func (f *file) unusedImports(removed []ast.Node, inserted string) []Edit {
	// names returns the names in a node that could be those of packages.
	names := func(of ast.Node, skipped []ast.Node) []string {
		var names []string
		ast.Inspect(of, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && id.Obj == nil {
				names = append(names, id.Name)
			}
			_, declares := n.(*ast.ImportSpec)
			return !declares && !slices.Contains(skipped, n)
		})
		return names
	}
	kept := names(f.syntax, removed)
	var edits []Edit
	for _, spec := range f.syntax.Imports {
		name, line := nameOf(spec), f.line(spec.Pos())
		if slices.Contains(kept, name) || strings.Contains(inserted, name+".") {
			continue
		}
		if slices.ContainsFunc(removed, func(n ast.Node) bool { return slices.Contains(names(n, nil), name) }) {
			edits = append(edits, Edit{File: f.path, Line: line, Replace: f.lines(line, line), Imports: []string{}})
		}
	}
	return edits
}
