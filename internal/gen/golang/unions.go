package golang

import (
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// wording contains phrases for the comments about a union. They depend on how the variants are identified.
type wording struct{ tells, values, unknown, keeps, raw, reads, writes string }

func wordingOf(d *ir.Decl) wording {
	const pointers = "a pointer to a variant"
	switch d.Told() {
	case "tag":
		return wording{
			"whose member " + d.Tag + " selects the variant", pointers, "for a tag that the schema does not list",
			"holds an object of " + d.Name + " whose tag the schema does not list", "the object", "that the member " + d.Tag + " names", "the variant with its tag"}
	case "member":
		return wording{
			"whose members select the variant", pointers, "for an object that matches no variant, or several",
			"holds an object that is not a variant of " + d.Name, "the object", "whose member is present", "the variant"}
	}
	tells, objects := "whose JSON type selects the variant", 0
	for _, v := range d.Variants {
		if v.JSON == "object" {
			objects++
		}
	}
	if objects > 1 {
		by := "the members"
		if d.Tag != "" {
			by = "the member " + d.Tag
		}
		tells = "whose JSON type and, for an object, " + by + " select the variant"
	}
	return wording{tells, strings.Join(typeNames(variantTypes(d)), ", "), "for other JSON", "holds JSON that is not a variant of " + d.Name,
		"the JSON", "of the JSON type", "the variant"}
}

// valueType returns the type that a variant has in the field Value.
func valueType(d *ir.Decl) string {
	if d.Form == ir.Struct {
		return "*" + d.Name
	}
	return d.Name
}

// declareUnion declares the struct for a union, the interface that its variants implement, and a type for unknown
// variants.
func (f *file) declareUnion(d *ir.Decl) {
	variant, unknown, seal, codec, says := d.VariantType, d.UnknownType, "is"+d.Name, "union"+d.Name, wordingOf(d)
	f.typeDoc(d, d.Role+", "+says.tells)
	f.Type().Id(d.Name).StructFunc(func(fields *jen.Group) {
		addComment(fields, "Value is nil, "+says.values+", or *"+unknown+" "+says.unknown+".")
		fields.Id("Value").Id(variant)
	})

	types := variantTypes(d)
	f.addDoc(variant + " is implemented by " + strings.Join(append(typeNames(types), "*"+unknown), ", ") + ".")
	f.Type().Id(variant).Interface(jen.Id(seal).Params())
	for _, t := range types {
		f.addMarker(jen.Op(valueType(t)), seal)
	}

	f.addDoc(unknown + " " + says.keeps + ".")
	f.Type().Id(unknown).Struct(jen.Id("Raw").Qual(jsonPath, "RawMessage"))
	f.addMarker(pointer(jen.Id(unknown)), seal)
	f.addDoc("MarshalJSON writes " + says.raw + " as it was read.")
	f.addMarshalJSON(unknown, jen.Return(jen.Id("v").Dot("Raw"), jen.Nil()))

	f.Line()
	f.Var().Id(codec).Op("=").Add(codecOf(d, variant, unknown))
	value := jen.Id("v").Dot("Value")
	f.addDoc("UnmarshalJSON reads the variant " + says.reads + ".")
	f.addUnmarshalJSON(d.Name, jen.Id(codec).Dot("Decode").Call(jen.Id("b"), addressOf(value)))
	f.addDoc("MarshalJSON writes " + says.writes + ".")
	f.addMarshalJSON(d.Name, jen.Return(jen.Id(codec).Dot("Encode").Call(value)))
}

// addMarker adds the marker method of a union's interface to a variant.
func (f *file) addMarker(of jen.Code, name string) {
	f.Line()
	f.Func().Params(of).Id(name).Params().Block()
}

// codecOf returns the codec that the JSON methods of a union use.
func codecOf(d *ir.Decl, variant, unknown string) *jen.Statement {
	codec := func(name string, fields []jen.Code) *jen.Statement {
		return jen.Qual(eventsImplPath, name).Types(jen.Id(variant)).Add(multiline(fields...))
	}
	var fields []jen.Code
	for _, v := range d.Variants {
		if isObject(v) {
			continue
		}
		read := "Value"
		if v.Decl.Form == ir.Struct {
			read = "Pointer"
		}
		fields = append(fields, keyedElement(strings.ToUpper(v.JSON[:1])+v.JSON[1:],
			jen.Qual(eventsImplPath, read).Types(jen.Id(variant), jen.Id(v.Decl.Name))))
	}
	keep := keyedElement("Unknown", jen.Func().Params(jen.Id("raw").Qual(jsonPath, "RawMessage")).Id(variant).Block(
		jen.Return(addressOf(jen.Id(unknown).Values(keyedElement("Raw", jen.Id("raw"))))),
	))
	first := slices.IndexFunc(d.Variants, isObject)
	if first < 0 {
		return codec("KindUnion", append(fields, keep))
	}
	name, objects := "MemberUnion", []jen.Code{keyedElement("Variants", objectTable(d, variant))}
	if len(d.Variants[first].Tags) > 0 {
		name, objects = "Union", slices.Insert(objects, 0, jen.Code(keyedElement("Property", stringLiteral(d.Tag))))
	}
	var literal []jen.Code
	if d.Literal {
		literal = append(literal, keyedElement("Literal", jen.True()))
	}
	if len(fields) == 0 {
		return codec(name, slices.Concat(objects, []jen.Code{keep}, literal))
	}
	inner := keyedElement("Objects", addressOf(codec(name, append(objects, literal...))))
	return codec("KindUnion", append(fields, inner, keep))
}

// isObject reports whether the variant is an object identified by a member.
func isObject(v ir.Variant) bool { return len(v.Tags) > 0 || v.Has != "" }

// objectTable returns a map literal whose keys are tags or members and whose values are functions that create object
// variants.
func objectTable(d *ir.Decl, variant string) *jen.Statement {
	var table []jen.Code
	for _, v := range d.Variants {
		keys := v.Tags
		if v.Has != "" {
			keys = []string{v.Has}
		}
		for _, key := range keys {
			table = append(table, stringLiteral(key).Op(":").Func().Params().Id(variant).Block(jen.Return(jen.New(jen.Id(v.Decl.Name)))))
		}
	}
	return jen.Map(jen.String()).Func().Params().Id(variant).Add(multiline(table...))
}

// declareHolder declares a struct that wraps a type, so the type can be a variant. It also declares the JSON methods.
func (f *file) declareHolder(d *ir.Decl) {
	f.typeDoc(d, d.Role)
	f.Type().Id(d.Name).Struct(jen.Id("Value").Add(f.typeCode(d.Type)))
	value := jen.Id("v").Dot("Value")
	f.Line()
	f.addUnmarshalJSON(d.Name, jen.Qual(eventsImplPath, "DecodeValue").Call(jen.Id("b"), addressOf(value)))
	f.Line()
	f.addMarshalJSON(d.Name, jen.Return(jen.Qual(eventsImplPath, "EncodeValue").Call(value)))
}

// variantTypes returns the types of the variants in order, without duplicates.
func variantTypes(d *ir.Decl) []*ir.Decl {
	var types []*ir.Decl
	seen := map[*ir.Decl]bool{}
	for _, v := range d.Variants {
		if !seen[v.Decl] {
			seen[v.Decl] = true
			types = append(types, v.Decl)
		}
	}
	return types
}

func typeNames(types []*ir.Decl) []string {
	var names []string
	for _, t := range types {
		names = append(names, valueType(t))
	}
	return names
}
