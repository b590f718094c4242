package typescript

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

// declare writes the declaration of a type with its comment. If the type is different in arguments, it also writes a
// second declaration.
func (w *writer) declare(d *model.Definition) {
	doc := prose(d.Description)
	if doc == "" {
		doc = upper(d.Role) + "."
	}
	argument := w.argument[d.Name]
	w.closed = argument == d.TS.Name
	w.declareAs(d, d.TS.Name, doc)
	if orUnknown := d.TS.OrUnknown; orUnknown != "" {
		w.line("")
		w.line("/** %s, or an object of a tag that the schema does not list. */", d.TS.Name)
		w.line("export type %s = %s | { %s: %s; [member: string]: unknown };", orUnknown, d.TS.Name, typeKey(d.Type.Discriminator), w.unlistedTagType(d.Type))
	}
	if argument != "" && !w.closed {
		w.closed = true
		w.line("")
		w.declareAs(d, argument, d.TS.Name+" in arguments: the server refuses a value that an enum does not list.")
	}
	w.closed = false
}

func (w *writer) declareAs(d *model.Definition, name, doc string) {
	w.writeComment("", doc, d.Deprecated, d.Type)
	t := d.Type
	if t.Kind == model.Object && len(t.Members) > 0 {
		w.line("export interface %s {", name)
		w.members(t)
		w.line("}")
		return
	}
	text := w.alias(d)
	if isEmptyObject(t) && strings.HasPrefix(d.Role, "the arguments of ") { // event types without arguments are common and can share a type
		w.none, text = true, " NoArguments"
	}
	w.line("export type %s =%s;", name, text)
}

// alias returns the right-hand side of a type alias.
func (w *writer) alias(d *model.Definition) string {
	if w.isCircular(d) {
		return " unknown" // its variants contain only the type itself
	}
	t := d.Type
	if t.Kind == model.Union && len(t.Variants) > 1 || t.Kind == model.Enum && len(t.Values) > 4 {
		return "\n  | " + strings.Join(w.formatAlternatives(t, true), "\n  | ")
	}
	return " " + w.formatType(t, true)
}

// isCircular reports whether an alias refers to itself directly, without an intermediate object, array or map. Such a
// type has no values, and TypeScript rejects it.
func (w *writer) isCircular(d *model.Definition) bool {
	seen := map[string]bool{}
	var leads func(t model.Type) bool
	leads = func(t model.Type) bool {
		switch t.Kind {
		case model.Ref:
			if t.Ref == d.Name {
				return true
			}
			if seen[t.Ref] {
				return false
			}
			seen[t.Ref] = true
			return leads(w.types[t.Ref].Type)
		case model.Union:
			return slices.ContainsFunc(t.Variants, func(v model.Variant) bool { return leads(v.Type) })
		}
		return false
	}
	return leads(d.Type)
}

// emptyObject is the type of objects without members. An assignment of an object with members to this type does not
// compile.
const emptyObject = "Record<string, never>"

// isEmptyObject reports whether t is an object without members.
func isEmptyObject(t model.Type) bool {
	return t.Kind == model.Object && len(t.Members) == 0 && t.Extra == nil && len(t.Patterns) == 0 && len(t.Choices) == 0
}

// unlistedTagType returns the type of unlisted tags. If all tags are strings, the compiler can distinguish it from
// listed tags.
func (w *writer) unlistedTagType(t model.Type) string {
	for _, v := range t.Variants {
		for _, tag := range v.Tags {
			if tag[0] != '"' {
				return "unknown"
			}
		}
	}
	w.open = true
	return "Unlisted"
}

func (w *writer) members(t model.Type) {
	for _, m := range t.Members {
		w.writeComment("  ", prose(m.Description), m.Deprecated, m.Type, m.Default)
		mark := "?"
		if m.Required {
			mark = ""
		}
		w.line("  %s%s: %s;", typeKey(m.Name), mark, w.formatType(m.Type, false))
	}
	if t.Extra == nil {
		return
	}
	if t.Extra.Kind != model.Any {
		w.line("  /** Other members are of type %s. */", strings.ReplaceAll(w.formatType(*t.Extra, false), "*/", `*\/`))
	}
	w.line("  [member: string]: unknown;")
}

// formatType returns the text of a type. alias reports whether the type is in an alias. In an alias that refers to
// itself, TypeScript resolves a Record immediately, but an object type lazily.
func (w *writer) formatType(t model.Type, alias bool) string {
	return strings.Join(w.formatAlternatives(t, alias), " | ")
}

// formatAlternatives returns the alternatives of t as text.
func (w *writer) formatAlternatives(t model.Type, alias bool) []string {
	var parts []string
	add := func(s string) {
		if !slices.Contains(parts, s) {
			parts = append(parts, s)
		}
	}
	switch t.Kind {
	case model.Null, model.Never, model.Boolean, model.String:
		add(t.Kind)
	case model.Integer, model.Number:
		add("number")
	case model.Const:
		add(literalType(t.Value))
	case model.Enum:
		parts = enumParts(t.Values, !w.closed || t.AnyOther)
	case model.Array:
		add(w.element(*t.Items, alias) + "[]")
	case model.Tuple:
		add(w.tuple(t, alias))
	case model.Map:
		add(w.record(*t.Items, alias))
	case model.Object:
		if isEmptyObject(t) {
			add(emptyObject)
			break
		}
		extra := model.Type{Kind: model.Any}
		if t.Extra != nil {
			extra = *t.Extra
		}
		add(w.record(extra, alias)) // an object with members has a name, or is the current declaration
	case model.Union:
		for _, v := range t.Variants {
			for _, p := range w.variant(t.Discriminator, v, alias) {
				add(p)
			}
		}
	case model.Ref:
		add(w.name(t.Ref))
	default:
		return []string{"unknown"}
	}
	if slices.Contains(parts, "unknown") {
		return []string{"unknown"}
	}
	if len(parts) > 1 {
		parts = slices.DeleteFunc(parts, func(p string) bool { return p == "never" })
	}
	if t.Nullable {
		add("null")
	}
	return parts
}

func (w *writer) record(of model.Type, alias bool) string {
	if alias {
		return "{ [member: string]: " + w.formatType(of, alias) + " }"
	}
	return "Record<string, " + w.formatType(of, alias) + ">"
}

func (w *writer) element(t model.Type, alias bool) string {
	parts := w.formatAlternatives(t, alias)
	if len(parts) > 1 {
		return "(" + strings.Join(parts, " | ") + ")"
	}
	return parts[0]
}

func (w *writer) tuple(t model.Type, alias bool) string {
	least := intOf(t.MinItems)
	var parts []string
	for i, e := range t.Elements {
		text := w.element(e, alias)
		if i >= least {
			text += "?"
		}
		parts = append(parts, text)
	}
	if t.Rest != nil {
		parts = append(parts, "..."+w.element(*t.Rest, alias)+"[]")
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func intOf(n json.Number) int {
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return int(min(max(f, 0), 1e9))
}

// enumParts returns the listed values of an enum. For an open enum, it adds a part that accepts other values. Editors
// still suggest only the listed values.
func enumParts(values []model.Value, isOpen bool) []string {
	var parts []string
	var open [2]bool
	for _, v := range values {
		text := literalType(v.Value)
		switch c := v.Value[0]; {
		case c == '"':
			open[0] = isOpen
		case c == '-' || '0' <= c && c <= '9':
			open[1] = isOpen
		}
		if !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	for i, of := range []string{"string", "number"} {
		if open[i] {
			parts = slices.DeleteFunc(parts, func(p string) bool { return p == of })
			parts = append(parts, "("+of+" & {})")
		}
	}
	return parts
}

// variant returns the text of an alternative of a union. It adds the tag if the type of the alternative does not
// contain it.
func (w *writer) variant(tag string, v model.Variant, alias bool) []string {
	if tag == "" || len(v.Tags) == 0 {
		return w.formatAlternatives(v.Type, alias)
	}
	m := w.memberOf(v.Type, tag)
	if m != nil && m.Required && m.Type.Kind == model.Const && len(v.Tags) == 1 && literalType(m.Type.Value) == literalType(v.Tags[0]) {
		return w.formatAlternatives(v.Type, alias)
	}
	mark := "?"
	if m != nil && m.Required {
		mark = ""
	}
	var tags []string
	for _, t := range v.Tags {
		tags = append(tags, literalType(t))
	}
	tagged := "{ " + typeKey(tag) + mark + ": " + strings.Join(tags, " | ") + " }"
	if isEmptyObject(w.follow(v.Type)) { // the empty object would have no tag
		return []string{tagged}
	}
	return []string{"(" + w.formatType(v.Type, alias) + " & " + tagged + ")"}
}

// follow returns the type at the end of a chain of references.
func (w *writer) follow(t model.Type) model.Type {
	for range len(w.types) {
		if t.Kind != model.Ref {
			break
		}
		t = w.types[t.Ref].Type
	}
	return t
}

// memberOf returns a member of the object type t, or nil. It follows references.
func (w *writer) memberOf(t model.Type, name string) *model.Member {
	t = w.follow(t)
	for i := range t.Members {
		if t.Members[i].Name == name {
			return &t.Members[i]
		}
	}
	return nil
}
