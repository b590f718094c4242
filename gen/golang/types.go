package golang

import (
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
)

// typeCode is how a type is written where it is used.
func (w *writer) typeCode(t *ir.Type) string {
	switch t.Kind {
	case ir.String, ir.Literal:
		return "string"
	case ir.Bool:
		return "bool"
	case ir.Int64:
		return "int64"
	case ir.Float64:
		return "float64"
	case ir.Bytes:
		return "[]byte"
	case ir.Time:
		return w.qual(eventsPath, "Time")
	case ir.Slice:
		return "[]" + w.typeCode(t.Elem)
	case ir.Map:
		return "map[string]" + w.typeCode(t.Elem)
	case ir.Pointer:
		return "*" + w.typeCode(t.Elem)
	case ir.Optional:
		return w.qual(eventsPath, "Optional") + "[" + w.typeCode(t.Elem) + "]"
	case ir.Named:
		return t.Decl.Name
	}
	if t.Go.Path == "" {
		return t.Go.Name
	}
	return w.qual(t.Go.Path, t.Go.Name)
}

// text is a string literal, raw where that is possible: schemas read better without escapes.
func text(s string) string {
	if strings.ContainsAny(s, "`\r\uFEFF") || !strings.ContainsAny(s, `"\`) {
		return strconv.Quote(s)
	}
	return "`" + s + "`"
}

// alias writes the declarations that stand for another type.
func (w *writer) alias(d *ir.Decl) {
	var more []string
	if d.Why != "" {
		more = append(more, "It is raw JSON: "+oneLine(d.Why)+".")
	}
	w.typeDoc(d, d.Role, more...)
	is := " "
	if d.Form == ir.Alias {
		is = " = "
	}
	w.line("type ", d.Name, is, w.typeCode(d.Type))
}
