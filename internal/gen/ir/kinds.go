package ir

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

type kinds = schematree.Types

const (
	kNull     = schematree.Null
	kBool     = schematree.Boolean
	kInteger  = schematree.Integer
	kFraction = schematree.Fraction
	kString   = schematree.String
	kArray    = schematree.Array
	kObject   = schematree.Object

	kNumber = schematree.Number
	anyKind = schematree.AnyType
)

// kindOf returns the kinds of a value. For a number with a fraction, the result includes integers.
func kindOf(v *source.Node) kinds {
	if k := schematree.TypeOf(v.Value()); k != kFraction {
		return k
	}
	return kNumber
}

// declaredKinds returns the kinds that the type keyword allows. It also considers OpenAPI's nullable.
func declaredKinds(n *source.Node) kinds {
	k := schematree.Declared(n)
	if n.Get("nullable").True() {
		k |= kNull
	}
	return k
}

// allowedKinds returns the kinds that n allows according to its types, values and unions.
func (b *builder) allowedKinds(n *source.Node) kinds {
	if n.Kind != source.Object {
		if n.True() {
			return anyKind
		}
		return 0
	}
	if k, ok := b.kinds[n]; ok {
		return k
	}
	b.kinds[n] = anyKind // a cycle adds no information
	f := b.gatherFacts(n)
	k := f.kinds
	for _, u := range f.unions {
		var any kinds
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
