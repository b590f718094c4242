package openapi

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/yaml"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// OpenAPI expresses inheritance by a base schema with a discriminator, and subtypes that refer to the base in allOf. A
// reference to the base means any subtype, except within a subtype. An event file has two schemas for the base, without
// a cycle: the union of the subtypes, and their common members.

// A sharedKey identifies a version of a shared schema.
type sharedKey struct {
	pointer string
	version version
}

type version int

const (
	// wholeSchema is the target of ordinary references. For a base, it is the union of the subtypes.
	wholeSchema version = iota
	// commonPart is the part of a base that its subtypes share.
	commonPart
	// ownTagPart is the common part, restricted to the base's own tag. It is used if the mapping of a base contains the
	// base itself.
	ownTagPart
)

func (v version) suffix() string { return [...]string{"", "Base", "Itself"}[v] }

// A family consists of a base and the schemas that its discriminator selects.
type family struct {
	tag string
	// members lists the JSON Pointers of the schemas. tags maps each pointer to the tags that select the schema.
	members []string
	tags    map[string][]string
}

// hasVariants reports whether a schema lists the variants for its discriminator in oneOf or anyOf.
func hasVariants(n *source.Node) bool { return n.Get("oneOf") != nil || n.Get("anyOf") != nil }

// family returns the family of the base at a pointer. It returns nil if the schema is not a base, has no subtypes, or
// cannot become a union. It reports the last case as a diagnostic.
func (r *reader) family(pointer string) *family {
	if f, known := r.families[pointer]; known {
		return f
	}
	r.families[pointer] = nil
	n := r.doc.Lookup(pointer)
	d := n.Get("discriminator")
	if d == nil || d.Kind != source.Object || hasVariants(n) {
		return nil
	}
	f, err := r.newFamily(pointer, n, d)
	if err != nil {
		name, _ := n.Key()
		r.changed(d.Range, name, err)
		return nil
	}
	if len(f.members) > 0 {
		r.families[pointer] = f
	}
	return r.families[pointer]
}

func (r *reader) newFamily(pointer string, n, d *source.Node) (*family, error) {
	tag := d.Get("propertyName")
	if tag == nil || tag.Kind != source.String {
		return nil, fmt.Errorf("it has no propertyName")
	}
	f := &family{tag: tag.Text, tags: map[string][]string{}}
	mapping := d.Get("mapping")
	if mapping == nil && r.extendedSchemas()[n] {
		return nil, fmt.Errorf("it has no mapping")
	}
	for _, e := range d.MembersAt("mapping") {
		to, sub, err := r.mappingTarget(pointer, n, e.Value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("its mapping of %q: %w", e.Key, err)
		case sub == n:
		case !r.extends(sub, n, map[*source.Node]bool{}):
			return nil, fmt.Errorf("%s of its mapping does not have it in its allOf, at most %d schemas up", e.Value.Text, maxAncestors)
		case !hasVariants(sub) && sub.Get("discriminator").Get("propertyName") != nil && sub.Get("discriminator").Get("propertyName").Text != tag.Text:
			return nil, fmt.Errorf("%s of its mapping has another discriminator", e.Value.Text)
		}
		if f.tags[to] == nil {
			f.members = append(f.members, to)
		}
		f.tags[to] = append(f.tags[to], e.Key)
	}
	return f, nil
}

// mappingTarget returns the target of a mapping entry of the base n. The entry is a reference, or the name of a sibling
// of n. base is the JSON Pointer of n.
func (r *reader) mappingTarget(base string, n, to *source.Node) (string, *source.Node, error) {
	if sub := n.Parent.Get(to.Text); sub != nil {
		return base[:strings.LastIndexByte(base, '/')] + wire.Pointer(to.Text), sub, nil
	}
	pointer, sub, err := importer.Resolve(r.doc, to.Text)
	if err == nil && !isShared(pointer) {
		err = fmt.Errorf("it refers to %s, which is not a schema of the components", to.Text)
	}
	return pointer, sub, err
}

// isShared reports whether the schema at a pointer becomes a shared schema of the event file.
func isShared(pointer string) bool {
	name, ok := strings.CutPrefix(pointer, components)
	return ok && !strings.Contains(name, "/") || strings.HasPrefix(pointer, "/"+Elsewhere+"/")
}

// A parent is a shared schema in the allOf of another schema.
type parent struct {
	pointer string
	node    *source.Node
}

func (r *reader) parents(n *source.Node) []parent {
	var all []parent
	if list := n.Get("allOf"); list != nil {
		for _, item := range list.Items {
			if ref := item.Get("$ref"); ref != nil {
				if pointer, to, err := importer.Resolve(r.doc, ref.Text); err == nil && isShared(pointer) {
					all = append(all, parent{pointer, to})
				}
			}
		}
	}
	return all
}

// maxAncestors limits the number of visited ancestors of a schema. The run time is therefore linear in the size of the
// document.
const maxAncestors = 100

// extends reports whether the allOf of n contains base, directly or indirectly.
func (r *reader) extends(n, base *source.Node, seen map[*source.Node]bool) bool {
	if seen[n] || len(seen) > maxAncestors {
		return false
	}
	seen[n] = true
	return slices.ContainsFunc(r.parents(n), func(p parent) bool { return p.node == base || r.extends(p.node, base, seen) })
}

// extendedSchemas returns the component schemas that occur in the allOf of other component schemas.
func (r *reader) extendedSchemas() map[*source.Node]bool {
	if r.bases == nil {
		r.bases = map[*source.Node]bool{}
		for _, m := range r.doc.Get("components").MembersAt("schemas") {
			for _, p := range r.parents(m.Value) {
				r.bases[p.node] = true
			}
		}
	}
	return r.bases
}

// A tagMember is a discriminator property and the values that are valid for a schema.
type tagMember struct {
	name   string
	values []string
}

// tagMembers returns the tags that select a schema in its own family and in the families of its ancestors.
func (r *reader) tagMembers(pointer string) []tagMember {
	var all []tagMember
	seen := map[*source.Node]bool{}
	var visit func(p parent)
	visit = func(p parent) {
		if seen[p.node] || len(seen) > maxAncestors {
			return
		}
		seen[p.node] = true
		if f := r.family(p.pointer); f != nil && f.tags[pointer] != nil {
			i := slices.IndexFunc(all, func(t tagMember) bool { return t.name == f.tag })
			if i < 0 {
				i = len(all)
				all = append(all, tagMember{name: f.tag})
			}
			for _, v := range f.tags[pointer] {
				if !slices.Contains(all[i].values, v) {
					all[i].values = append(all[i].values, v)
				}
			}
		}
		for _, up := range r.parents(p.node) {
			visit(up)
		}
	}
	visit(parent{pointer, r.doc.Lookup(pointer)})
	return all
}

// sharedSchema converts a shared schema.
func (r *reader) sharedSchema(w sharedKey) (*source.Node, error) {
	n, f, tags := r.doc.Lookup(w.pointer), r.family(w.pointer), r.tagMembers(w.pointer)
	if w.version == wholeSchema && f != nil {
		return r.unionSchema(n, f), nil
	}
	others := slices.ContainsFunc(n.Members, func(m source.Member) bool { return m.Key != "allOf" && m.Key != "title" && m.Key != "description" })
	if parents := r.parents(n); len(parents) > 0 {
		r.isSubtype = f != nil || len(tags) > 0 || others || len(n.Get("allOf").Items) > 1
	}
	if w.version != wholeSchema && n.Get("nullable") != nil { // the union is nullable
		n = &source.Node{Kind: n.Kind, Range: n.Range, Members: slices.DeleteFunc(slices.Clone(n.Members), func(m source.Member) bool { return m.Key == "nullable" })}
	}
	r.top = n
	out, err := r.convertSchema(n)
	if err != nil || w.version == commonPart {
		return out, err
	}
	for _, t := range tags {
		restrictTag(out, t)
	}
	return out, nil
}

// unionSchema returns the union of the subtypes of a base. It replaces the base as the target of references.
func (r *reader) unionSchema(n *source.Node, f *family) *source.Node {
	out, variants, mapping, d := yaml.Object(), yaml.List(), yaml.Object(), yaml.Object()
	for _, m := range n.Members {
		if m.Key == "title" || m.Key == "description" || m.Key == "deprecated" {
			out.Members = append(out.Members, m)
		}
	}
	for _, pointer := range f.members {
		w := sharedKey{pointer: pointer}
		if r.family(pointer) != nil {
			w.version = ownTagPart
		}
		variant := importer.Reference("#/schemas/" + r.requireShared(w))
		variants.Items = append(variants.Items, variant)
		for _, tag := range f.tags[pointer] {
			yaml.Set(mapping, tag, variant.Get("$ref"))
		}
	}
	yaml.Set(out, "oneOf", variants)
	yaml.Set(d, "propertyName", yaml.Text(f.tag))
	yaml.Set(d, "mapping", mapping)
	yaml.Set(out, "discriminator", d)
	if n.Get("nullable").True() {
		return allowNull(out)
	}
	return out
}

// restrictTag restricts a tag member of the object schema n to its valid values.
func restrictTag(n *source.Node, t tagMember) {
	values, member, has, list := yaml.Object(), yaml.Object(), yaml.Object(), yaml.List()
	if len(t.values) == 1 {
		yaml.Set(values, "const", yaml.Text(t.values[0]))
	} else {
		yaml.Set(values, "enum", yaml.Texts(t.values))
	}
	yaml.Set(member, t.name, values)
	yaml.Set(has, "type", yaml.Text("object"))
	yaml.Set(has, "properties", member)
	yaml.Set(has, "required", yaml.Texts([]string{t.name}))
	if m := n.Member("allOf"); m != nil {
		list.Items = append(slices.Clone(m.Value.Items), has)
		m.Value = list
		return
	}
	list.Items = append(list.Items, has)
	yaml.Set(n, "allOf", list)
}

// subtypeAllOf converts the allOf of a subtype. It replaces references to a base or a schema with tags with references
// to the common part.
func (r *reader) subtypeAllOf(list *source.Node) (*source.Node, error) {
	out := yaml.List()
	for _, item := range list.Items {
		ref := item.Get("$ref")
		if ref != nil {
			pointer, _, err := importer.Resolve(r.doc, ref.Text)
			if err == nil && isShared(pointer) && (r.family(pointer) != nil || len(r.tagMembers(pointer)) > 0) {
				out.Items = append(out.Items, importer.Reference("#/schemas/"+r.requireShared(sharedKey{pointer, commonPart})))
				continue
			}
		}
		n, err := r.convertSchema(item)
		if err != nil {
			return nil, err
		}
		out.Items = append(out.Items, n)
	}
	return out, nil
}

// changed reports an omitted discriminator.
func (r *reader) changed(at source.Range, name string, why error) {
	r.found = append(r.found, source.New("MCPE502", at, "the discriminator of %s is left out, and its subtypes are not told apart: %v", name, why))
}
