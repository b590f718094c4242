package golang

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// extraTag makes the codec keep the members that no other field names.
const extraTag = ",embed,unknown"

func (w *writer) structure(d *ir.Decl) {
	w.typeDoc(d, d.Role)
	if isArguments(d) && len(d.Fields) == 0 && d.Extra == nil { // many event types have none: one type is enough
		w.line("type ", d.Name, " = ", w.qual(eventsImplPath, "NoArguments"))
		return
	}
	if len(d.Fields) == 0 && d.Extra == nil {
		w.line("type ", d.Name, " struct{}")
	} else {
		w.line("type ", d.Name, " struct {")
		w.fields(d)
		w.line("}")
	}
	w.decoder(d)
	w.encoder(d)
	for _, f := range d.Fields {
		if f.DefaultConst != "" {
			w.accessor(d, f)
		}
	}
}

func (w *writer) fields(d *ir.Decl) {
	for _, f := range d.Fields {
		w.comment(fieldDoc(f)...)
		if f.JSON == "-" {
			w.line("//lint:ignore SA5008 the member is named -")
		}
		w.line(f.Name, " ", w.typeCode(f.Type), " ", tagCode(fieldTag(f)))
	}
	if d.Extra != nil {
		w.comment("Extra holds the members that the schema does not name; they are written back.")
		w.line("Extra map[string]", w.typeCode(d.Extra), " ", tagCode(extraTag))
	}
}

// tagCode is the tag of a field for the codec.
func tagCode(tag string) string {
	tag = "json:" + strconv.Quote(tag)
	if strconv.CanBackquote(tag) {
		return "`" + tag + "`"
	}
	return strconv.Quote(tag)
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
	if f.Why != "" {
		lines = paragraph(lines, "Raw JSON: "+oneLine(f.Why)+".")
	}
	return withDoc(lines, ir.Doc{Deprecated: f.Doc.Deprecated}, "the schema marks this member as deprecated.")
}

// decoder hands the struct to the runtime's exact-case decoder.
func (w *writer) decoder(d *ir.Decl) {
	w.method("(v *"+d.Name+") UnmarshalJSON(b []byte) error", "return "+w.qual(eventsImplPath, "DecodeStruct")+"(b, v)")
}

// encoder writes the method that structs need if encoding/json alone would write something else: for
// members that the schema does not name, names that encoding/json does not take from a tag, constants
// that are filled in, and nil slices and maps.
func (w *writer) encoder(d *ir.Decl) {
	var body []string
	needed := d.Extra != nil
	for _, f := range d.Fields {
		needed = needed || !standard(f.Type, f.OmitZero) || !standardName(f.JSON)
		if f.Const != "" {
			needed = true
			body = append(body, "v."+f.Name+" = "+w.qual("cmp", "Or")+"(v."+f.Name+", "+f.Const+")")
		}
	}
	if !needed {
		return
	}
	body = append(body, "return "+w.qual(eventsImplPath, "EncodeStruct")+"(v)")
	w.method("(v "+d.Name+") MarshalJSON() ([]byte, error)", body...)
}

// standardName reports whether encoding/json takes the name of a member from the tag. It writes the name of the Go
// field if the tag's name has other characters, such as combining marks, currency signs or emoji.
func standardName(name string) bool {
	return name != "-" && !strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("!#$%&()*+-./:;<=>?@[]^_{|}~ ", r)
	})
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
	w.doc(f.Name + "OrDefault returns " + f.Name + ", or the schema's default " + oneLine(string(f.Default)) + " when it is absent.")
	signature := "(v " + d.Name + ") " + f.Name + "OrDefault() "
	if f.Type.Kind == ir.Pointer {
		w.function(signature+w.typeCode(f.Type.Elem),
			"if v."+f.Name+" != nil {", "return *v."+f.Name, "}",
			"return "+f.DefaultConst)
		return
	}
	w.function(signature+w.typeCode(f.Type), "return "+w.qual("cmp", "Or")+"(v."+f.Name+", "+f.DefaultConst+")")
}
