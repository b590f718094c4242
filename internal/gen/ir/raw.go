package ir

import (
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

const nullAlone = "the schema allows null alone"

// rawShape returns the shape of raw JSON for a value without a known type. It reports why as a diagnostic.
func (b *builder) rawShape(n *source.Node, f *facts, why string) shape {
	hint := "give it a type, or x-go-type: encoding/json.RawMessage when any value is meant"
	if why == nullAlone {
		hint = `name the type of the values beside null: type: [string, "null"]; x-go-type: encoding/json.RawMessage says that null alone is meant`
	}
	if f != nil {
		if meant, keyword := schematree.Implied(f.parts); keyword != "" {
			hint = "add type: " + meant[0].String()
			why = "without a type the keyword " + keyword + " concerns only values that are " + meant[0].String() + "s; any value is allowed"
		}
	}
	b.report(source.New("MCPE202", n.Range, "%s; the Go type is json.RawMessage", why).WithHint("%s", hint))
	return shape{kind: externalShape, facts: f, goType: RawMessage, why: why}
}

// rawUnionHint is the remedy for a union represented as raw JSON.
const rawUnionHint = "declare discriminator: {propertyName: NAME}, or x-go-type: encoding/json.RawMessage to say that this is meant"

// rawUnion returns the shape of a union represented as raw JSON. It reports why as a diagnostic. variants is nil if
// several unions apply.
func (b *builder) rawUnion(f *facts, variants []*source.Node, why, hint string) shape {
	b.report(source.New("MCPE203", f.node.Range, "%s; the Go type is json.RawMessage", why).WithHint("%s", hint))
	return shape{kind: externalShape, goType: RawMessage, variants: variants, why: why}
}

// describeRaw describes values that Go represents as raw JSON.
func (d *describer) describeRaw(sh *shape, name string) model.Type {
	t := model.Type{Kind: model.Any, Reason: sh.why}
	switch {
	case sh.why == nullAlone:
		return model.Type{Kind: model.Null}
	case len(sh.variants) > 0:
		if variants := d.ambiguousVariants(sh.variants, name); variants != nil {
			return model.Type{Kind: model.Union, Variants: variants}
		}
	case sh.facts != nil:
		t.Known = d.describeKnown(sh.facts, name)
	}
	return t
}

// describeKnown describes the types that the keywords imply in a schema that allows any type.
func (d *describer) describeKnown(f *facts, name string) []model.Type {
	var all []model.Type
	known, _ := schematree.Implied(f.parts)
	for _, of := range known {
		switch of {
		case schematree.Object:
			all = append(all, d.describeObjectAmong(f, name))
		case schematree.Array:
			sh := d.shapeOfArray(f)
			all = append(all, d.arrayType(&sh, name))
		case schematree.String:
			all = append(all, text(f))
		case schematree.Number:
			all = append(all, numeric(model.Number, f))
		}
	}
	return all
}

// describeObjectAmong describes the object values of a schema that allows several types.
func (d *describer) describeObjectAmong(f *facts, name string) model.Type {
	n := d.withType(f.node, "object")
	if d.shapes[n] == nil {
		sh := d.objectShape(f)
		d.shapes[n] = &sh
	}
	if d.shapes[n].kind == structShape {
		name += "Object"
	}
	return d.typeOf(n, name)
}

// ambiguousVariants describes the variants of a union that cannot be distinguished. It returns nil if one of them
// includes all values.
func (d *describer) ambiguousVariants(nodes []*source.Node, name string) []model.Variant {
	var all []model.Variant
	for i, v := range nodes {
		of := d.typeOf(v, name+nameSegment(v, strconv.Itoa(i+1)))
		if of.Kind == model.Any {
			return nil
		}
		of.Nullable = false // the union itself is nullable
		all = append(all, model.Variant{Title: d.variantTitle(v), Type: of})
	}
	return all
}
