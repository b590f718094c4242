package ir

import (
	"fmt"
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// alternatives returns the shape of oneOf or anyOf. It returns false if the rest of the schema already determines a Go
// type for all variants.
func (b *builder) alternatives(f *facts) (shape, bool) {
	if values, null, number, ok := enumVariants(f); ok {
		return b.enumeration(f, values, null, number), true
	}
	if b.baseSuffices(f) {
		return shape{}, false
	}
	if len(f.unions) > 1 {
		return b.rawUnion(f, "several of oneOf and anyOf apply to one value"), true
	}
	u := f.unions[0]
	null := false
	var rest []*source.Node
	for _, v := range u.variants {
		switch left := b.allowed(v) & f.kinds; {
		case left == kNull && isNull(v):
			null = true
		case left != 0:
			rest = append(rest, v)
		}
	}
	applied, significant := b.apply(f, u, rest)
	sh := b.unionOf(f, u, rest, applied, significant)
	sh.null = sh.null || null && f.kinds&kNull != 0
	return sh, true
}

// unionOf returns the shape of a union with the remaining variants.
func (b *builder) unionOf(f *facts, u alternatives, rest, applied []*source.Node, significant bool) shape {
	switch {
	case len(rest) == 0 && len(u.variants) > 0 && !slices.ContainsFunc(u.variants, isNull):
		b.reportNoValue(f, "no variant of its "+u.keyword+" does", u.part.Get(u.keyword))
		return shape{}
	case len(rest) == 0:
		return b.untyped(f.node, nil, nullAlone)
	case len(rest) == 1:
		return b.narrowedShape(applied[0])
	}
	null := false
	for _, v := range applied {
		null = null || b.nullable(v)
	}
	if d := f.get("discriminator"); d != nil {
		plan, ok := b.declaredUnion(f.node, d, rest, applied, u.dead)
		if !ok {
			return shape{}
		}
		return shape{kind: unionShape, union: plan, null: null}
	}
	if plan := b.inferredUnion(f, applied); plan != nil {
		return shape{kind: unionShape, union: plan, null: null}
	}
	if sh, ok := b.oneScalar(f, applied); ok {
		sh.null = sh.null || null
		return sh
	}
	if plan := b.formUnion(f, applied); plan != nil {
		return shape{kind: unionShape, union: plan, null: null}
	}
	if tag := b.optionalTag(applied); tag != "" {
		sh := b.rawHint(f, fmt.Sprintf("%q tells the variants apart, but need not be there", tag),
			fmt.Sprintf("add required: [%s] to every variant, or declare discriminator: {propertyName: %s}", tag, tag))
		sh.null = null
		return sh
	}
	sh := b.rawUnion(f, "no member tells the variants apart")
	sh.null = null
	return sh
}

// rawUnion returns the shape of a union that remains raw JSON, and reports the reason.
func (b *builder) rawUnion(f *facts, why string) shape {
	return b.rawHint(f, why, "declare discriminator: {propertyName: NAME}, or x-go-type: encoding/json.RawMessage to say that this is meant")
}

func (b *builder) rawHint(f *facts, why, hint string) shape {
	b.report(source.New("MCPE203", f.node.Range, "%s; the Go type is json.RawMessage", why).WithHint("%s", hint))
	return shape{kind: externalShape, goType: RawMessage, why: why}
}

// apply merges the sibling keywords of the union into each variant, if they affect Go types.
func (b *builder) apply(f *facts, u alternatives, variants []*source.Node) ([]*source.Node, bool) {
	var of kinds
	for _, v := range variants {
		of |= b.allowed(v)
	}
	var base []*source.Node
	significant := false
	for _, p := range f.parts {
		if p == u.part {
			p = b.without(p, u.keyword, "discriminator", "$ref", "allOf")
		} else if p.Get("$ref") != nil || p.Get("allOf") != nil {
			p = b.without(p, "$ref", "allOf")
		}
		base = append(base, p)
		significant = significant || !narrows(p, of)
	}
	if !significant {
		return variants, false
	}
	var applied []*source.Node
	for _, v := range variants {
		applied = append(applied, b.allOf(slices.Concat(base, []*source.Node{v})...))
	}
	return applied, true
}

// baseSuffices reports whether the Go type of the schema without its unions can represent every variant. Such a type is
// a scalar, or an object or array described by sibling keywords of the unions.
func (b *builder) baseSuffices(f *facts) bool {
	switch k := f.kinds &^ kNull; k {
	case kBool, kInteger, kNumber, kFraction:
		return true
	case kString:
		return f.get("format") != nil || f.get("contentEncoding") != nil || !b.variantsList(f)
	case kArray:
		return f.get("items") != nil || f.get("prefixItems") != nil || b.variantsNarrow(f)
	case kObject:
		if b.variantsNarrow(f) {
			return true
		}
		described := slices.ContainsFunc(f.parts, func(p *source.Node) bool {
			return len(membersOf(p.Get("properties"))) > 0 || len(membersOf(p.Get("patternProperties"))) > 0
		})
		return described && !b.isDiscriminated(f)
	}
	return false
}

// variantsList reports whether any variant lists its values.
func (b *builder) variantsList(f *facts) bool {
	for _, u := range f.unions {
		for _, v := range u.variants {
			if b.gather(v).listed {
				return true
			}
		}
	}
	return false
}

// variantsNarrow reports whether the sibling keywords of the unions also describe all members and elements of the
// variants.
func (b *builder) variantsNarrow(f *facts) bool {
	for _, u := range f.unions {
		for _, v := range u.variants {
			for _, p := range b.gather(v).parts {
				for _, m := range membersOf(p.Get("properties")) {
					if f.memberOf(m.Key) == nil {
						return false
					}
				}
				if f.get("properties") == nil && !narrows(p, 0) {
					return false
				}
			}
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

// isDiscriminated reports whether the variants and their sibling keywords form a discriminated union.
func (b *builder) isDiscriminated(f *facts) bool {
	if len(f.unions) != 1 {
		return false
	}
	if f.get("discriminator") != nil {
		return true
	}
	u := f.unions[0]
	variants := slices.DeleteFunc(slices.Clone(u.variants), func(v *source.Node) bool { return isNull(v) || b.allowed(v)&f.kinds == 0 })
	if len(variants) < 2 || slices.ContainsFunc(variants, func(v *source.Node) bool { return !b.describesMembers(v) }) {
		return false
	}
	applied, _ := b.apply(f, u, variants)
	return b.inferredUnion(f, applied) != nil
}

// describesMembers reports whether a variant has properties or is a union.
func (b *builder) describesMembers(v *source.Node) bool {
	return slices.ContainsFunc(b.gather(v).parts, func(p *source.Node) bool { return len(membersOf(p.Get("properties"))) > 0 }) ||
		len(b.gather(v).unions) > 0
}

// enumVariants returns the values of a union of constants, a form for enums with descriptions of the values. number
// reports whether a type keyword allows any number.
func enumVariants(f *facts) (values []*source.Node, null, number, ok bool) {
	if len(f.unions) != 1 || f.get("discriminator") != nil {
		return nil, false, false, false
	}
	number = allowsFractions(f.parts...)
	for _, v := range f.unions[0].variants {
		list, listed := listOf(v)
		if isNull(v) {
			null = f.kinds&kNull != 0
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
	null = null || f.kinds&kNull != 0 && slices.ContainsFunc(values, func(v *source.Node) bool { return v.Kind == source.Null })
	return values, null, number && !slices.ContainsFunc(values, rounded), ok
}

// oneScalar returns the shape of variants that all have the same scalar type. Some variants can be enums.
func (b *builder) oneScalar(f *facts, variants []*source.Node) (shape, bool) {
	base := Kind(-1)
	var values []*source.Node
	lists, open := false, false
	for _, v := range variants {
		sh := b.follow(v)
		if sh == nil || sh.kind != scalarShape && sh.kind != enumShape {
			return shape{}, false
		}
		values = append(values, sh.values...)
		lists = lists || sh.kind == enumShape
		open = open || sh.kind == scalarShape || sh.open
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
		return shape{kind: scalarShape, base: base}, true
	}
	sh := b.enumeration(f, values, false, base == Float64)
	sh.open = open
	return sh, sh.kind == enumShape
}

func isText(k Kind) bool { return k == String || k == Time || k == Bytes }

func isNumber(k Kind) bool { return k == Int64 || k == Float64 }
