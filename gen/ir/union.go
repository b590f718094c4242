package ir

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// A unionPlan is a discriminated union before its variants have types.
type unionPlan struct {
	tag      string
	literal  bool
	variants []plannedVariant
}

type plannedVariant struct {
	node *source.Node
	tags []string
}

// variants is the shape of oneOf or anyOf.
func (b *builder) variants(n *source.Node, all []*source.Node) shape {
	var rest []*source.Node
	null := false
	for _, v := range all {
		if v.Kind == source.Object && isNull(v) {
			null = true
			continue
		}
		rest = append(rest, v)
	}
	if types, typeNull := typesOf(n); n.Get("type") != nil && !typeNull && len(types) > 0 {
		null = false // type beside the variants excludes it
	}
	if len(rest) == 0 {
		return b.untyped(n, "the schema allows null alone")
	}
	if isEnum(rest) && n.Get("discriminator") == nil {
		var values []*source.Node
		for _, v := range rest {
			values = append(values, b.enumValues(v)...)
		}
		sh := b.enumeration(n, values)
		sh.null = sh.null || null
		return sh
	}
	if len(rest) == 1 {
		sh := b.through(rest[0])
		sh.null = sh.null || null
		return sh
	}
	for _, v := range rest {
		null = null || b.nullable(v)
	}
	if d := n.Get("discriminator"); d != nil {
		plan, ok := b.declaredUnion(n, d, rest)
		if !ok {
			return shape{}
		}
		return shape{kind: unionShape, union: plan, null: null}
	}
	if plan := b.inferredUnion(rest); plan != nil {
		return shape{kind: unionShape, union: plan, null: null}
	}
	b.report(source.New("MCPE203", n.Range, "no member tells the variants apart; the Go type is json.RawMessage").
		WithHint("declare discriminator: {propertyName: NAME}, or x-go-type: encoding/json.RawMessage to say that this is meant"))
	return shape{kind: externalShape, goType: RawMessage, null: null}
}

// variantObject returns the object schema that a variant comes down to, nil when it is none.
func (b *builder) variantObject(v *source.Node) *source.Node {
	for range maxAliases {
		sh := b.shape(v)
		switch sh.kind {
		case structShape:
			return sh.node
		case refShape:
			v = sh.target.Node
		default:
			return nil
		}
	}
	return nil
}

// inferredUnion finds a required member with distinct constants in every variant.
func (b *builder) inferredUnion(variants []*source.Node) *unionPlan {
	objects := make([]*source.Node, len(variants))
	for i, v := range variants {
		if objects[i] = b.variantObject(v); objects[i] == nil {
			return nil
		}
	}
	for _, m := range membersOf(objects[0].Get("properties")) {
		if plan := b.planFor(m.Key, variants, objects); plan != nil {
			return plan
		}
	}
	return nil
}

func (b *builder) planFor(tag string, variants, objects []*source.Node) *unionPlan {
	plan := &unionPlan{tag: tag}
	var values []*source.Node
	for _, obj := range objects {
		vals := b.constants(obj, tag)
		if len(vals) != 1 || !requires(obj, tag) {
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
		plan.variants = append(plan.variants, plannedVariant{variants[i], []string{t}})
	}
	return plan
}

// declaredUnion reads discriminator as OpenAPI has it. A variant's tags are the constants of its
// tag member, else those that mapping gives it, else the name that its $ref ends in.
func (b *builder) declaredUnion(n, d *source.Node, variants []*source.Node) (*unionPlan, bool) {
	name := d.Get("propertyName")
	if name == nil || name.Kind != source.String || name.Text == "" {
		b.report(source.New("MCPE210", d.Range, "the discriminator needs propertyName, a string"))
		return nil, false
	}
	mapping, ok := b.mapping(n, d.Get("mapping"), variants)
	if !ok {
		return nil, false
	}
	plan := &unionPlan{tag: name.Text}
	consts := make([][]*source.Node, len(variants))
	for i, v := range variants {
		obj := b.variantObject(v)
		if obj == nil {
			b.report(source.New("MCPE210", v.Range, "a variant of a discriminated union is an object schema with properties"))
			return nil, false
		}
		consts[i] = b.constants(obj, name.Text)
		plan.literal = plan.literal || !allStrings(consts[i])
	}
	for i, v := range variants {
		tags, ok := b.tagsOf(v, consts[i], mapping[i], plan.literal)
		if !ok {
			return nil, false
		}
		plan.variants = append(plan.variants, plannedVariant{v, tags})
	}
	return plan, b.distinctTags(plan)
}

// mapping assigns the entries of discriminator.mapping to the variants that they name: by a
// reference, or by the name of the schema that the variant's $ref ends in.
func (b *builder) mapping(n, m *source.Node, variants []*source.Node) (map[int][]source.Member, bool) {
	out := map[int][]source.Member{}
	for _, entry := range membersOf(m) {
		i := slices.IndexFunc(variants, func(v *source.Node) bool {
			ref := v.Get("$ref")
			return ref != nil && (lastToken(ref.Text) == entry.Value.Text || b.sameTarget(n, v, entry.Value))
		})
		if i < 0 {
			b.report(source.New("MCPE210", entry.Value.Range, "the mapping of %q names none of the variants", entry.Key))
			return nil, false
		}
		out[i] = append(out[i], entry)
	}
	return out, true
}

// sameTarget reports whether text, as a reference at n, leads where the $ref of variant does.
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
		tags = []string{tagText(&source.Node{Kind: source.String, Text: lastToken(ref.Text)}, literal)}
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

// fillUnion types the variants and attaches them to the union.
func (b *builder) fillUnion(d *Decl, sh *shape, at site) {
	d.Tag, d.Literal = sh.union.tag, sh.union.literal
	for _, extra := range []string{"Variant", "Unknown"} {
		b.declare(b.names, d.Name+extra, "the union "+d.Name, d.At)
	}
	for _, v := range sh.union.variants {
		t := b.typeOf(v.node, site{
			name: d.Name + segment(v.node, Suffix(unquoted(v.tags[0]))), role: "the variant " + v.tags[0] + " of " + d.Name, root: at.root,
		})
		target := t.Target()
		if target == nil {
			continue // reported by its own rule
		}
		for _, tag := range v.tags {
			d.Variants = append(d.Variants, Variant{Tag: tag, Decl: target})
		}
	}
}

// constants returns the values of a member that has only constants, references followed.
func (b *builder) constants(obj *source.Node, name string) []*source.Node {
	member := obj.Get("properties").Get(name)
	if member == nil {
		return nil
	}
	for range maxAliases {
		sh := b.shape(member)
		if sh.kind == refShape {
			member = sh.target.Node
			continue
		}
		if sh.kind == enumShape && !sh.null {
			return sh.values
		}
		return nil
	}
	return nil
}

func requires(obj *source.Node, name string) bool {
	return slices.ContainsFunc(itemsOf(obj.Get("required")), func(r *source.Node) bool { return r.Text == name })
}

func allStrings(values []*source.Node) bool {
	return !slices.ContainsFunc(values, func(v *source.Node) bool { return v.Kind != source.String })
}

func tagText(v *source.Node, literal bool) string {
	if literal {
		return canonical(v)
	}
	return v.Text
}

func unquoted(tag string) string { return strings.Trim(tag, `"`) }

func lastToken(ref string) string { return ref[strings.LastIndexAny(ref, "/#")+1:] }

func membersOf(n *source.Node) []source.Member {
	if n == nil {
		return nil
	}
	return n.Members
}
