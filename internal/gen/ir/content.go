package ir

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// valueDescription returns the full description of the values of n.
func (d *describer) valueDescription(n *source.Node, name string) model.Type {
	sh := d.shape(n)
	var t model.Type
	switch sh.kind {
	case refShape:
		return d.referred(n, sh)
	case scalarShape:
		t = scalarType(sh)
	case enumShape:
		t = enumType(sh)
	case structShape:
		t = d.objectType(sh, name)
	case mapShape:
		t = d.mapType(sh, name)
	case arrayShape:
		t = d.arrayType(sh, name)
	case unionShape:
		t = d.unionType(n, sh.union, name)
	case neverShape:
		t = model.Type{Kind: model.Never}
	case externalShape:
		t = d.describeRaw(sh, name)
	default:
		t = model.Type{Kind: model.Any, Reason: "the schema cannot be typed"}
	}
	t.Nullable = sh.allowsNull && t.Kind != model.Any && t.Kind != model.Null
	return t
}

func scalarType(sh *shape) model.Type {
	switch sh.base {
	case Bool:
		return model.Type{Kind: model.Boolean}
	case Int64:
		return numeric(model.Integer, sh.facts)
	case Float64:
		return numeric(model.Number, sh.facts)
	}
	return text(sh.facts)
}

func numeric(kind string, f *facts) model.Type {
	return model.Type{
		Kind: kind, Format: wordOf(f, "format"), Minimum: bound(f, "minimum", 1), Maximum: bound(f, "maximum", -1),
		ExclusiveMinimum: bound(f, "exclusiveMinimum", 1), ExclusiveMaximum: bound(f, "exclusiveMaximum", -1), MultipleOf: bound(f, "multipleOf", 1),
	}
}

func text(f *facts) model.Type {
	return model.Type{
		Kind: model.String, Format: wordOf(f, "format"), ContentEncoding: wordOf(f, "contentEncoding"), Pattern: wordOf(f, "pattern"),
		MinLength: bound(f, "minLength", 1), MaxLength: bound(f, "maxLength", -1),
	}
}

func wordOf(f *facts, keyword string) string {
	if n := f.keyword(keyword); n != nil && n.Kind == source.String {
		return n.Text
	}
	return ""
}

func bound(f *facts, keyword string, sign int) json.Number {
	if n := f.tightestBound(keyword, sign); n != nil {
		return json.Number(n.Text)
	}
	return ""
}

// enumType returns an enum, or a const if there is only one value.
func enumType(sh *shape) model.Type {
	if len(sh.values) == 1 && !sh.isOpen {
		return model.Type{Kind: model.Const, Value: sh.values[0].JSON()}
	}
	t := model.Type{Kind: model.Enum, Base: "json", AnyOther: sh.isOpen}
	switch sh.base {
	case String:
		t.Base = "string"
	case Int64, Float64:
		t.Base = "number"
	case Bool:
		t.Base = "boolean"
	}
	for _, v := range sh.values {
		value := model.Value{Value: v.JSON()}
		if at := v.Parent; at != nil && at.Kind == source.Object && at.Get("const") == v {
			value.Description = docOf(at).Text
		}
		t.Values = append(t.Values, value)
	}
	return t
}

func (d *describer) objectType(sh *shape, name string) model.Type {
	f := sh.facts
	t := model.Type{Kind: model.Object, Members: []model.Member{}, MinProperties: bound(f, "minProperties", 1), MaxProperties: bound(f, "maxProperties", -1)}
	for _, m := range sh.object.members {
		t.Members = append(t.Members, d.member(m, name))
	}
	d.addMembers(&t, f, name, func(key string) bool { return !isTaggable(key) })
	if open, extra := d.hasUnnamed(f); open {
		x := model.Type{Kind: model.Any, Reason: "the schema allows members of any name and type"}
		if extra != nil {
			x = d.typeOf(extra, name+nameSegment(extra, "Value"))
		}
		t.Extra = &x
	}
	t.Patterns, t.Choices = d.describePatterns(f, name), d.describeChoices(f, name)
	return t
}

// addMembers describes the members in properties that t lacks, if counted returns true for their names.
func (d *describer) addMembers(t *model.Type, f *facts, name string, counted func(key string) bool) {
	for _, p := range f.parts {
		for _, m := range membersOf(p.Get("properties")) {
			if !counted(m.Key) || slices.ContainsFunc(t.Members, func(have model.Member) bool { return have.Name == m.Key }) {
				continue
			}
			if n := d.memberSchema(f, m.Key); d.allowedKinds(n) != 0 {
				t.Members = append(t.Members, d.member(member{m.Key, m.KeyRange, n, f.requires(m.Key)}, name))
			}
		}
	}
}

// describePatterns describes the members that match the patterns of the first part with patternProperties.
func (d *describer) describePatterns(f *facts, name string) []model.Pattern {
	var all []model.Pattern
	for _, p := range f.parts {
		for _, m := range membersOf(p.Get("patternProperties")) {
			if m.Value.Kind == source.Object {
				all = append(all, model.Pattern{Pattern: m.Key, Type: d.typeOf(m.Value, name+nameSegment(m.Value, "Value"))})
			}
		}
		if rest := p.Get("additionalProperties"); len(all) > 0 && rest != nil && rest.Kind == source.Object {
			all = append(all, model.Pattern{Type: d.typeOf(rest, name+nameSegment(rest, "Value"))})
		}
		if len(all) > 0 {
			break
		}
	}
	return all
}

// describeChoices describes the members of the unions in an object schema.
func (d *describer) describeChoices(f *facts, name string) []model.Choice {
	var all []model.Choice
	for _, u := range f.unions {
		var c model.Choice
		told := false
		for i, v := range u.variants {
			if d.allowedKinds(v)&kObject == 0 {
				continue
			}
			o := model.Type{Kind: model.Object, Members: []model.Member{}}
			d.addMembers(&o, d.gatherFacts(v), name+nameSegment(v, strconv.Itoa(i+1)), func(string) bool { return true })
			told = told || len(o.Members) > 0
			c.Variants = append(c.Variants, model.Variant{Title: d.variantTitle(v), Type: o})
		}
		if told {
			all = append(all, c)
		}
	}
	return all
}

func (d *describer) member(m member, of string) model.Member {
	out := model.Member{Name: m.key, Required: m.required, Pos: m.at.Start.String(),
		Type: model.Type{Kind: model.Any, Reason: undescribed}}
	if m.node == nil {
		return out
	}
	out.Type = d.typeOf(m.node, of+d.goName(m.node, m.key))
	doc := docOf(m.node)
	if out.Type.Kind != model.Ref { // the definition has the remaining details
		doc = d.authorDoc(m.node)
	}
	out.Description, out.Deprecated, out.Private = doc.Text, doc.Deprecated, d.set.PrivateSchema(m.node) != nil
	for _, n := range schematree.Views(d.set, m.node, schematree.Unconditional) {
		if def := n.Get("default"); def != nil && out.Default == nil {
			out.Default = def.JSON()
		}
	}
	return out
}

// authorDoc returns the author's documentation of n. If n has none, it returns the documentation of a schema in its
// $ref or allOf.
func (d *describer) authorDoc(n *source.Node) Doc {
	var all Doc
	for _, n := range schematree.Views(d.set, n, schematree.Unconditional) {
		doc := docOf(n)
		all.Deprecated = all.Deprecated || doc.Deprecated
		if all.Text == "" {
			all.Text = doc.Text
		}
	}
	return all
}

// variantTitle returns the last element of a variant's $ref, its title, or "".
func (d *describer) variantTitle(n *source.Node) string {
	for d.origin[n] != nil && len(itemsOf(n.Get("allOf"))) > 0 { // n was merged from the variant and the keywords next to the union
		parts := n.Get("allOf").Items
		n = parts[len(parts)-1]
	}
	if ref := n.Get("$ref"); ref != nil {
		return lastToken(ref.Text)
	}
	if t := n.Get("title"); t != nil {
		return t.Text
	}
	return ""
}

func (d *describer) mapType(sh *shape, name string) model.Type {
	values := model.Type{Kind: model.Any, Reason: "the schema says nothing about the values"}
	if sh.elem != nil {
		values = d.typeOf(sh.elem, name+nameSegment(sh.elem, "Value"))
	}
	return model.Type{Kind: model.Map, Items: &values, Patterns: d.describePatterns(sh.facts, name),
		MinProperties: bound(sh.facts, "minProperties", 1), MaxProperties: bound(sh.facts, "maxProperties", -1)}
}

func (d *describer) arrayType(sh *shape, name string) model.Type {
	f := sh.facts
	t := model.Type{Kind: model.Array, MinItems: bound(f, "minItems", 1), MaxItems: bound(f, "maxItems", -1)}
	t.UniqueItems = slices.ContainsFunc(f.parts, func(p *source.Node) bool { return p.Get("uniqueItems").True() })
	switch {
	case sh.elem != nil:
		items := d.typeOf(sh.elem, name+nameSegment(sh.elem, "Item"))
		t.Items = &items
	case sh.tuple == nil:
		t.Items = &model.Type{Kind: model.Any, Reason: "the schema says nothing that holds for all elements"}
	default:
		t.Kind = model.Tuple
		t.Elements, t.Rest = d.elementTypes(sh.tuple, name)
	}
	return t
}

// elementTypes describes the first elements of a tuple, and the elements that can follow them.
func (d *describer) elementTypes(t *tuple, name string) (first []model.Type, rest *model.Type) {
	for i, n := range t.first {
		e := d.typeOf(n, name+"Item"+strconv.Itoa(i+1))
		if e.Kind == model.Never {
			return first, nil
		}
		first = append(first, e)
	}
	if !t.isOpen {
		return first, nil
	}
	rest = &model.Type{Kind: model.Any, Reason: "the schema says nothing about further elements"}
	if t.rest != nil {
		*rest = d.typeOf(t.rest, name+nameSegment(t.rest, "Item"))
	}
	if rest.Kind == model.Never {
		return first, nil
	}
	return first, rest
}

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
		if own.JSON == v.jsonType && own.Has == v.identifyingMember && (len(v.tags) == 0 && !own.Tagged || len(v.tags) > 0 && own.Tagged && own.Tag == v.tags[0]) {
			return own.Decl.Name
		}
	}
	return ""
}

// describeRaw describes values that Go represents as raw JSON.
func (d *describer) describeRaw(sh *shape, name string) model.Type {
	t := model.Type{Kind: model.Any, Reason: sh.why}
	switch {
	case sh.why == nullAlone:
		return model.Type{Kind: model.Null}
	case len(sh.variants) > 0:
		if variants := d.ambiguousVariants(sh.variants, name); variants != nil {
			return model.Type{Kind: model.Union, Variants: variants}
		}
	case sh.facts != nil && len(sh.facts.unions) == 0:
		t.Known = d.describeKnown(sh.facts, name)
	}
	return t
}

// describeKnown describes the types that the keywords imply in a schema that allows any type.
func (d *describer) describeKnown(f *facts, name string) []model.Type {
	var all []model.Type
	known, _ := schematree.Implied(f.parts)
	for _, of := range known {
		switch of {
		case kObject:
			all = append(all, d.describeObjectAmong(f, name))
		case kArray:
			sh := d.shapeOfArray(f)
			all = append(all, d.arrayType(&sh, name))
		case kString:
			all = append(all, text(f))
		case kNumber:
			all = append(all, numeric(model.Number, f))
		}
	}
	return all
}

// describeObjectAmong describes the object values of a schema that allows several types.
func (d *describer) describeObjectAmong(f *facts, name string) model.Type {
	n := d.withType(f.node, "object")
	if d.shapes[n] == nil {
		sh := d.objectShape(f)
		d.shapes[n] = &sh
	}
	if d.shapes[n].kind == structShape {
		name += "Object"
	}
	return d.typeOf(n, name)
}

// ambiguousVariants describes the variants of a union that cannot be distinguished. It returns nil if one of them
// includes all values.
func (d *describer) ambiguousVariants(nodes []*source.Node, name string) []model.Variant {
	var all []model.Variant
	for i, v := range nodes {
		of := d.typeOf(v, name+nameSegment(v, strconv.Itoa(i+1)))
		if of.Kind == model.Any {
			return nil
		}
		of.Nullable = false // the union itself is nullable
		all = append(all, model.Variant{Title: d.variantTitle(v), Type: of})
	}
	return all
}
