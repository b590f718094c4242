package golang

import (
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// wording is what comments say about a union whose variants are told apart in one way.
type wording struct{ tells, values, unknown, keeps, raw, reads, writes string }

func wordingOf(d *ir.Decl) wording {
	const pointers = "a pointer to a variant"
	switch d.Told() {
	case "tag":
		return wording{
			"whose member " + d.Tag + " tells which variant it holds", pointers, "for a tag that the schema does not list",
			"keeps an object of " + d.Name + " whose tag the schema does not list", "the object", "that the member " + d.Tag + " names", "the variant with its tag"}
	case "member":
		return wording{
			"whose members tell which variant it holds", pointers, "for an object that is none of them, or may be several",
			"keeps an object that is none of the variants of " + d.Name, "the object", "whose member is there", "the variant"}
	}
	var values []string
	tells, objects := "whose JSON type tells which variant it holds", 0
	for _, v := range d.Variants {
		if v.JSON == "object" {
			objects++
		}
		if name := held(v.Decl); !slices.Contains(values, name) {
			values = append(values, name)
		}
	}
	if objects > 1 {
		by := "the members"
		if d.Tag != "" {
			by = "the member " + d.Tag
		}
		tells = "whose JSON type, and of an object " + by + ", tells which variant it holds"
	}
	return wording{tells, strings.Join(values, ", "), "for JSON that is none of these", "keeps JSON that is none of the variants of " + d.Name,
		"the JSON", "of the JSON type", "the variant"}
}

// held is a variant as Value holds it.
func held(d *ir.Decl) string {
	if d.Form == ir.Struct {
		return "*" + d.Name
	}
	return d.Name
}

func (w *writer) union(d *ir.Decl) {
	variant, unknown, seal, codec, says := d.Name+"Variant", d.Name+"Unknown", "is"+d.Name, "union"+d.Name, wordingOf(d)
	w.add(typeDoc(d, d.Role+", "+says.tells),
		jen.Type().Id(d.Name).Struct(
			comment("Value is nil, "+says.values+", or *"+unknown+" "+says.unknown+"."),
			jen.Id("Value").Id(variant)))

	types := variantTypes(d)
	w.add(comment(variant+" is implemented by "+strings.Join(append(typeNames(types), "*"+unknown), ", ")+"."),
		jen.Type().Id(variant).Interface(jen.Id(seal).Params()))
	for _, t := range types {
		receiver := jen.Id(t.Name)
		if t.Form == ir.Struct {
			receiver = jen.Op("*").Id(t.Name)
		}
		w.file.Line()
		w.file.Func().Params(receiver).Id(seal).Params().Block()
	}

	w.add(comment(unknown+" "+says.keeps+"."),
		jen.Type().Id(unknown).Struct(jen.Id("Raw").Qual(jsonPath, "RawMessage")))
	w.file.Line()
	w.file.Func().Params(jen.Op("*").Id(unknown)).Id(seal).Params().Block()
	w.add(comment("MarshalJSON writes "+says.raw+" as it was read."),
		jen.Func().Params(jen.Id("v").Id(unknown)).Id("MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(
			jen.Return(jen.Id("v").Dot("Raw"), jen.Nil())))

	w.add(jen.Var().Id(codec).Op("=").Add(codecOf(d, variant, unknown)))
	w.add(comment("UnmarshalJSON reads the variant "+says.reads+"."),
		jen.Func().Params(jen.Id("v").Op("*").Id(d.Name)).Id("UnmarshalJSON").Params(jen.Id("b").Index().Byte()).Error().Block(
			jen.Return(jen.Id(codec).Dot("Decode").Call(jen.Id("b"), jen.Op("&").Id("v").Dot("Value")))))
	w.add(comment("MarshalJSON writes "+says.writes+"."),
		jen.Func().Params(jen.Id("v").Id(d.Name)).Id("MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(
			jen.Return(jen.Id(codec).Dot("Encode").Call(jen.Id("v").Dot("Value")))))
}

// codecOf is the codec that the methods of a union call.
func codecOf(d *ir.Decl, variant, unknown string) *jen.Statement {
	keep := jen.Id("Unknown").Op(":").Func().Params(jen.Id("raw").Qual(jsonPath, "RawMessage")).Id(variant).Block(
		jen.Return(jen.Op("&").Id(unknown).Values(jen.Id("Raw").Op(":").Id("raw"))))
	var fields, table []jen.Code
	objects := 0
	for _, v := range d.Variants {
		key := v.Has
		if v.Tagged {
			key = v.Tag
		}
		if v.Tagged || v.Has != "" {
			objects++
			table = append(table, text(key).Op(":").Func().Params().Id(variant).Block(jen.Return(jen.New(jen.Id(v.Decl.Name)))))
			continue
		}
		read := "Value"
		if v.Decl.Form == ir.Struct {
			read = "Pointer"
		}
		fields = append(fields, jen.Id(strings.ToUpper(v.JSON[:1])+v.JSON[1:]).Op(":").
			Qual(eventsImplPath, read).Types(jen.Id(variant), jen.Id(v.Decl.Name)))
	}
	codec := func(name string, fields []jen.Code) *jen.Statement {
		return jen.Qual(eventsImplPath, name).Types(jen.Id(variant)).Add(lines(fields))
	}
	if objects == 0 {
		return codec("KindUnion", append(fields, keep))
	}
	name, apart := "MemberUnion", []jen.Code{jen.Id("Variants").Op(":").Map(jen.String()).Func().Params().Id(variant).Add(lines(table))}
	if d.Variants[slices.IndexFunc(d.Variants, func(v ir.Variant) bool { return v.Tagged || v.Has != "" })].Tagged {
		name, apart = "Union", slices.Insert(apart, 0, jen.Code(jen.Id("Property").Op(":").Add(text(d.Tag))))
	}
	var literal []jen.Code
	if d.Literal {
		literal = append(literal, jen.Id("Literal").Op(":").True())
	}
	if len(fields) == 0 {
		return codec(name, slices.Concat(apart, []jen.Code{keep}, literal))
	}
	inner := jen.Id("Objects").Op(":").Op("&").Add(codec(name, append(apart, literal...)))
	return codec("KindUnion", append(fields, inner, keep))
}

// holder writes a variant around a type that has methods of its own.
func (w *writer) holder(d *ir.Decl) {
	w.add(typeDoc(d, d.Role), jen.Type().Id(d.Name).Struct(jen.Id("Value").Add(typeCode(d.Type))))
	w.file.Line()
	w.file.Func().Params(jen.Id("v").Op("*").Id(d.Name)).Id("UnmarshalJSON").Params(jen.Id("b").Index().Byte()).Error().Block(
		jen.Return(jen.Qual(eventsImplPath, "DecodeValue").Call(jen.Id("b"), jen.Op("&").Id("v").Dot("Value"))))
	w.file.Line()
	w.file.Func().Params(jen.Id("v").Id(d.Name)).Id("MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(
		jen.Return(jen.Qual(eventsImplPath, "EncodeValue").Call(jen.Id("v").Dot("Value"))))
}

// lines is a composite literal's body with one element a line, in the given order.
func lines(items []jen.Code) *jen.Statement {
	return jen.Custom(jen.Options{Open: "{", Close: "}", Separator: ",", Multi: true}, items...)
}

// variantTypes returns each variant's type once, in order.
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
		names = append(names, held(t))
	}
	return names
}
