package schema

import "github.com/mcpe-gen/mcpe-gen/gen/source"

// An Inner is a schema within another.
type Inner struct {
	// Keyword holds the schema; Name is its name there, empty where the keyword names none.
	Keyword, Name string
	Node          *source.Node
	// InPlace tells that both schemas apply to the same value.
	InPlace bool
}

// Inner returns the schemas directly within the schema n, in the order in which they are written.
func (s *Set) Inner(n *source.Node) []Inner {
	p := s.places[n]
	if p == nil || n.Kind != source.Object {
		return nil
	}
	var all []Inner
	for _, m := range n.Members {
		k := p.root.dialect.keywords[m.Key]
		if k.shape == data {
			continue
		}
		eachSchema(k.shape, m.Value, func(inner *source.Node) {
			name := ""
			if inner.Parent == m.Value && m.Value.Kind == source.Object {
				name, _ = inner.Key()
			}
			all = append(all, Inner{Keyword: m.Key, Name: name, Node: inner, InPlace: k.inPlace})
		})
	}
	return all
}

// Views returns the schemas that apply to the same value as n: n itself and what it reaches by $ref
// and through allOf, anyOf and oneOf.
func (s *Set) Views(n *source.Node) []*source.Node { return s.views(n) }
