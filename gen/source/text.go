package source

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// text is a file's content with the two ways to count its lines. YAML 1.1 ends lines at NEL, LS and
// PS as well; editors do not, and positions are for editors.
type text struct {
	path      string
	src       string
	lines     []int // offsets at which an editor's lines begin
	yamlLines []int // offsets at which YAML's lines begin
	// at and from remember the last answer of each direction: files may consist of one long line, and
	// questions come nearly in order.
	at   mark
	from mark
}

// mark is a column count that was already made: of the line that begins at start, offset stands
// after runes characters.
type mark struct{ start, offset, runes int }

func newText(path, src string) *text {
	t := &text{path: path, src: src, lines: []int{0}, yamlLines: []int{0}}
	for i := 0; i < len(src); {
		r, n := rune(src[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(src[i:])
		}
		i += n
		switch r {
		case '\r':
			if i < len(src) && src[i] == '\n' {
				i++
			}
			fallthrough
		case '\n':
			t.lines = append(t.lines, i)
			t.yamlLines = append(t.yamlLines, i)
		case 0x85, 0x2028, 0x2029:
			t.yamlLines = append(t.yamlLines, i)
		}
	}
	return t
}

// position returns the editor's position of a byte offset.
func (t *text) position(offset int) Position {
	offset = min(max(offset, 0), len(t.src))
	line := sort.SearchInts(t.lines, offset+1) - 1
	start := t.lines[line]
	from, runes := start, 0
	if t.at.start == start && t.at.offset <= offset {
		from, runes = t.at.offset, t.at.runes
	}
	runes += utf8.RuneCountInString(t.src[from:offset])
	t.at = mark{start, offset, runes}
	return Position{File: t.path, Line: line + 1, Column: runes + 1}
}

func (t *text) span(start, end int) Range {
	return Range{Start: t.position(start), End: t.position(max(start, end))}
}

// offset returns the byte offset of YAML's line and column, both counted from 1.
func (t *text) offset(line, column int) int {
	if line < 1 || line > len(t.yamlLines) {
		return len(t.src)
	}
	start := t.yamlLines[line-1]
	at := mark{start: start, offset: start}
	if t.from.start == start && t.from.runes <= column-1 {
		at = t.from
	}
	for at.runes < column-1 && at.offset < len(t.src) {
		_, n := utf8.DecodeRuneInString(t.src[at.offset:])
		at.offset += n
		at.runes++
	}
	t.from = at
	return at.offset
}

// skipBlank returns the offset of the first character at or after i that is neither white space nor
// part of a comment.
func (t *text) skipBlank(i int) int {
	for i < len(t.src) {
		switch t.src[i] {
		case ' ', '\t', '\r', '\n':
			i++
		case '#':
			if i > 0 && !strings.ContainsRune(" \t\r\n", rune(t.src[i-1])) {
				return i
			}
			i = t.lineEnd(i)
		default:
			return i
		}
	}
	return i
}

// lineEnd returns the offset of the line break at or after i.
func (t *text) lineEnd(i int) int {
	if n := strings.IndexAny(t.src[i:], "\r\n"); n >= 0 {
		return i + n
	}
	return len(t.src)
}

// wordEnd returns the offset of the first white space or flow indicator at or after i.
func (t *text) wordEnd(i int) int {
	if n := strings.IndexAny(t.src[i:], " \t\r\n,[]{}"); n >= 0 {
		return i + n
	}
	return len(t.src)
}
