package ir

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// kindOf returns the kinds of a value. For a number with a fraction, the result includes integers.
func kindOf(v *source.Node) schematree.Types {
	if k := schematree.TypeOf(v.Value()); k != schematree.Fraction {
		return k
	}
	return schematree.Number
}

// declaredKinds returns the kinds that the type keyword allows. It also considers OpenAPI's nullable.
func declaredKinds(n *source.Node) schematree.Types {
	k := schematree.Declared(n)
	if n.Get("nullable").True() {
		k |= schematree.Null
	}
	return k
}

// allowedKinds returns the kinds that n allows according to its types, values and unions.
func (b *builder) allowedKinds(n *source.Node) schematree.Types {
	if n.Kind != source.Object {
		if n.True() {
			return schematree.AnyType
		}
		return 0
	}
	if k, ok := b.kinds[n]; ok {
		return k
	}
	b.kinds[n] = schematree.AnyType // a cycle adds no information
	f := b.gatherFacts(n)
	k := f.kinds
	for _, u := range f.unions {
		var any schematree.Types
		for _, v := range u.variants {
			any |= b.allowedKinds(v)
		}
		k &= any
	}
	if f.falsePart != nil {
		k = 0
	}
	b.kinds[n] = k
	return k
}
