package golang

import (
	"strings"
	"unicode"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
)

// extraTag is the struct tag of the field for members that the schema does not name.
const extraTag = ",embed,unknown"

// declareStruct declares a struct with its JSON methods and accessors.
func (f *file) declareStruct(d *ir.Decl) {
	f.typeDoc(d, d.Role)
	if isArguments(d) && len(d.Fields) == 0 && d.Extra == nil { // event types without arguments are common and can share a type
		f.Type().Id(d.Name).Op("=").Qual(eventsImplPath, "NoArguments")
		return
	}
	f.Type().Id(d.Name).StructFunc(func(fields *jen.Group) { f.addFields(fields, d) })
	f.Line()
	f.addUnmarshalJSON(d.Name, jen.Qual(eventsImplPath, "DecodeStruct").Call(jen.Id("b"), jen.Id("v")))
	f.addEncoder(d)
	for _, m := range d.Fields {
		if m.DefaultConst != "" {
			f.addAccessor(d, m)
		}
	}
}

// addFields adds the fields of a struct to its declaration.
func (f *file) addFields(g *jen.Group, d *ir.Decl) {
	for _, m := range d.Fields {
		addComment(g, fieldDoc(m)...)
		if m.JSON == "-" {
			g.Comment("//lint:ignore SA5008 the member is named -")
		}
		g.Id(m.Name).Add(f.typeCode(m.Type)).Tag(jsonTag(fieldTag(m)))
	}
	if d.Extra != nil {
		addComment(g, "Extra holds the members that the schema does not name. Encoding writes them back.")
		g.Id("Extra").Map(jen.String()).Add(f.typeCode(d.Extra)).Tag(jsonTag(extraTag))
	}
}

// jsonTag returns a json struct tag.
func jsonTag(tag string) map[string]string { return map[string]string{"json": tag} }

// fieldTag returns the value of a field's json tag: the member name and options.
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

// addEncoder adds a MarshalJSON method to a struct that encoding/json would encode incorrectly. The causes are unnamed
// members, constants, member names that are invalid in a json tag, and nil slices or maps.
func (f *file) addEncoder(d *ir.Decl) {
	var body []jen.Code
	needed := d.Extra != nil
	for _, m := range d.Fields {
		needed = needed || !hasStandardEncoding(m.Type, m.OmitZero) || !isStandardName(m.JSON)
		if m.Const != "" {
			needed = true
			body = append(body, jen.Id("v").Dot(m.Name).Op("=").Add(valueOr(m, m.Const)))
		}
	}
	if !needed {
		return
	}
	f.Line()
	f.addMarshalJSON(d.Name, append(body, jen.Return(jen.Qual(eventsImplPath, "EncodeStruct").Call(jen.Id("v"))))...)
}

// valueOr returns an expression whose value is the field m of v, or fallback if the field is zero.
func valueOr(m *ir.Field, fallback string) *jen.Statement {
	return jen.Qual("cmp", "Or").Call(jen.Id("v").Dot(m.Name), constantCode(fallback))
}

// isStandardName reports whether encoding/json accepts a member name in a tag. For names with characters such as
// combining marks or emoji, encoding/json would use the name of the Go field instead.
func isStandardName(name string) bool {
	return name != "-" && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
	})
}

// hasStandardEncoding reports whether encoding/json and the runtime produce the same JSON for values of the type.
// nilAbsent reports whether a nil slice or map is omitted.
func hasStandardEncoding(t *ir.Type, nilAbsent bool) bool {
	switch u := t.Under(); u.Kind {
	case ir.Slice, ir.Map:
		return nilAbsent && hasStandardEncoding(u.Elem, false)
	case ir.Bytes:
		return nilAbsent
	case ir.Pointer:
		return hasStandardEncoding(u.Elem, false)
	case ir.External:
		return u.Go == ir.RawMessage || u.Go.Path == ""
	}
	return true // scalars, and types with methods
}

// addAccessor adds the method that returns the value of a member, or the default if the member is absent.
func (f *file) addAccessor(d *ir.Decl, m *ir.Field) {
	f.addDoc(m.Name + "OrDefault returns " + m.Name + ", or the schema's default " + oneLine(string(m.Default)) + " when it is absent.")
	method := f.startMethod("v", jen.Id(d.Name), m.Name+"OrDefault").Params()
	if m.Type.Kind != ir.Pointer {
		method.Add(f.typeCode(m.Type)).Block(jen.Return(valueOr(m, m.DefaultConst)))
		return
	}
	value := jen.Id("v").Dot(m.Name)
	method.Add(f.typeCode(m.Type.Elem)).Block(
		jen.If(jen.Add(value).Op("!=").Nil()).Block(jen.Return(jen.Op("*").Add(value))),
		jen.Return(constantCode(m.DefaultConst)),
	)
}
