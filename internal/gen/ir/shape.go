package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// shapeKind is the kind of Go type that represents a schema.
type shapeKind int

const (
	// failedShape means that an error was reported for the schema.
	failedShape shapeKind = iota
	scalarShape
	externalShape
	refShape
	structShape
	mapShape
	arrayShape
	enumShape
	unionShape
	// neverShape marks a schema without valid values.
	neverShape
)

// A shape describes the Go type of a schema. It is the result of combining the schema's keywords.
type shape struct {
	kind shapeKind
	// facts contains the facts about the values of a scalarShape, structShape, mapShape or arrayShape, and of an
	// externalShape whose schema allows any type.
	facts *facts
	// allowsNull reports whether the schema allows null, without following references.
	allowsNull bool
	base       Kind           // of scalarShape and enumShape
	goType     GoType         // of externalShape
	node       *source.Node   // of refShape: the schema with the $ref
	target     schema.Target  // of refShape
	values     []*source.Node // of enumShape
	isOpen     bool           // of enumShape: other values are also valid
	elem       *source.Node   // of arrayShape and mapShape; nil if elements stay JSON
	tuple      *tuple         // of arrayShape; nil if the elements are not described by position
	object     *object        // of structShape
	union      *unionPlan     // of unionShape
	why        string         // of a value that stays JSON although nothing requests that
	variants   []*source.Node // of a union that stays JSON
}

// shape returns the shape of a schema. It caches shapes, so diagnostics are reported only once.
func (b *builder) shape(n *source.Node) *shape {
	if sh := b.shapes[n]; sh != nil {
		return sh
	}
	sh := &shape{}
	b.shapes[n] = sh // for cycles of references
	*sh = b.decide(n)
	return sh
}

func (b *builder) decide(n *source.Node) shape {
	if n.Kind != source.Object {
		if n.True() {
			return b.rawShape(n, nil, "the schema true allows any value")
		}
		return shape{kind: neverShape}
	}
	if t := n.Get("x-go-type"); t != nil && !b.ignoreGoTypes {
		return b.explicit(n, t)
	}
	if part := b.standIn(n); part != nil {
		sh := shape{}
		if part == n {
			sh = b.reference(n)
		} else {
			sh = b.narrowedShape(part)
		}
		sh.allowsNull = sh.allowsNull || n.Get("nullable").True()
		return sh
	}
	sh := b.shapeOf(b.gatherFacts(n))
	sh.allowsNull = sh.allowsNull && sh.kind != failedShape
	return sh
}

// shapeOf returns the shape for the combined facts.
func (b *builder) shapeOf(f *facts) shape {
	if f.falsePart != nil {
		b.reportNoValue(f, "the schema false is part of it", f.falsePart)
		return shape{}
	}
	if f.kinds == 0 || f.listed && len(f.values) == 0 {
		return b.reportClash(f)
	}
	if t := f.keyword("x-go-type"); t != nil && !b.ignoreGoTypes {
		sh := b.explicit(f.node, t)
		sh.allowsNull = sh.allowsNull || f.kinds != schematree.AnyType && f.kinds&schematree.Null != 0
		return sh
	}
	if !b.checkRanges(f) {
		return shape{}
	}
	if f.listed {
		return b.shapeOfEnum(f, f.values, f.kinds&schematree.Null != 0, allowsFractions(f.parts...) && !slices.ContainsFunc(f.values, losesPrecision))
	}
	b.dropImpossible(f)
	if len(f.unions) > 0 {
		if sh, ok := b.alternativesShape(f); ok {
			return sh
		}
	}
	return b.shapeOfKinds(f, f.kinds)
}

// narrowedShape returns the shape of a schema whose Go type is that of inner.
func (b *builder) narrowedShape(inner *source.Node) shape {
	sh := *b.shape(inner)
	sh.allowsNull = sh.allowsNull || b.isNullable(inner)
	return sh
}

func (b *builder) explicit(n, t *source.Node) shape {
	b.usesGoTypes = true
	g, err := ParseGoType(t.Text)
	if err != nil {
		b.report(source.New("MCPE208", t.Range, "x-go-type: %v", err))
		return shape{}
	}
	if b.opts.Unimportable != nil && g.Path != "" {
		if reason, remedy := b.opts.Unimportable(g); reason != "" {
			b.report(source.New("MCPE208", t.Range, "x-go-type: package %s %s", g.Path, reason).WithHint("%s", remedy))
			return shape{}
		}
	}
	null := n.Get("type") != nil && declaredKinds(n)&schematree.Null != 0
	for _, k := range []string{"oneOf", "anyOf"} {
		null = null || slices.ContainsFunc(n.ItemsAt(k), isNull)
	}
	return shape{kind: externalShape, goType: g, allowsNull: null}
}

func (b *builder) reference(n *source.Node) shape {
	target, d := b.set.Resolve(n)
	if d != nil {
		b.report(*d)
		return shape{}
	}
	return shape{kind: refShape, node: n, target: target}
}

const (
	backToItself = "the $ref leads back to itself and describes no value"
	selfHint     = "describe a value, such as an object with members, instead of the reference to itself"
)

// siteOfTarget returns the site of the target of a $ref. It returns false if the target describes no value.
func (b *builder) siteOfTarget(n *source.Node) (site, bool) {
	at, ok := b.siteOf(n)
	return at, ok && !b.hasReferenceCycle(n)
}

// refType returns the type of a $ref, whose target is an entry of schemas or a nested schema.
func (b *builder) refType(sh *shape) *Type {
	n := sh.target.Node
	if d := b.decls[n]; d != nil {
		return &Type{Kind: Named, Decl: d}
	}
	at, ok := b.siteOfTarget(n)
	if !ok {
		b.report(source.New("MCPE214", sh.node.Range, "%s", backToItself).WithHint(selfHint))
		return &Type{Kind: External, Go: RawMessage}
	}
	if b.holdsItself(n) {
		return b.declareSelfHolding(n, at)
	}
	return b.typeOf(n, at)
}

// hasReferenceCycle reports whether the references from n form a cycle.
func (b *builder) hasReferenceCycle(n *source.Node) bool { return b.followReferences(n) == nil }

// followReferences returns the shape at the end of the chain of references from n, or nil if the references form a
// cycle.
func (b *builder) followReferences(n *source.Node) *shape {
	seen := map[*source.Node]bool{}
	for !seen[n] {
		seen[n] = true
		sh := b.shape(n)
		if sh.kind != refShape {
			return sh
		}
		n = sh.target.Node
	}
	return nil
}

// isNullable reports whether n allows null. It follows references.
func (b *builder) isNullable(n *source.Node) bool {
	seen := map[*source.Node]bool{}
	for !seen[n] {
		seen[n] = true
		sh := b.shape(n)
		if sh.allowsNull || sh.kind != refShape {
			return sh.allowsNull
		}
		n = sh.target.Node
	}
	return false
}

// shapeOfKinds returns the shape of a schema that allows the given kinds.
func (b *builder) shapeOfKinds(f *facts, of schematree.Types) shape {
	null := of&schematree.Null != 0
	sh := shape{}
	switch k := of &^ schematree.Null; k {
	case 0:
		sh = b.rawShape(f.node, nil, nullAlone)
	case schematree.AnyType &^ schematree.Null:
		why := "the schema has no type and allows any value"
		if !null {
			why = "the schema allows any value but null"
		}
		sh, null = b.rawShape(f.node, f, why), false
	case schematree.String, schematree.Boolean, schematree.Integer, schematree.Number, schematree.Fraction:
		sh = b.scalar(f, k)
	case schematree.Array:
		sh = b.shapeOfArray(f)
	case schematree.Object:
		sh = b.objectShape(f)
	default:
		sh = shape{kind: unionShape, union: b.kindUnion(f, k)}
	}
	sh.allowsNull = sh.allowsNull || null
	return sh
}
