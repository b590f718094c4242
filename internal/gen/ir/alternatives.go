package ir

import (
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// alternativesShape returns the shape of a oneOf or anyOf. It returns false if the other keywords already determine a
// Go type for all variants.
func (b *builder) alternativesShape(f *facts) (shape, bool) {
	if values, null, number, ok := enumVariants(f); ok {
		return b.shapeOfEnum(f, values, null, number), true
	}
	if b.baseSuffices(f) {
		return shape{}, false
	}
	if len(f.unions) > 1 {
		return b.rawUnion(f, nil, "several of oneOf and anyOf apply to one value", rawUnionHint), true
	}
	u := f.unions[0]
	rest, null := b.remaining(f, u)
	sh := b.unionOf(f, u, rest)
	sh.allowsNull = sh.allowsNull || null && f.kinds&schematree.Null != 0
	return sh, true
}

// remaining returns the variants that other keywords do not exclude, except null. It also reports whether null is one.
func (b *builder) remaining(f *facts, u alternatives) (rest []*source.Node, null bool) {
	for _, v := range u.variants {
		switch left := b.allowedKinds(v) & f.kinds; {
		case left == schematree.Null && isNull(v):
			null = true
		case left != 0:
			rest = append(rest, v)
		}
	}
	return rest, null
}

// unionOf returns the shape of a union. rest lists the variants that other keywords do not exclude.
func (b *builder) unionOf(f *facts, u alternatives, rest []*source.Node) shape {
	applied := b.mergeSiblings(f, u, rest)
	switch {
	case len(rest) == 0 && len(u.variants) > 0 && !slices.ContainsFunc(u.variants, isNull):
		b.reportNoValue(f, "no variant of its "+u.keyword+" does", u.part.Get(u.keyword))
		return shape{}
	case len(rest) == 0:
		return b.rawShape(f.node, nil, nullAlone)
	case len(rest) == 1:
		return b.narrowedShape(applied[0])
	}
	null := false
	for _, v := range applied {
		null = null || b.isNullable(v)
	}
	if d := f.keyword("discriminator"); d != nil {
		plan, ok := b.declaredUnion(f.node, d, rest, applied, u.dropped)
		if !ok {
			return shape{}
		}
		return shape{kind: unionShape, union: plan, allowsNull: null}
	}
	if plan := b.inferredUnion(f, applied); plan != nil {
		return shape{kind: unionShape, union: plan, allowsNull: null}
	}
	if sh, ok := b.commonScalar(f, applied); ok {
		sh.allowsNull = sh.allowsNull || null
		return sh
	}
	if plan := b.untaggedUnion(f, applied); plan != nil {
		return shape{kind: unionShape, union: plan, allowsNull: null}
	}
	why, hint := "no member tells the variants apart", rawUnionHint
	if tag := b.optionalTag(applied); tag != "" {
		why = fmt.Sprintf("%q tells the variants apart, but need not be there", tag)
		hint = fmt.Sprintf("add required: [%s] to every variant, or declare discriminator: {propertyName: %s}", tag, tag)
	}
	sh := b.rawUnion(f, applied, why, hint)
	sh.allowsNull = null
	return sh
}

// mergeSiblings merges the keywords next to the union into each variant. It does so only if they affect the Go types.
func (b *builder) mergeSiblings(f *facts, u alternatives, variants []*source.Node) []*source.Node {
	var of schematree.Types
	for _, v := range variants {
		of |= b.allowedKinds(v)
	}
	var base []*source.Node
	significant := false
	for _, p := range f.parts {
		if p == u.part {
			p = b.withoutKeywords(p, u.keyword, "discriminator", "$ref", "allOf")
		} else if p.Get("$ref") != nil || p.Get("allOf") != nil {
			p = b.withoutKeywords(p, "$ref", "allOf")
		}
		base = append(base, p)
		significant = significant || !onlyNarrows(p, of)
	}
	if !significant {
		return variants
	}
	var applied []*source.Node
	for _, v := range variants {
		applied = append(applied, b.allOf(slices.Concat(base, []*source.Node{v})...))
	}
	return applied
}

// baseSuffices reports whether the Go type of the schema without its unions can represent every variant. Such a type is
// a scalar, or an object or array that the keywords next to the unions describe.
func (b *builder) baseSuffices(f *facts) bool {
	switch k := f.kinds &^ schematree.Null; k {
	case schematree.Boolean, schematree.Integer, schematree.Number, schematree.Fraction:
		return true
	case schematree.String:
		return f.keyword("format") != nil || f.keyword("contentEncoding") != nil ||
			!slices.ContainsFunc(f.variants(), func(v *source.Node) bool { return b.gatherFacts(v).listed })
	case schematree.Array:
		return f.keyword("items") != nil || f.keyword("prefixItems") != nil || b.siblingsDescribeVariants(f)
	case schematree.Object:
		if b.siblingsDescribeVariants(f) {
			return true
		}
		described := len(f.properties) > 0 || slices.ContainsFunc(f.parts, func(p *source.Node) bool { return len(p.MembersAt("patternProperties")) > 0 })
		return described && !b.isDiscriminated(f)
	}
	return false
}

// siblingsDescribeVariants reports whether the keywords next to the unions describe every member and element of the
// variants.
func (b *builder) siblingsDescribeVariants(f *facts) bool {
	for _, v := range f.variants() {
		inner := b.gatherFacts(v)
		if slices.ContainsFunc(inner.properties, func(m source.Member) bool { return f.memberOf(m.Key) == nil }) {
			return false
		}
		if f.keyword("properties") == nil && slices.ContainsFunc(inner.parts, func(p *source.Node) bool { return !onlyNarrows(p, 0) }) {
			return false
		}
	}
	return !b.isDiscriminated(f)
}

func (f *facts) memberOf(key string) *source.Node {
	for _, p := range f.parts {
		if m := p.Get("properties").Get(key); m != nil {
			return m
		}
	}
	return nil
}

// isDiscriminated reports whether the only union in f has a discriminator or a member that identifies each variant.
func (b *builder) isDiscriminated(f *facts) bool {
	if len(f.unions) != 1 {
		return false
	}
	if f.keyword("discriminator") != nil {
		return true
	}
	variants, _ := b.remaining(f, f.unions[0])
	if len(variants) < 2 || slices.ContainsFunc(variants, func(v *source.Node) bool { return !b.describesMembers(v) }) {
		return false
	}
	return b.inferredUnion(f, b.mergeSiblings(f, f.unions[0], variants)) != nil
}

// describesMembers reports whether a variant has properties or is a union.
func (b *builder) describesMembers(v *source.Node) bool {
	f := b.gatherFacts(v)
	return len(f.properties)+len(f.unions) > 0
}

// enumVariants returns the values of a union whose variants are constants. Authors use such unions to describe each
// value of an enum. number reports whether a type keyword allows any number.
func enumVariants(f *facts) (values []*source.Node, null, number, ok bool) {
	if len(f.unions) != 1 || f.keyword("discriminator") != nil {
		return nil, false, false, false
	}
	number = allowsFractions(f.parts...)
	for _, v := range f.unions[0].variants {
		list, listed := ownValues(v)
		if isNull(v) {
			null = f.kinds&schematree.Null != 0
			continue
		}
		if !listed || v.Get("$ref") != nil || v.Get("allOf") != nil {
			return nil, false, false, false
		}
		number = number || allowsFractions(v)
		for _, value := range list {
			if kindOf(value)&f.kinds&declaredKinds(v) != 0 {
				values, ok = append(values, value), true
			}
		}
	}
	null = null || f.kinds&schematree.Null != 0 && slices.ContainsFunc(values, func(v *source.Node) bool { return v.Kind == source.Null })
	return values, null, number && !slices.ContainsFunc(values, losesPrecision), ok
}

// commonScalar returns the shape of a union whose variants, including enums, have a common scalar type.
func (b *builder) commonScalar(f *facts, variants []*source.Node) (shape, bool) {
	base := Kind(-1)
	var values []*source.Node
	lists, open := false, false
	for _, v := range variants {
		sh := b.followReferences(v)
		if sh == nil || sh.kind != scalarShape && sh.kind != enumShape {
			return shape{}, false
		}
		values = append(values, sh.values...)
		lists = lists || sh.kind == enumShape
		open = open || sh.kind == scalarShape || sh.isOpen
		of := sh.base
		if of == Literal {
			if of = baseOf(sh.values, true); of == Literal {
				return shape{}, false
			}
		}
		switch {
		case base < 0 || base == of:
			base = of
		case isText(base) && isText(of):
			base = String
		case isNumber(base) && isNumber(of):
			base = Float64
		default:
			return shape{}, false
		}
	}
	if !lists || base == Bool {
		return shape{kind: scalarShape, facts: f, base: base}, true
	}
	sh := b.shapeOfEnum(f, values, false, base == Float64)
	sh.isOpen = open
	return sh, sh.kind == enumShape
}

func isText(k Kind) bool { return k == String || k == Time || k == Bytes }

func isNumber(k Kind) bool { return k == Int64 || k == Float64 }
