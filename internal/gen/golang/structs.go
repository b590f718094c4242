package golang

import (
	"strings"
	"unicode"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// extraTag makes the codec keep members without a field.
const extraTag = ",embed,unknown"

// structure declares a struct with its JSON methods and accessors.
func (f *file) structure(d *ir.Decl) {
	f.typeDoc(d, d.Role)
	if isArguments(d) && len(d.Fields) == 0 && d.Extra == nil { // event types without arguments are common and can share a type
		f.Type().Id(d.Name).Op("=").Qual(eventsImplPath, "NoArguments")
		return
	}
	f.Type().Id(d.Name).StructFunc(func(fields *jen.Group) { f.fields(fields, d) })
	f.Line()
	f.unmarshalJSON(d.Name, jen.Qual(eventsImplPath, "DecodeStruct").Call(jen.Id("b"), jen.Id("v")))
	f.encoder(d)
	for _, m := range d.Fields {
		if m.DefaultConst != "" {
			f.accessor(d, m)
		}
	}
}

// fields adds the fields of a struct to its declaration.
func (f *file) fields(g *jen.Group, d *ir.Decl) {
	for _, m := range d.Fields {
		comment(g, fieldDoc(m)...)
		if m.JSON == "-" {
			g.Comment("//lint:ignore SA5008 the member is named -")
		}
		g.Id(m.Name).Add(f.typeCode(m.Type)).Tag(jsonTag(fieldTag(m)))
	}
	if d.Extra != nil {
		comment(g, "Extra holds the members that the schema does not name. Encoding writes them back.")
		g.Id("Extra").Map(jen.String()).Add(f.typeCode(d.Extra)).Tag(jsonTag(extraTag))
	}
}

// jsonTag returns the tag of a field for the codec.
func jsonTag(tag string) map[string]string { return map[string]string{"json": tag} }

// fieldTag returns the name of a member and the options of the codec.
func fieldTag(f *ir.Field) string {
	switch {
	case f.OmitZero:
		return f.JSON + ",omitzero"
	case f.JSON == "-": // without the comma, encoding/json would skip the field
		return "-,case:strict"
	}
	return f.JSON
}

// fieldDoc returns the doc comment of a field.
func fieldDoc(f *ir.Field) []string {
	lines := withDoc(nil, ir.Doc{Text: f.Doc.Text}, "")
	if len(f.Default) > 0 {
		lines = paragraph(lines, "Default: "+oneLine(string(f.Default)))
	}
	if f.Const != "" {
		lines = paragraph(lines, "Empty means "+f.Const+", the only value.")
	}
	if f.Why != "" {
		lines = paragraph(lines, "Raw JSON: "+oneLine(f.Why)+".")
	}
	return withDoc(lines, ir.Doc{Deprecated: f.Doc.Deprecated}, "the schema marks this member as deprecated.")
}

// encoder adds a marshal method to structs for which encoding/json would write something else. Reasons are unnamed
// members, names that encoding/json does not accept in a tag, constants to fill in, and nil slices and maps.
func (f *file) encoder(d *ir.Decl) {
	var body []jen.Code
	needed := d.Extra != nil
	for _, m := range d.Fields {
		needed = needed || !standard(m.Type, m.OmitZero) || !standardName(m.JSON)
		if m.Const != "" {
			needed = true
			body = append(body, jen.Id("v").Dot(m.Name).Op("=").Add(valueOr(m, m.Const)))
		}
	}
	if !needed {
		return
	}
	f.Line()
	f.marshalJSON(d.Name, append(body, jen.Return(jen.Qual(eventsImplPath, "EncodeStruct").Call(jen.Id("v"))))...)
}

// valueOr returns the value of a field of v, or other if the field has Go's zero value.
func valueOr(m *ir.Field, other string) *jen.Statement {
	return jen.Qual("cmp", "Or").Call(jen.Id("v").Dot(m.Name), constant(other))
}

// standardName reports whether encoding/json accepts the name of a member in a tag. For names with other characters,
// such as combining marks, currency signs or emoji, it uses the name of the Go field.
func standardName(name string) bool {
	return name != "-" && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
	})
}

// standard reports whether encoding/json and the runtime write equal JSON for values of the type. nilAbsent reports
// whether a nil slice or map is omitted.
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
	return true // scalars, and types with methods
}

// accessor adds the method that returns a member, or its default if the member is absent.
func (f *file) accessor(d *ir.Decl, m *ir.Field) {
	f.doc(m.Name + "OrDefault returns " + m.Name + ", or the schema's default " + oneLine(string(m.Default)) + " when it is absent.")
	method := f.method("v", jen.Id(d.Name), m.Name+"OrDefault").Params()
	if m.Type.Kind != ir.Pointer {
		method.Add(f.typeCode(m.Type)).Block(jen.Return(valueOr(m, m.DefaultConst)))
		return
	}
	value := jen.Id("v").Dot(m.Name)
	method.Add(f.typeCode(m.Type.Elem)).Block(
		jen.If(jen.Add(value).Op("!=").Nil()).Block(jen.Return(jen.Op("*").Add(value))),
		jen.Return(constant(m.DefaultConst)),
	)
}
