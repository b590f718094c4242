package source

import (
	"sort"
	"strings"
	"unicode/utf8"
)

// text is the content of a file with the offsets of its lines, as numbered by YAML and by editors. YAML 1.1 also ends
// lines at NEL, LS and PS. Editors do not, and positions follow editors.
type text struct {
	path      string
	src       string
	lines     []int // offsets of editor lines
	yamlLines []int // offsets of YAML lines
	// marks contains the number of characters before every multiple of markEvery bytes. Without it, computing a column
	// would require a scan of the line, which can have several megabytes.
	marks []int32
}

// markEvery is the maximum number of bytes to scan to convert an offset.
const markEvery = 128

func newText(path, src string) *text {
	t := &text{path: path, src: src, lines: []int{0}, yamlLines: []int{0}, marks: make([]int32, 1, len(src)/markEvery+1)}
	runes := int32(0)
	for i := 0; i < len(src); {
		end := min(i+markEvery, len(src))
		runes += int32(countStarts(src[i:end]))
		if i = end; i%markEvery == 0 {
			t.marks = append(t.marks, runes)
		}
	}
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

// runesBefore returns the number of characters that start before offset.
func (t *text) runesBefore(offset int) int {
	mark := offset / markEvery
	return int(t.marks[mark]) + countStarts(t.src[mark*markEvery:offset])
}

// countStarts returns the number of characters that start in s. Unlike utf8.RuneCountInString, it allows s to start
// within a character.
func countStarts(s string) int {
	n := 0
	for i := range len(s) {
		if utf8.RuneStart(s[i]) {
			n++
		}
	}
	return n
}

// positionAt converts a byte offset to an editor position.
func (t *text) positionAt(offset int) Position {
	offset = min(max(offset, 0), len(t.src))
	line := sort.SearchInts(t.lines, offset+1) - 1
	return Position{File: t.path, Line: line + 1, Column: t.runesBefore(offset) - t.runesBefore(t.lines[line]) + 1}
}

func (t *text) span(start, end int) Range {
	return Range{Start: t.positionAt(start), End: t.positionAt(max(start, end))}
}

// yamlOffset returns the byte offset of a YAML line and column. Both start at 1.
func (t *text) yamlOffset(line, column int) int {
	if line < 1 || line > len(t.yamlLines) {
		return len(t.src)
	}
	return t.skipCharacters(t.yamlLines[line-1], column-1)
}

// skipCharacters returns the offset n characters after start. At the end of the text, it returns the length of the text.
func (t *text) skipCharacters(start, n int) int {
	want := t.runesBefore(start) + max(n, 0)
	mark := sort.Search(len(t.marks), func(k int) bool { return int(t.marks[k]) > want }) - 1
	i, runes := mark*markEvery, int(t.marks[mark])
	for i < len(t.src) && (runes < want || !utf8.RuneStart(t.src[i])) {
		if utf8.RuneStart(t.src[i]) {
			runes++
		}
		i++
	}
	return i
}

// skipBlank returns the offset of the first character at or after i that is neither white space nor part of a comment.
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
