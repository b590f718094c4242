package golang

import (
	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// extraTag makes the codec keep the members that no other field names.
const extraTag = ",embed,unknown"

func (w *writer) structure(d *ir.Decl) {
	var fields []jen.Code
	for _, f := range d.Fields {
		if lines := fieldDoc(f); len(lines) > 0 {
			fields = append(fields, comment(lines...))
		}
		if f.JSON == "-" {
			fields = append(fields, jen.Comment("//lint:ignore SA5008 the member is named -"))
		}
		fields = append(fields, jen.Id(f.Name).Add(typeCode(f.Type)).Tag(map[string]string{"json": fieldTag(f)}))
	}
	if d.Extra != nil {
		fields = append(fields,
			comment("Extra holds the members that the schema does not name; they are written back."),
			jen.Id("Extra").Map(jen.String()).Add(typeCode(d.Extra)).Tag(map[string]string{"json": extraTag}))
	}
	w.add(typeDoc(d, d.Role), jen.Type().Id(d.Name).Struct(fields...))
	w.decoder(d)
	w.encoder(d)
	for _, f := range d.Fields {
		if f.DefaultConst != "" {
			w.accessor(d, f)
		}
	}
}

func fieldTag(f *ir.Field) string {
	switch {
	case f.OmitZero:
		return f.JSON + ",omitzero"
	case f.JSON == "-": // alone it would hide the field
		return "-,case:strict"
	}
	return f.JSON
}

func fieldDoc(f *ir.Field) []string {
	lines := withDoc(nil, ir.Doc{Text: f.Doc.Text}, "")
	if len(f.Default) > 0 {
		lines = paragraph(lines, "Default: "+oneLine(string(f.Default)))
	}
	if f.Const != "" {
		lines = paragraph(lines, "Empty means "+f.Const+", the only value.")
	}
	return withDoc(lines, ir.Doc{Deprecated: f.Doc.Deprecated}, "the schema marks this member as deprecated.")
}

// decoder hands the struct to the runtime's exact-case decoder.
func (w *writer) decoder(d *ir.Decl) {
	w.file.Line()
	w.file.Func().Params(jen.Id("v").Op("*").Id(d.Name)).Id("UnmarshalJSON").Params(jen.Id("b").Index().Byte()).Error().Block(
		jen.Return(jen.Qual(eventsImplPath, "DecodeStruct").Call(jen.Id("b"), jen.Id("v"))))
}

// encoder writes the method that structs need where encoding/json alone would write something else:
// for members without a name of their own, constants that are filled in, and nil slices and maps.
func (w *writer) encoder(d *ir.Decl) {
	var body []jen.Code
	needed := d.Extra != nil
	for _, f := range d.Fields {
		needed = needed || !standard(f.Type, f.OmitZero) || f.JSON == "-"
		if f.Const != "" {
			needed = true
			body = append(body, jen.Id("v").Dot(f.Name).Op("=").Qual("cmp", "Or").Call(jen.Id("v").Dot(f.Name), jen.Op(f.Const)))
		}
	}
	if !needed {
		return
	}
	body = append(body, jen.Return(jen.Qual(eventsImplPath, "EncodeStruct").Call(jen.Id("v"))))
	w.file.Line()
	w.file.Func().Params(jen.Id("v").Id(d.Name)).Id("MarshalJSON").Params().Params(jen.Index().Byte(), jen.Error()).Block(body...)
}

// standard reports whether encoding/json writes values of the type as the runtime does. nilAbsent
// tells that a nil slice or map is left out.
func standard(t *ir.Type, nilAbsent bool) bool {
	switch u := t.Under(); u.Kind {
	case ir.Slice, ir.Map:
		return nilAbsent && standard(u.Elem, false)
	case ir.Bytes:
		return nilAbsent
	case ir.Pointer:
		return standard(u.Elem, false)
	case ir.External:
		return u.Go == ir.RawMessage || u.Go.Path == ""
	}
	return true // scalars, and types with methods of their own
}

// accessor writes the method that gives a member or its default.
func (w *writer) accessor(d *ir.Decl, f *ir.Field) {
	result := f.Type
	body := []jen.Code{jen.Return(jen.Qual("cmp", "Or").Call(jen.Id("v").Dot(f.Name), jen.Op(f.DefaultConst)))}
	if f.Type.Kind == ir.Pointer {
		result = f.Type.Elem
		body = []jen.Code{
			jen.If(jen.Id("v").Dot(f.Name).Op("!=").Nil()).Block(jen.Return(jen.Op("*").Id("v").Dot(f.Name))),
			jen.Return(jen.Op(f.DefaultConst)),
		}
	}
	w.add(
		comment(f.Name+"OrDefault returns "+f.Name+", or the schema's default "+oneLine(string(f.Default))+" when it is absent."),
		jen.Func().Params(jen.Id("v").Id(d.Name)).Id(f.Name+"OrDefault").Params().Add(typeCode(result)).Block(body...))
}
