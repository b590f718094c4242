package schema

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// minShapeMembers is the minimum number of members of an object, or values of an enumeration, that is worth sharing.
const minShapeMembers = 3

// IsShareable reports whether n describes an object, an enumeration or a union that is so large that sharing its type
// saves code.
func IsShareable(n *source.Node) bool {
	isObject := len(n.MembersAt("properties")) >= minShapeMembers && schematree.Declared(n)&schematree.Object != 0
	variants := slices.DeleteFunc(slices.Concat(n.ItemsAt("anyOf"), n.ItemsAt("oneOf")), func(v *source.Node) bool {
		return schematree.Declared(v) == schematree.Null
	})
	return n.Get("$ref") == nil && (isObject || len(variants) > 1 || len(n.ItemsAt("enum")) >= minShapeMembers)
}

// Shapes numbers schemas by their shape. Two schemas have the same shape if they accept the same values and the
// generator writes the same types for them, apart from names, doc comments and the order of members and values.
type Shapes struct {
	exact   bool
	target  func(ref *source.Node) string
	numbers map[string]int
	known   map[*source.Node]int
}

// NewShapes returns an empty numbering. References have the same shape if target returns the same text for them. If
// exact is set, schemas have the same shape only if they are equal apart from the order of members.
func NewShapes(exact bool, target func(ref *source.Node) string) *Shapes {
	return &Shapes{exact, target, map[string]int{}, map[*source.Node]int{}}
}

// Number returns the number of the shape of a schema.
func (s *Shapes) Number(n *source.Node) int {
	if number, ok := s.known[n]; ok {
		return number
	}
	text := string(n.JSON())
	if n.Kind == source.Object {
		text = string(s.skeleton(n).JSON())
	}
	number, ok := s.numbers[text]
	if !ok {
		number = len(s.numbers)
		s.numbers[text] = number
	}
	s.known[n] = number
	return number
}

// skeleton returns the keywords of a schema that determine its shape. Numbers replace its subschemas.
func (s *Shapes) skeleton(n *source.Node) *source.Node {
	out := &source.Node{Kind: source.Object}
	named := n.Get("x-enum-varnames") != nil // the names belong to the values by their order
	for _, m := range n.Members {
		k, known := schematree.Any.Keyword(m.Key)
		v := source.CopySchemas(k, m.Value, func(inner *source.Node) *source.Node {
			return &source.Node{Kind: source.Number, Text: strconv.Itoa(s.Number(inner))}
		})
		if slices.Contains(unordered, m.Key) && !s.exact && !(named && m.Key == "enum") {
			v = &source.Node{Kind: v.Kind, Text: v.Text, Items: slices.SortedFunc(slices.Values(v.Items), func(a, b *source.Node) int { return strings.Compare(a.Text, b.Text) })}
		}
		if s.exact || (known || slices.Contains(ownKeys, m.Key)) && !slices.Contains(documentation, m.Key) && !IsName(m) {
			out.Members = append(out.Members, source.Member{Key: m.Key, Value: v})
		}
	}
	for _, ref := range References(n) {
		out.Members = append(out.Members, source.Member{Key: ref.Text, Value: &source.Node{Kind: source.String, Text: s.target(ref)}})
	}
	return sorted(out)
}

// unordered lists the keywords whose values are sets.
var unordered = []string{"required", "type", "enum"}

// documentation lists the keywords that affect only doc comments.
var documentation = []string{"title", "description", "$comment", "examples"}

// IsName reports whether a member names a part of a draft-07 schema. Only a reference to the name gives it an effect.
func IsName(m source.Member) bool { return m.Key == "$id" && strings.HasPrefix(m.Value.Text, "#") }

// References returns the references in n, except those in its subschemas.
func References(n *source.Node) []*source.Node {
	var out []*source.Node
	if ref := n.Get("$ref"); ref != nil && ref.Kind == source.String {
		out = append(out, ref)
	}
	if mapping := n.Get("discriminator").Get("mapping"); mapping != nil {
		for _, m := range mapping.Members {
			if m.Value.Kind == source.String && strings.Contains(m.Value.Text, "#") {
				out = append(out, m.Value)
			}
		}
	}
	return out
}

// sorted returns a copy of n whose members are sorted by their keys.
func sorted(n *source.Node) *source.Node {
	out := &source.Node{Kind: n.Kind, Text: n.Text}
	for _, item := range n.Items {
		out.Items = append(out.Items, sorted(item))
	}
	for _, m := range n.Members {
		out.Members = append(out.Members, source.Member{Key: m.Key, Value: sorted(m.Value)})
	}
	slices.SortStableFunc(out.Members, func(a, b source.Member) int { return strings.Compare(a.Key, b.Key) })
	return out
}
