// Package yaml builds nodes of package source and formats them as human-readable YAML. It writes short values on one
// line and quotes strings only if necessary. Parsing the result gives equal JSON, including the digits of numbers.
// Start with [Block].
package yaml

import (
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Block returns the members or elements of n as YAML, on separate lines with the given indentation.
func Block(n *source.Node, indent int) string {
	var p printer
	p.writeBlock(n, indent)
	return p.String()
}

// Object returns an empty object.
func Object() *source.Node { return &source.Node{Kind: source.Object} }

// Text returns a string.
func Text(s string) *source.Node { return &source.Node{Kind: source.String, Text: s} }

// Flag returns a boolean.
func Flag(v bool) *source.Node {
	n := &source.Node{Kind: source.Bool, Text: "false"}
	if v {
		n.Text = "true"
	}
	return n
}

// Number returns a number.
func Number(v int) *source.Node { return &source.Node{Kind: source.Number, Text: strconv.Itoa(v)} }

// List returns an array of the items.
func List(items ...*source.Node) *source.Node { return &source.Node{Kind: source.Array, Items: items} }

// Texts returns an array of strings.
func Texts(list []string) *source.Node {
	n := List()
	for _, s := range list {
		n.Items = append(n.Items, Text(s))
	}
	return n
}

// Set appends a member to an object. The object must not already contain the key.
func Set(n *source.Node, key string, v *source.Node) {
	n.Members = append(n.Members, source.Member{Key: key, Value: v})
}
