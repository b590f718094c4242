package schematree

import (
	"iter"
	"maps"
	"slices"
	"strconv"
)

// A Node is a decoded JSON value at a place of its document. It implements [Value].
type Node struct {
	root    any
	pointer string // without escapes
	value   any
}

// NewNode returns the root of a document that encoding/json decoded with UseNumber.
func NewNode(document any) Node { return Node{root: document, value: document} }

func (n Node) child(token string, value any) Node {
	return Node{n.root, n.pointer + "/" + token, value}
}

// Find returns a member of an object.
func (n Node) Find(name string) (Node, bool) {
	m, _ := n.value.(map[string]any)
	inner, ok := m[name]
	return n.child(name, inner), ok
}

// Elements returns the elements of an array.
func (n Node) Elements() (all []Node, ok bool) {
	list, ok := n.value.([]any)
	for i, e := range list {
		all = append(all, n.child(strconv.Itoa(i), e))
	}
	return all, ok
}

// All yields the members of an object, sorted by name.
func (n Node) All() iter.Seq2[string, Node] {
	return func(yield func(string, Node) bool) {
		m, _ := n.value.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, n.child(name, m[name])) {
				return
			}
		}
	}
}

// Value returns the value.
func (n Node) Value() any { return n.value }

// Identity returns the place of n in its document, which is "" for the root.
func (n Node) Identity() any { return n.pointer }

// A Local resolves the references of a [Node] within its document. It implements [Document].
type Local struct{}

// Target returns the schema that a keyword of n refers to.
func (Local) Target(n Node, keyword string) (Node, bool) {
	ref, _ := n.Find(keyword)
	text, ok := ref.value.(string)
	if !ok {
		return n, false
	}
	return Resolve(NewNode(n.root), text)
}

// RefAlone reports whether the document is in draft-07.
func (Local) RefAlone(n Node) bool {
	dialect, _ := NewNode(n.root).Find("$schema")
	uri, _ := dialect.value.(string)
	return DialectOf(uri) == Draft07
}
