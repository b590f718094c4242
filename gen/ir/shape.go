package ir

import (
	"slices"

	"github.com/mcpe-gen/mcpe-gen/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// shapeKind says which rule of the type table a schema falls under.
type shapeKind int

const (
	// failedShape was reported as an error.
	failedShape shapeKind = iota
	scalarShape
	externalShape
	refShape
	structShape
	mapShape
	arrayShape
	enumShape
	unionShape
)

// A shape is what a schema comes down to once its keywords are weighed against each other.
type shape struct {
	kind shapeKind
	// node is the schema that describes the value: the only variant of a union of one, else the
	// schema itself.
	node *source.Node
	// null says that the schema itself, references aside, also allows null.
	null   bool
	base   Kind           // of scalarShape and enumShape
	goType GoType         // of externalShape
	target schema.Target  // of refShape
	values []*source.Node // of enumShape
	union  *unionPlan     // of unionShape
}

// shape decides once per node, so that its diagnostics appear once.
func (b *builder) shape(n *source.Node) *shape {
	if sh := b.shapes[n]; sh != nil {
		return sh
	}
	sh := &shape{node: n}
	b.shapes[n] = sh // a reference cycle meets this one
	*sh = b.decide(n)
	if sh.node == nil {
		sh.node = n
	}
	return sh
}

func (b *builder) decide(n *source.Node) shape {
	if n.Kind != source.Object {
		if n.True() {
			return b.untyped(n, "the schema true allows any value")
		}
		return b.untyped(n, "the schema false allows no value")
	}
	if t := n.Get("x-go-type"); t != nil {
		return b.explicit(n, t)
	}
	if b.unsupported(n) {
		return shape{}
	}
	if n.Get("$ref") != nil {
		return b.reference(n)
	}
	if inner := onlyElement(n.Get("allOf")); inner != nil && !structural(n) {
		return b.through(inner)
	}
	if n.Get("enum") != nil || n.Get("const") != nil {
		return b.enumeration(n, b.enumValues(n))
	}
	if variants := variantsOf(n); variants != nil && !refining(n, variants) {
		return b.variants(n, variants)
	}
	return b.typed(n)
}

// through makes the shape of a schema that says nothing beside its only part.
func (b *builder) through(inner *source.Node) shape {
	sh := *b.shape(inner)
	sh.null = sh.null || b.nullable(inner)
	return sh
}

func (b *builder) explicit(n, t *source.Node) shape {
	g, err := ParseGoType(t.Text)
	if err != nil {
		b.report(source.New("MCPE208", t.Range, "x-go-type: %v", err))
		return shape{}
	}
	return shape{kind: externalShape, goType: g, null: allowsNull(n)}
}

func (b *builder) reference(n *source.Node) shape {
	target, d := b.set.Resolve(n)
	if d != nil {
		b.report(*d)
		return shape{}
	}
	return shape{kind: refShape, target: target}
}

// refType is the type that a $ref stands for: the declaration of an entry, or what a place inside
// a schema has.
func (b *builder) refType(sh *shape) *Type {
	n := sh.target.Node
	if d := b.decls[n]; d != nil {
		return &Type{Kind: Named, Decl: d}
	}
	at, ok := b.siteOf(n)
	if !ok || b.loops(n) {
		b.report(source.New("MCPE214", sh.node.Range, "the $ref leads to no described value"))
		return &Type{Kind: External, Go: RawMessage}
	}
	if b.holdsItself(n) {
		return b.selfHolding(n, at)
	}
	return b.typeOf(n, at)
}

// holdsItself reports whether an array or map leads back to itself through nothing but arrays and
// maps: then no struct on the way has a name to refer to.
func (b *builder) holdsItself(n *source.Node) bool {
	seen := map[*source.Node]bool{}
	for at := n; !seen[at]; {
		seen[at] = true
		switch sh := b.shape(at); sh.kind {
		case arrayShape:
			at = at.Get("items")
		case mapShape:
			at = at.Get("additionalProperties")
		case refShape:
			at = sh.target.Node
		default:
			return false
		}
		if at == nil || at.Kind != source.Object {
			return false
		}
		if at == n {
			return true
		}
	}
	return false
}

// selfHolding declares such an array or map; finish makes a defined type of it.
func (b *builder) selfHolding(n *source.Node, at site) *Type {
	d := &Decl{Name: at.name, Role: at.role, Doc: docOf(n), At: keyRange(n), Form: Alias}
	b.decls[n] = d
	b.declare(b.names, d.Name, "the type of "+n.Pointer(), d.At)
	*at.root.into = append(*at.root.into, d)
	b.all = append(b.all, d)
	d.Type = b.plainType(b.shape(n), at)
	return &Type{Kind: Named, Decl: d}
}

// loops reports whether a chain of references from n never leaves references.
func (b *builder) loops(n *source.Node) bool {
	seen := map[*source.Node]bool{}
	for !seen[n] {
		seen[n] = true
		sh := b.shape(n)
		if sh.kind != refShape {
			return false
		}
		n = sh.target.Node
	}
	return true
}

// nullable reports whether null is a value of n, its references followed.
func (b *builder) nullable(n *source.Node) bool {
	seen := map[*source.Node]bool{}
	for !seen[n] {
		seen[n] = true
		sh := b.shape(n)
		if sh.null || sh.kind != refShape {
			return sh.null
		}
		n = sh.target.Node
	}
	return false
}

// typed is the shape that follows from type, given or inferred.
func (b *builder) typed(n *source.Node) shape {
	types, null := typesOf(n)
	if len(types) == 2 && slices.Contains(types, "integer") && slices.Contains(types, "number") {
		types = []string{"number"}
	}
	switch {
	case len(types) > 1:
		b.report(source.New("MCPE203", n.Range, "a value of type %s becomes json.RawMessage", listed(types)).
			WithHint("choose a Go type with x-go-type, or x-go-type: encoding/json.RawMessage to say that this is meant"))
		return shape{kind: externalShape, goType: RawMessage, null: null}
	case len(types) == 0 && null:
		return b.untyped(n, "the schema allows null alone")
	case len(types) == 0:
		return b.untyped(n, "the schema has no type and nothing from which one follows")
	}
	sh := b.oneType(n, types[0])
	sh.null = null
	return sh
}

func (b *builder) oneType(n *source.Node, typ string) shape {
	if typ != "object" && typ != "array" && n.Get("format") != nil {
		if g, ok := b.opts.Formats[n.Get("format").Text]; ok {
			return shape{kind: externalShape, goType: g}
		}
	}
	switch typ {
	case "string":
		return shape{kind: scalarShape, base: stringKind(n)}
	case "boolean":
		return shape{kind: scalarShape, base: Bool}
	case "number":
		return shape{kind: scalarShape, base: Float64}
	case "integer":
		b.checkBounds(n)
		return shape{kind: scalarShape, base: Int64}
	case "array":
		if n.Get("items") == nil {
			return b.untyped(n, "the array says nothing about its items")
		}
		return shape{kind: arrayShape}
	case "object":
		return b.object(n)
	}
	return b.untyped(n, "type "+typ+" is not a type of JSON Schema")
}

func stringKind(n *source.Node) Kind {
	if e := n.Get("contentEncoding"); e != nil && e.Text == "base64" {
		return Bytes
	}
	if f := n.Get("format"); f != nil && f.Text == "date-time" {
		return Time
	}
	return String
}

func (b *builder) untyped(n *source.Node, why string) shape {
	b.report(source.New("MCPE202", n.Range, "%s", why).
		WithHint("give it a type, or x-go-type: encoding/json.RawMessage when any value is meant"))
	return shape{}
}
