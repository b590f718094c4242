package schema

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// Each calls f for each direct subschema of n, as [schematree.Each] does.
func (s *Set) Each(n *source.Node, f func(keyword, name string, inner *source.Node)) {
	if p := s.places[n]; p != nil {
		schematree.Each(p.root.dialect, n, f)
	}
}

// Views returns the schemas that apply to the same value as n. They are n itself and the schemas reachable from it
// through $ref, allOf, anyOf and oneOf.
func (s *Set) Views(n *source.Node) []*source.Node {
	return schematree.Views(s, n, schematree.Alternative)
}

// Target returns the target of the $ref of n. If n has no valid $ref, it returns false.
func (s *Set) Target(n *source.Node, _ string) (*source.Node, bool) {
	if n.Get("$ref") == nil {
		return nil, false
	}
	t, d := s.Resolve(n)
	return t.Node, d == nil
}

// RefAlone reports whether keywords next to a $ref in the schema n are ignored, as in draft-07.
func (s *Set) RefAlone(n *source.Node) bool {
	p := s.places[n]
	return p != nil && p.root.dialect.RefAlone
}
