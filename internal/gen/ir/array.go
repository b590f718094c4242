package ir

import (
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A tuple contains the schemas of the elements of an array by position.
type tuple struct {
	first []*source.Node
	// isOpen reports whether elements can follow those in first. rest is their schema, or nil for any value.
	isOpen bool
	rest   *source.Node
}

// maxTuple is the maximum number of elements to describe individually.
const maxTuple = 64

// shapeOfArray returns the shape of an array. In Go, it is a slice. If the elements do not have a common Go type, they
// are raw JSON.
func (b *builder) shapeOfArray(f *facts) shape {
	var all []possibleSchemas
	closed := -1 // the number of elements to which the schema limits the array
	if v := f.tightestBound("maxItems", -1); v != nil {
		if n, ok := int64Of(v.Text); ok {
			closed = int(min(n, 1<<30))
		}
	}
	positional := false
	var described []tuple // by the parts
	for _, p := range f.parts {
		var o possibleSchemas
		first, rest, _ := schematree.Elements(p)
		positional = positional || len(first) > 0
		describes, isOpen := len(first) > 0 || rest != nil, closed < 0 || closed > len(first)
		if !isOpen {
			first = first[:closed]
		}
		if describes {
			described = append(described, tuple{first, isOpen, rest})
		}
		for _, n := range first {
			o.add(n)
		}
		if rest != nil {
			o.add(rest)
		} else if isOpen {
			o.anyValue = true
		}
		all = append(all, o)
	}
	if len(all) == 0 {
		all = []possibleSchemas{{anyValue: true}}
	}
	sh := shape{kind: arrayShape, facts: f, elem: b.commonSchema(all)}
	if positional && len(described) == 1 && len(described[0].first) <= maxTuple {
		sh.tuple = &described[0]
	}
	switch {
	case sh.elem != nil:
	case positional:
		b.report(source.New("MCPE217", f.node.Range, "the elements of the array have different types; its Go type is []json.RawMessage").
			WithHint("prefixItems of one type with items: false (or of that type) give a typed slice; otherwise choose x-go-type"))
	case f.keyword("items") == nil || !slices.ContainsFunc(all, func(o possibleSchemas) bool { return len(o.nodes) == 0 && !o.anyValue }):
		b.report(source.New("MCPE202", f.node.Range, "the array says nothing about its items; its Go type is []json.RawMessage").
			WithHint("give items a type, or x-go-type: encoding/json.RawMessage when any value is meant"))
	}
	return sh
}

func (d *describer) arrayType(sh *shape, name string) model.Type {
	f := sh.facts
	t := model.Type{Kind: model.Array, MinItems: bound(f, "minItems", 1), MaxItems: bound(f, "maxItems", -1)}
	t.UniqueItems = slices.ContainsFunc(f.parts, func(p *source.Node) bool { return p.Get("uniqueItems").True() })
	if sh.elem != nil || sh.tuple == nil {
		t.Items = d.elementTypeOf(sh.elem, name, "Item", "the schema says nothing that holds for all elements")
		return t
	}
	t.Kind = model.Tuple
	t.Elements, t.Rest = d.elementTypes(sh.tuple, name)
	return t
}

// elementTypes describes the first elements of a tuple, and the elements that can follow them.
func (d *describer) elementTypes(t *tuple, name string) (first []model.Type, rest *model.Type) {
	for i, n := range t.first {
		e := d.typeOf(n, name+"Item"+strconv.Itoa(i+1))
		if e.Kind == model.Never {
			return first, nil
		}
		first = append(first, e)
	}
	if !t.isOpen {
		return first, nil
	}
	if rest = d.elementTypeOf(t.rest, name, "Item", "the schema says nothing about further elements"); rest.Kind == model.Never {
		return first, nil
	}
	return first, rest
}
