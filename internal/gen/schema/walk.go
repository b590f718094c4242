package schema

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// Each calls f for each direct subschema of n, as [schematree.Each] does.
func (s *Set) Each(n *source.Node, f func(keyword, name string, inner *source.Node)) {
	if p := s.places[n]; p != nil {
		schematree.Each(p.root.dialect, n, f)
	}
}

// Views returns the given schemas of a value and the schemas reachable from them through $ref, allOf, anyOf and oneOf.
// It returns at most [schematree.MaxViews] schemas, without duplicates.
func (s *Set) Views(of ...*source.Node) []*source.Node {
	if len(of) == 1 {
		return schematree.Views(s, of[0], schematree.Alternative)
	}
	var all []*source.Node
	seen := make(map[*source.Node]bool)
	for _, n := range of {
		for _, v := range schematree.Views(s, n, schematree.Alternative) {
			if !seen[v] && len(all) < schematree.MaxViews {
				seen[v] = true
				all = append(all, v)
			}
		}
	}
	return all
}

// FindKeyword returns the first value of any of the keywords in the schemas of a value, or nil.
func FindKeyword(schemas []*source.Node, keywords ...string) *source.Node {
	for _, n := range schemas {
		for _, keyword := range keywords {
			if v := n.Get(keyword); v != nil {
				return v
			}
		}
	}
	return nil
}

// Requires reports whether any of the schemas of an object requires the member.
func Requires(schemas []*source.Node, name string) bool {
	return slices.ContainsFunc(schemas, func(n *source.Node) bool {
		return slices.ContainsFunc(n.ItemsAt("required"), func(required *source.Node) bool { return required.Text == name })
	})
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
