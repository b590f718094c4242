package openapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// convertSchema converts an OpenAPI schema to JSON Schema.
func (r *reader) convertSchema(n *source.Node) (*source.Node, error) {
	if n.Kind != source.Object {
		return n, nil
	}
	out := yaml.Object()
	nullable, subtype := false, r.isSubtype
	r.isSubtype = false
	for _, m := range n.Members {
		switch {
		case m.Key == "allOf" && subtype && m.Value.Kind == source.Array:
			bases, err := r.subtypeAllOf(m.Value)
			if err != nil {
				return nil, err
			}
			yaml.Set(out, m.Key, bases)
		case m.Key == "$ref" && r.isEmbedded:
			yaml.Set(out, m.Key, m.Value)
		case m.Key == "$ref" && m.Value.Kind == source.String:
			to, err := r.convertReference(m.Value.Text)
			if err != nil {
				return nil, err
			}
			if to.Get("$ref") == nil {
				return to, nil
			}
			out.Members = append(out.Members, to.Members...)
		case m.Key == "nullable":
			nullable = m.Value.True()
		case m.Key == "discriminator" && !hasVariants(n):
			if n != r.top && m.Value.Get("mapping") != nil { // family reports other mappings
				r.changed(m.Value.Range, "a schema that is not shared", fmt.Errorf("no schema can have it in its allOf"))
			}
		case m.Key == "discriminator":
			if err := r.convertDiscriminator(out, m.Value); err != nil {
				return nil, err
			}
		case m.Key == "example" || m.Key == "examples" || m.Key == "xml" || m.Key == "externalDocs" || strings.HasPrefix(m.Key, "x-") && m.Key != "x-enum-varnames":
		case (m.Key == "exclusiveMinimum" || m.Key == "exclusiveMaximum") && m.Value.Kind == source.Bool:
			if limit := n.Get(bounds[m.Key]); m.Value.True() && limit != nil {
				yaml.Set(out, m.Key, limit)
			}
		case (m.Key == "minimum" || m.Key == "maximum") && n.Get("exclusive"+strings.ToUpper(m.Key[:1])+m.Key[1:]).True():
		default:
			v, err := r.convertKeyword(m)
			if err != nil {
				return nil, err
			}
			yaml.Set(out, m.Key, v)
		}
	}
	r.addType(n, out)
	if out.Get("$ref") != nil && !r.allowsSiblings {
		out.Members = slices.DeleteFunc(out.Members, func(m source.Member) bool { return m.Key != "$ref" })
	}
	if nullable {
		return allowNull(out), nil
	}
	return out, nil
}

// addType adds a missing type to a schema if its keywords imply an object or an array. OpenAPI schemas commonly omit it.
func (r *reader) addType(n, out *source.Node) {
	if r.conditionDepth > 0 || slices.ContainsFunc([]string{"type", "enum", "const", "$ref"}, func(k string) bool { return out.Get(k) != nil }) {
		return
	}
	if meant, keyword := schematree.Implied([]*source.Node{out}); keyword != "" && meant[0]&(schematree.Object|schematree.Array) != 0 {
		out.Members = append([]source.Member{{Key: "type", Value: yaml.Text(meant[0].String())}}, out.Members...)
		r.untyped = append(r.untyped, n.Range)
	}
}

var bounds = map[string]string{"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}

// convertKeyword converts the value of a keyword.
func (r *reader) convertKeyword(m source.Member) (*source.Node, error) {
	switch m.Key {
	case "not", "if", "then", "else":
		r.conditionDepth++
		defer func() { r.conditionDepth-- }()
	}
	var failed error
	k, _ := schematree.Any.Keyword(m.Key)
	out := source.CopySchemas(k, m.Value, func(inner *source.Node) *source.Node {
		if failed != nil {
			return inner
		}
		var n *source.Node
		n, failed = r.convertSchema(inner)
		return n
	})
	return out, failed
}

// components is the prefix of JSON Pointers to component schemas.
const components = "/components/schemas/"

// convertReference converts a $ref to a reference to a shared schema. If the target does not become a shared schema, it
// returns the converted target.
func (r *reader) convertReference(ref string) (*source.Node, error) {
	pointer, to, err := importer.Resolve(r.doc, ref)
	if err != nil {
		return nil, err
	}
	if rest, ok := strings.CutPrefix(pointer, components); ok {
		name, below, nested := strings.Cut(rest, "/")
		as := r.requireShared(sharedKey{pointer: components + name})
		if nested {
			as += "/" + (&url.URL{Fragment: below}).EscapedFragment()
		}
		return importer.Reference("#/schemas/" + as), nil
	}
	if strings.HasPrefix(pointer, "/"+Elsewhere+"/") {
		return importer.Reference("#/schemas/" + r.requireShared(sharedKey{pointer: pointer})), nil
	}
	if slices.Contains(r.inlined, pointer) {
		return nil, fmt.Errorf("it refers to %s, which refers to itself", ref)
	}
	r.inlined = append(r.inlined, pointer)
	defer func() { r.inlined = r.inlined[:len(r.inlined)-1] }()
	return r.convertSchema(to)
}

// Elsewhere is the name of the document member with the referenced files. Their schemas become shared schemas, like
// component schemas.
const Elsewhere = "x-mcpe-files"

// requireShared schedules a shared schema for writing and returns its name in the event file. It derives the name from
// the last token of the JSON Pointer.
func (r *reader) requireShared(w sharedKey) string {
	if as := r.sharedNames[w]; as != "" {
		return as
	}
	tokens, _ := wire.SplitPointer(w.pointer)
	name := tokens[len(tokens)-1] + w.version.suffix()
	as := importer.UniqueName(importer.CleanName(name), "_", r.takenNames)
	r.sharedNames[w] = as
	r.order = append(r.order, w)
	return as
}

// convertDiscriminator converts a discriminator and the references in its mapping.
func (r *reader) convertDiscriminator(out, d *source.Node) error {
	n := yaml.Object()
	for _, m := range d.Members {
		switch {
		case m.Key == "propertyName":
			yaml.Set(n, m.Key, m.Value)
		case m.Key == "mapping":
			mapping := yaml.Object()
			for _, e := range m.Value.Members {
				to := e.Value
				if pointer := importer.Unescaped(to.Text); strings.HasPrefix(pointer, "#"+components) || strings.HasPrefix(pointer, "#/"+Elsewhere+"/") {
					ref, err := r.convertReference(to.Text)
					if err != nil {
						return err
					}
					to = ref.Get("$ref")
				}
				yaml.Set(mapping, e.Key, to)
			}
			yaml.Set(n, m.Key, mapping)
		}
	}
	yaml.Set(out, "discriminator", n)
	return nil
}

// allowNull returns a schema that also allows null. It adds null to the type keyword if possible.
func allowNull(n *source.Node) *source.Node {
	t := n.Member("type")
	for _, k := range []string{"$ref", "allOf", "anyOf", "oneOf", "not", "const", "if"} {
		if n.Get(k) != nil {
			t = nil
		}
	}
	if t == nil && n.Get("enum") == nil || t == nil && len(n.Members) > 1 {
		null := yaml.Object()
		yaml.Set(null, "type", yaml.Text("null"))
		either := yaml.Object()
		for _, k := range []string{"title", "description", "deprecated"} { // annotations that apply to both
			if m := n.Member(k); m != nil {
				either.Members = append(either.Members, *m)
				key := k
				n.Members = slices.DeleteFunc(n.Members, func(m source.Member) bool { return m.Key == key })
			}
		}
		yaml.Set(either, "anyOf", yaml.List(n, null))
		return either
	}
	if t != nil && t.Value.Kind == source.String {
		t.Value = yaml.Texts([]string{t.Value.Text, "null"})
	} else if t != nil && !slices.ContainsFunc(t.Value.Items, func(v *source.Node) bool { return v.Text == "null" }) {
		t.Value = yaml.List(append(slices.Clone(t.Value.Items), yaml.Text("null"))...)
	}
	if e := n.Member("enum"); e != nil && !slices.ContainsFunc(e.Value.Items, func(v *source.Node) bool { return v.Kind == source.Null }) {
		e.Value = yaml.List(append(slices.Clone(e.Value.Items), &source.Node{Kind: source.Null})...)
	}
	return n
}
