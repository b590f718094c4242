package ir

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// A unionPlan describes a union before its variants have Go types.
type unionPlan struct {
	// tag is the discriminator of tagged variants.
	tag      string
	literal  bool
	variants []plannedVariant
}

// A plannedVariant is a variant of a unionPlan. It is identified by its tags, by a member that no other variant
// requires, or by its JSON type.
type plannedVariant struct {
	node *source.Node
	// originals lists the variants in the event file for which node was created. Variants with the same Go type share a
	// node.
	originals         []*source.Node
	tags              []string
	identifyingMember string
	// jsonType is the JSON type. name is the suffix for the type name of an inline variant.
	jsonType, name string
}

func taggedVariant(node *source.Node, tags ...string) plannedVariant {
	return plannedVariant{node: node, originals: []*source.Node{node}, tags: tags, jsonType: "object", name: Suffix(unquoted(tags[0]))}
}

// allTagged reports whether all variants have tags.
func (p *unionPlan) allTagged() bool {
	return !slices.ContainsFunc(p.variants, func(v plannedVariant) bool { return len(v.tags) == 0 })
}

// variantObjects returns the objects of the variants, or nil if a variant is not an object.
func (b *builder) variantObjects(variants []*source.Node) []*object {
	objects := make([]*object, len(variants))
	for i, v := range variants {
		if objects[i] = b.variantObject(v); objects[i] == nil {
			return nil
		}
	}
	return objects
}

// variantObject returns the object of a variant, or nil if the variant is not an object.
func (b *builder) variantObject(v *source.Node) *object {
	if sh := b.followReferences(v); sh != nil && sh.kind == structShape {
		return sh.object
	}
	return nil
}

// flattenUnions replaces nested unions with their variants.
func (b *builder) flattenUnions(variants []*source.Node) []*source.Node {
	var all []*source.Node
	for _, v := range variants {
		if sh := b.followReferences(v); sh != nil && sh.kind == unionShape {
			for _, inner := range sh.union.variants {
				all = append(all, inner.originals...)
			}
			continue
		}
		all = append(all, v)
	}
	return all
}

// inferredUnion returns the union plan for variants with a required member that is a different constant in each. It
// returns nil for other variants.
func (b *builder) inferredUnion(f *facts, variants []*source.Node) *unionPlan {
	return b.inferUnion(variants, func(obj *object, tag string) bool { return obj.get(tag).required || f.requires(tag) })
}

// optionalTag returns the name of a member that would identify the variants if it were required, or "".
func (b *builder) optionalTag(variants []*source.Node) string {
	plan := b.inferUnion(variants, func(*object, string) bool { return true })
	if plan == nil {
		return ""
	}
	return plan.tag
}

// inferUnion returns the union plan for variants with a member that is a different constant in each, or nil. It
// considers only members for which counted returns true.
func (b *builder) inferUnion(variants []*source.Node, counted func(obj *object, tag string) bool) *unionPlan {
	variants = b.flattenUnions(variants)
	objects := b.variantObjects(variants)
	if objects == nil {
		return nil
	}
	for _, m := range objects[0].members {
		if plan := b.planFor(counted, m.key, variants, objects); plan != nil {
			return plan
		}
	}
	return nil
}

func (b *builder) planFor(counted func(*object, string) bool, tag string, variants []*source.Node, objects []*object) *unionPlan {
	plan := &unionPlan{tag: tag}
	var values []*source.Node
	for _, obj := range objects {
		vals, open := b.listedValues(obj, tag)
		if len(vals) != 1 || open || !isScalar(vals[0]) || !counted(obj, tag) {
			return nil
		}
		values = append(values, vals[0])
	}
	plan.literal = !allStrings(values)
	seen := map[string]bool{}
	for i, v := range values {
		t := tagText(v, plan.literal)
		if seen[t] {
			return nil
		}
		seen[t] = true
		plan.variants = append(plan.variants, taggedVariant(variants[i], t))
	}
	return plan
}

// declaredUnion returns the union plan for an OpenAPI discriminator. The tags of a variant are the constants of its tag
// member, its entries in mapping, or the last element of its $ref, in order of precedence. applied lists the variants,
// merged with the keywords next to the union. dead lists the dropped variants.
func (b *builder) declaredUnion(n, d *source.Node, variants, applied, dead []*source.Node) (*unionPlan, bool) {
	name := d.Get("propertyName")
	if name == nil || name.Kind != source.String || name.Text == "" {
		b.report(source.New("MCPE210", d.Range, "the discriminator needs propertyName, a string"))
		return nil, false
	}
	mapping, ok := b.assignMapping(n, d, variants, dead)
	if !ok {
		return nil, false
	}
	plan := &unionPlan{tag: name.Text}
	consts := make([][]*source.Node, len(variants))
	inner := make([]*unionPlan, len(variants))
	for i, v := range applied {
		if sh := b.followReferences(v); sh != nil && sh.kind == unionShape && sh.union.tag == name.Text && sh.union.allTagged() {
			inner[i] = sh.union
			plan.literal = plan.literal || sh.union.literal
			continue
		}
		obj := b.variantObject(v)
		if obj == nil {
			b.report(source.New("MCPE210", variants[i].Range, "a variant of a discriminated union must be an object schema with properties"))
			return nil, false
		}
		consts[i], _ = b.listedValues(obj, name.Text)
		plan.literal = plan.literal || !allStrings(consts[i])
	}
	for i, v := range variants {
		if inner[i] != nil {
			for _, iv := range inner[i].variants {
				if plan.literal && !inner[i].literal {
					iv.tags = literals(iv.tags)
				}
				plan.variants = append(plan.variants, iv)
			}
			continue
		}
		tags, ok := b.tagsOf(v, consts[i], mapping[i], plan.literal)
		if !ok {
			return nil, false
		}
		plan.variants = append(plan.variants, taggedVariant(applied[i], tags...))
	}
	return plan, b.distinctTags(plan)
}

func literals(tags []string) []string {
	out := make([]string, len(tags))
	for i, t := range tags {
		out[i] = tagText(&source.Node{Kind: source.String, Text: t}, true)
	}
	return out
}

// assignMapping assigns the entries of discriminator.mapping to variants. An entry contains a reference to the variant,
// or the last element of the variant's $ref.
func (b *builder) assignMapping(n, d *source.Node, variants, dead []*source.Node) (map[int][]source.Member, bool) {
	out := map[int][]source.Member{}
	for _, entry := range d.MembersAt("mapping") {
		named := func(v *source.Node) bool {
			ref := v.Get("$ref")
			return ref != nil && (schematree.LastToken(ref.Text) == entry.Value.Text || b.sameTarget(n, v, entry.Value))
		}
		i := slices.IndexFunc(variants, named)
		if i < 0 && slices.ContainsFunc(dead, named) {
			continue // its variant was dropped
		}
		if i < 0 {
			b.report(source.New("MCPE210", entry.Value.Range, "the mapping of %q names none of the variants", entry.Key))
			return nil, false
		}
		out[i] = append(out[i], entry)
	}
	return out, true
}

// sameTarget reports whether text and the $ref of variant refer to the same schema. It resolves text relative to n.
func (b *builder) sameTarget(n, variant, text *source.Node) bool {
	want, d := b.set.Resolve(variant)
	if d != nil {
		return false
	}
	got, d := b.set.ResolveText(n, text)
	return d == nil && got.Node == want.Node
}

func (b *builder) tagsOf(v *source.Node, consts []*source.Node, mapped []source.Member, literal bool) ([]string, bool) {
	var tags []string
	for _, c := range consts {
		tags = append(tags, tagText(c, literal))
	}
	for _, m := range mapped {
		tag := tagText(&source.Node{Kind: source.String, Text: m.Key}, literal)
		if len(consts) > 0 && !slices.Contains(tags, tag) {
			b.report(source.New("MCPE210", m.KeyRange, "the mapping %q is not a value of the variant's tag member", m.Key).
				WithRelated(consts[0].Range, "the variant's value is here"))
			return nil, false
		}
		if len(consts) == 0 {
			tags = append(tags, tag)
		}
	}
	if len(tags) == 0 {
		ref := v.Get("$ref")
		if ref == nil {
			b.report(source.New("MCPE210", v.Range, "the variant has no tag").
				WithHint("give its tag member a const"))
			return nil, false
		}
		tags = []string{tagText(&source.Node{Kind: source.String, Text: schematree.LastToken(ref.Text)}, literal)}
	}
	return tags, true
}

func (b *builder) distinctTags(plan *unionPlan) bool {
	seen := map[string]*source.Node{}
	for _, v := range plan.variants {
		for _, t := range v.tags {
			if prev := seen[t]; prev != nil {
				b.report(source.New("MCPE210", v.node.Range, "two variants have the tag %q", t).
					WithRelated(prev.Range, "the other variant is here"))
				return false
			}
			seen[t] = v.node
		}
	}
	return true
}

// fillUnion adds the variants to the declaration of a union, after determining their types.
func (b *builder) fillUnion(d *Decl, sh *shape, at site) {
	d.Tag, d.Literal = sh.union.tag, sh.union.literal
	for _, v := range sh.union.variants {
		what := v.jsonType
		switch {
		case len(v.tags) > 0:
			what = v.tags[0]
		case v.identifyingMember != "":
			what = v.identifyingMember
		}
		t := b.typeOf(v.node, at.below(v.node, v.name, "the variant "+what))
		target := b.variantDecl(d, v, t, at)
		if target == nil {
			continue // its own rule reports it
		}
		d.Variants = append(d.Variants, Variant{JSON: v.jsonType, Tags: v.tags, Has: v.identifyingMember, Decl: target})
	}
}

// variantDecl returns the Go declaration for a variant of the union d. It returns the declaration of the variant's type
// if that type can have methods, or a new declaration based on the type. It returns nil if an error was reported for
// the type.
func (b *builder) variantDecl(d *Decl, v plannedVariant, t *Type, at site) *Decl {
	sh := b.followReferences(v.node)
	if sh == nil || sh.kind == failedShape {
		return nil
	}
	of := at.below(v.node, v.name, "the variant "+v.jsonType)
	switch {
	case sh.kind == structShape || sh.kind == enumShape:
		return t.Target()
	case t.Kind == Named && t.Decl.Name == of.name: // a list of such lists
		return t.Decl
	}
	own := &Decl{Name: of.name, Form: Defined, Role: of.role, At: d.At, Type: t, Of: d}
	if sh.kind == externalShape || sh.kind == scalarShape && sh.base == Time {
		own.Form = Holder
	}
	b.declareName(b.names, own.Name, own.Role, own.At)
	*at.root.declList = append(*at.root.declList, own)
	b.all = append(b.all, own)
	return own
}

// listedValues returns the enum or const values of a member, following references. open reports whether other values
// are also valid.
func (b *builder) listedValues(obj *object, name string) (values []*source.Node, open bool) {
	m := obj.get(name)
	if m == nil || m.node == nil {
		return nil, false
	}
	if sh := b.followReferences(m.node); sh != nil && sh.kind == enumShape && !b.isNullable(m.node) {
		return sh.values, sh.isOpen
	}
	return nil, false
}

func (o *object) get(name string) *member {
	for i := range o.members {
		if o.members[i].key == name {
			return &o.members[i]
		}
	}
	return nil
}

func isScalar(v *source.Node) bool { return v.Kind != source.Array && v.Kind != source.Object }

func allStrings(values []*source.Node) bool {
	return !slices.ContainsFunc(values, func(v *source.Node) bool { return v.Kind != source.String })
}

func tagText(v *source.Node, literal bool) string {
	if literal {
		return valueKey(v)
	}
	return v.Text
}

func unquoted(tag string) string { return strings.Trim(tag, `"`) }

func (d *describer) unionType(n *source.Node, plan *unionPlan, name string) model.Type {
	t := model.Type{Kind: model.Union, Discriminator: plan.tag}
	for _, v := range plan.variants {
		own := ""
		if decl := d.decls[n]; decl != nil {
			own = decl.variantGoName(v)
		}
		nodes := v.originals
		if d.decls[v.node] != nil {
			nodes = []*source.Node{v.node}
		}
		for _, of := range nodes {
			variant := model.Variant{Title: d.variantTitle(of), Type: d.typeOf(of, name+nameSegment(of, v.name)), Has: v.identifyingMember, Go: own}
			if variant.Type.Kind == model.Ref && variant.Type.Ref == own {
				variant.Go = ""
			}
			variant.Type.Nullable = false // the union itself is nullable
			for _, tag := range v.tags {
				text := json.RawMessage(tag)
				if !plan.literal {
					text = schematree.AppendString(nil, tag)
				}
				variant.Tags = append(variant.Tags, text)
			}
			t.Variants = append(t.Variants, variant)
		}
	}
	return t
}

// variantGoName returns the Go name of a variant of the union d, or "".
func (d *Decl) variantGoName(v plannedVariant) string {
	for _, own := range d.Variants {
		if own.JSON == v.jsonType && own.Has == v.identifyingMember && slices.Equal(own.Tags, v.tags) {
			return own.Decl.Name
		}
	}
	return ""
}

// variantTitle returns the last element of a variant's $ref, its title, or "".
func (d *describer) variantTitle(n *source.Node) string {
	for d.origin[n] != nil && len(n.ItemsAt("allOf")) > 0 { // n was merged from the variant and the keywords next to the union
		parts := n.Get("allOf").Items
		n = parts[len(parts)-1]
	}
	if ref := n.Get("$ref"); ref != nil {
		return schematree.LastToken(ref.Text)
	}
	if t := n.Get("title"); t != nil {
		return t.Text
	}
	return ""
}
