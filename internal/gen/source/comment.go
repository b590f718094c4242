package source

import (
	"encoding/json"
	"sort"
	"strings"
)

// A Comment is a YAML comment.
type Comment struct {
	// Text is the text after the #, without surrounding white space.
	Text  string
	Range Range
	// Alone reports whether the comment is the only content of its line.
	Alone bool
}

// Comments returns the comments of a file in source order. root must be the result of [Parse] for the same data. JSON
// has no comments.
func Comments(root *Node, data []byte) []Comment {
	src := strings.TrimPrefix(string(data), "\uFEFF")
	if !strings.Contains(src, "#") || json.Valid([]byte(src)) {
		return nil
	}
	t := newText(root.Range.Start.File, src)
	scalars := t.scalars(root)
	var found []Comment
	for _, start := range t.lines {
		end := t.lineEnd(start)
		for i := start; i < end; i++ {
			if src[i] != '#' || i > start && src[i-1] != ' ' && src[i-1] != '\t' {
				continue
			}
			next := sort.Search(len(scalars), func(k int) bool { return scalars[k].end > i })
			if next < len(scalars) && scalars[next].start <= i {
				continue // part of a string
			}
			found = append(found, Comment{
				Text:  strings.TrimSpace(src[i+1 : end]),
				Range: t.span(i, end),
				Alone: strings.TrimSpace(src[start:i]) == "",
			})
			break
		}
	}
	return found
}

// An extent is the byte range of a scalar.
type extent struct{ start, end int }

// scalars returns the extents of all strings and keys in n and its descendants. The extents are sorted and do not
// overlap.
func (t *text) scalars(n *Node) []extent {
	var list []extent
	add := func(r Range) {
		if r.Start.Column > 0 && r.Start.File == t.path { // an override has its position in another file
			list = append(list, extent{t.byteOffset(r.Start), t.byteOffset(r.End)})
		}
	}
	var visit func(*Node)
	visit = func(n *Node) {
		if n.Kind == String {
			add(n.Range)
		}
		for _, item := range n.Items {
			visit(item)
		}
		for _, m := range n.Members {
			add(m.KeyRange)
			visit(m.Value)
		}
	}
	visit(n)
	sort.Slice(list, func(i, j int) bool { return list[i].start < list[j].start })
	apart := list[:0]
	for _, e := range list {
		// All copies for an alias have the position of the alias.
		if len(apart) == 0 || e.start >= apart[len(apart)-1].end {
			apart = append(apart, e)
		}
	}
	return apart
}

// byteOffset returns the byte offset of an editor position.
func (t *text) byteOffset(p Position) int {
	if p.Line > len(t.lines) {
		return len(t.src)
	}
	return t.skipCharacters(t.lines[p.Line-1], p.Column-1)
}
