package golang

import (
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

func (w *writer) union(d *ir.Decl) {
	variant, unknown, seal, codec := d.Name+"Variant", d.Name+"Unknown", "is"+d.Name, "union"+d.Name
	w.add(typeDoc(d, d.Role+", whose member "+d.Tag+" tells which variant it holds"),
		jen.Type().Id(d.Name).Struct(
			comment("Value is nil, a pointer to a variant, or *"+unknown+" for a tag that the schema does not list."),
			jen.Id("Value").Id(variant)))

	types := variantTypes(d)
	w.add(comment(variant+" is implemented by *"+strings.Join(append(typeNames(types), unknown), ", *")+"."),
		jen.Type().Id(variant).Interface(jen.Id(seal).Params()))
	for _, t := range types {
		w.file.Line()
		w.file.Func().Params(jen.Op("*").Id(t.Name)).Id(seal).Params().Block()
	}

	w.add(comment(unknown+" keeps an object of "+d.Name+" whose tag the schema does not list."),
		jen.Type().Id(unknown).Struct(jen.Id("Raw").Qual(jsonPath, "RawMessage")))
	w.file.Line()
	w.file.Func().Params(jen.Op("*").Id(unknown)).Id(seal).Params().Block()
	w.add(comment("MarshalJSON writes the object as it was read."),
		jen.Func().Params(jen.Id("v").Id(unknown)).Id("MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(
			jen.Return(jen.Id("v").Dot("Raw"), jen.Nil())))

	w.codec(d, codec, variant, unknown)
	w.add(comment("UnmarshalJSON reads the variant that the member "+d.Tag+" names."),
		jen.Func().Params(jen.Id("v").Op("*").Id(d.Name)).Id("UnmarshalJSON").Params(jen.Id("b").Index().Byte()).Error().Block(
			jen.Return(jen.Id(codec).Dot("Decode").Call(jen.Id("b"), jen.Op("&").Id("v").Dot("Value")))))
	w.add(comment("MarshalJSON writes the variant with its tag."),
		jen.Func().Params(jen.Id("v").Id(d.Name)).Id("MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(
			jen.Return(jen.Id(codec).Dot("Encode").Call(jen.Id("v").Dot("Value")))))
}

// codec writes the tag table.
func (w *writer) codec(d *ir.Decl, codec, variant, unknown string) {
	var table []jen.Code
	for _, v := range d.Variants {
		table = append(table, text(v.Tag).Op(":").Func().Params().Id(variant).Block(jen.Return(jen.New(jen.Id(v.Decl.Name)))))
	}
	fields := []jen.Code{
		jen.Id("Property").Op(":").Add(text(d.Tag)),
		jen.Id("Variants").Op(":").Map(jen.String()).Func().Params().Id(variant).Add(lines(table)),
		jen.Id("Unknown").Op(":").Func().Params(jen.Id("raw").Qual(jsonPath, "RawMessage")).Id(variant).Block(
			jen.Return(jen.Op("&").Id(unknown).Values(jen.Id("Raw").Op(":").Id("raw")))),
	}
	if d.Literal {
		fields = append(fields, jen.Id("Literal").Op(":").True())
	}
	w.add(jen.Var().Id(codec).Op("=").Qual(eventsImplPath, "Union").Types(jen.Id(variant)).Add(lines(fields)))
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
		names = append(names, t.Name)
	}
	return names
}
