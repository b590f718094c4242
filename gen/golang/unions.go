package golang

import (
	"slices"
	"strings"

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
	w.typeDoc(d, d.Role+", "+says.tells)
	w.line("type ", d.Name, " struct {")
	w.comment("Value is nil, " + says.values + ", or *" + unknown + " " + says.unknown + ".")
	w.line("Value ", variant)
	w.line("}")

	types := variantTypes(d)
	w.doc(variant + " is implemented by " + strings.Join(append(typeNames(types), "*"+unknown), ", ") + ".")
	w.line("type ", variant, " interface {")
	w.line(seal, "()")
	w.line("}")
	for _, t := range types {
		w.line()
		w.line("func (", held(t), ") ", seal, "() {}")
	}

	w.doc(unknown + " " + says.keeps + ".")
	w.line("type ", unknown, " struct {")
	w.line("Raw ", w.qual(jsonPath, "RawMessage"))
	w.line("}")
	w.line()
	w.line("func (*", unknown, ") ", seal, "() {}")
	w.doc("MarshalJSON writes " + says.raw + " as it was read.")
	w.function("(v "+unknown+") MarshalJSON() ([]byte, error)", "return v.Raw, nil")

	w.line()
	w.line("var ", codec, " = ", w.codecOf(d, variant, unknown))
	w.doc("UnmarshalJSON reads the variant " + says.reads + ".")
	w.function("(v *"+d.Name+") UnmarshalJSON(b []byte) error", "return "+codec+".Decode(b, &v.Value)")
	w.doc("MarshalJSON writes " + says.writes + ".")
	w.function("(v "+d.Name+") MarshalJSON() ([]byte, error)", "return "+codec+".Encode(v.Value)")
}

// codecOf is the codec that the methods of a union call.
func (w *writer) codecOf(d *ir.Decl, variant, unknown string) string {
	var fields, table []string
	objects := 0
	for _, v := range d.Variants {
		key := v.Has
		if v.Tagged {
			key = v.Tag
		}
		if v.Tagged || v.Has != "" {
			objects++
			table = append(table, text(key)+": func() "+variant+" {\nreturn new("+v.Decl.Name+")\n}")
			continue
		}
		read := "Value"
		if v.Decl.Form == ir.Struct {
			read = "Pointer"
		}
		fields = append(fields, strings.ToUpper(v.JSON[:1])+v.JSON[1:]+": "+w.qual(eventsImplPath, read)+"["+variant+", "+v.Decl.Name+"]")
	}
	keep := "Unknown: func(raw " + w.qual(jsonPath, "RawMessage") + ") " + variant + " {\nreturn &" + unknown + "{Raw: raw}\n}"
	codec := func(name string, fields []string) string {
		return w.qual(eventsImplPath, name) + "[" + variant + "]" + lines(fields)
	}
	if objects == 0 {
		return codec("KindUnion", append(fields, keep))
	}
	name, apart := "MemberUnion", []string{"Variants: map[string]func() " + variant + lines(table)}
	if d.Variants[slices.IndexFunc(d.Variants, func(v ir.Variant) bool { return v.Tagged || v.Has != "" })].Tagged {
		name, apart = "Union", slices.Insert(apart, 0, "Property: "+text(d.Tag))
	}
	var literal []string
	if d.Literal {
		literal = append(literal, "Literal: true")
	}
	if len(fields) == 0 {
		return codec(name, slices.Concat(apart, []string{keep}, literal))
	}
	inner := "Objects: &" + codec(name, append(apart, literal...))
	return codec("KindUnion", append(fields, inner, keep))
}

// holder writes a variant around a type that has methods of its own.
func (w *writer) holder(d *ir.Decl) {
	w.typeDoc(d, d.Role)
	w.line("type ", d.Name, " struct {")
	w.line("Value ", w.typeCode(d.Type))
	w.line("}")
	w.method("(v *"+d.Name+") UnmarshalJSON(b []byte) error", "return "+w.qual(eventsImplPath, "DecodeValue")+"(b, &v.Value)")
	w.method("(v "+d.Name+") MarshalJSON() ([]byte, error)", "return "+w.qual(eventsImplPath, "EncodeValue")+"(v.Value)")
}

// lines is a composite literal's body with one element a line, in the given order.
func lines(items []string) string { return "{\n" + strings.Join(items, ",\n") + ",\n}" }

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
