package docs

import (
	"reflect"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// A Row describes one member of the arguments or of a payload.
type Row struct {
	// Path is the way to the member: names joined by dots, [] for the elements of an array, * for
	// members of any name. Name is its last part, Depth how many parts stand before it.
	Path, Name string
	Depth      int
	// Variant is set for a row that only introduces the members of one alternative; Within is the
	// alternative that a member belongs to.
	Variant, Within string
	// Type says what values look like, in words.
	Type string
	// Values are the values of an enum, as JSON.
	Values []string
	// Limits are bounds, patterns and formats in words.
	Limits      []string
	Required    bool
	Deprecated  bool
	Description string
	// Default is JSON, empty when there is none.
	Default string
	// Filter says how the argument filters, empty when it does not.
	Filter string
}

// maxRows bounds the table of one schema, maxDepth how deep it looks.
const (
	maxRows  = 400
	maxDepth = 6
)

// types are those of a package by their names.
type types map[string]*model.Definition

func typesOf(p *model.Package) types {
	all := make(types, len(p.Types))
	for i := range p.Types {
		all[p.Types[i].Name] = &p.Types[i]
	}
	return all
}

// follow returns what a reference leads to, and the definitions on the way. Null stays a value if it is one anywhere.
func (all types) follow(t model.Type) (model.Type, []*model.Definition) {
	var way []*model.Definition
	for t.Kind == model.Ref {
		d := all[t.Ref]
		if d == nil || slices.Contains(way, d) {
			return model.Type{Kind: model.Any}, way
		}
		way = append(way, d)
		null := t.Nullable
		t = d.Type
		t.Nullable = t.Nullable || null
	}
	return t, way
}

// rows lists the members of a type, those of inner objects after the member that holds them.
func (all types) rows(of model.Use) []Row {
	t := &table{types: all}
	t.inside(model.Type{Kind: model.Ref, Ref: of.Type}, "", 0, nil)
	return t.rows
}

type table struct {
	types types
	rows  []Row
	// variant is the alternative whose members are being added.
	variant string
}

// inside adds what the values of a type hold: members of an object, of the elements of an array, of each
// alternative of a union. open are the definitions around it.
func (t *table) inside(of model.Type, path string, depth int, open []*model.Definition) {
	of, way := t.types.follow(of)
	if depth > maxDepth || len(t.rows) > maxRows || slices.ContainsFunc(way, func(d *model.Definition) bool { return slices.Contains(open, d) }) {
		return // or it is described above
	}
	open = append(slices.Clip(open), way...)
	switch of.Kind {
	case model.Array:
		t.inside(*of.Items, path+"[]", depth, open)
	case model.Any:
		for _, known := range of.Known {
			t.inside(known, path, depth, open)
		}
	case model.Map:
		t.others(of, of.Items, path, depth, open)
	case model.Object:
		for _, m := range of.Members {
			if !told(of.Choices, m) {
				t.member(m, path, depth, open)
			}
		}
		t.others(of, of.Extra, path, depth, open)
		for _, c := range of.Choices {
			t.variants(c.Variants, path, depth, open)
		}
	case model.Union:
		t.variants(of.Variants, path, depth, open)
	}
}

// told reports whether nothing is known of a member but what choices say.
func told(choices []model.Choice, m model.Member) bool {
	if m.Type.Kind != model.Any || len(m.Type.Known) > 0 {
		return false
	}
	return slices.ContainsFunc(choices, func(c model.Choice) bool {
		return slices.ContainsFunc(c.Variants, func(v model.Variant) bool {
			return slices.ContainsFunc(v.Type.Members, func(o model.Member) bool { return o.Name == m.Name })
		})
	})
}

// others adds the rows of members that have no name of their own, unless nothing is known of them.
func (t *table) others(of model.Type, any *model.Type, path string, depth int, open []*model.Definition) {
	for _, p := range of.Patterns {
		name := "*"
		if p.Pattern != "" {
			name = "/" + p.Pattern + "/"
		}
		t.member(model.Member{Name: name, Type: p.Type}, path, depth, open)
	}
	if any != nil && any.Kind != model.Any && len(of.Patterns) == 0 {
		t.member(model.Member{Name: "*", Type: *any}, path, depth, open)
	}
}

// member adds the row of one member and those inside it.
func (t *table) member(m model.Member, path string, depth int, open []*model.Definition) {
	of, way := t.types.follow(m.Type)
	row := Row{Path: join(path, m.Name), Name: m.Name, Depth: depth, Required: m.Required, Within: t.variant,
		Type: t.types.words(m.Type, 0), Values: t.types.values(m.Type), Limits: t.types.limits(of),
		Description: m.Description, Deprecated: m.Deprecated, Default: string(m.Default)}
	for _, d := range way {
		row.Deprecated = row.Deprecated || d.Deprecated
		if row.Description == "" && !slices.Contains(open, d) {
			row.Description = d.Description
		}
	}
	row.Description = strings.TrimSpace(source.Prose(row.Description))
	t.rows = append(t.rows, row)
	t.inside(m.Type, row.Path, depth+1, open)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// variants adds the members that all variants have from one schema, and behind them those of each variant that is an
// object.
func (t *table) variants(variants []model.Variant, path string, depth int, open []*model.Definition) {
	shared := t.shared(variants)
	for _, m := range shared {
		t.member(m, path, depth, open)
	}
	for _, v := range variants {
		of, way := t.types.follow(v.Type)
		if of.Kind != model.Object || len(of.Members) == 0 {
			continue
		}
		name := t.variantName(v, of)
		t.rows = append(t.rows, Row{Path: path, Depth: depth, Variant: name, Within: t.variant})
		around := t.variant
		t.variant += "/" + path + " " + name
		for _, m := range of.Members {
			if depth < maxDepth && !has(shared, m) {
				t.member(m, path, depth+1, append(slices.Clip(open), way...))
			}
		}
		t.variant = around
	}
}

// shared are the members that all variants have, written in one place.
func (t *table) shared(variants []model.Variant) []model.Member {
	var all []model.Member
	for i, v := range variants {
		of, _ := t.types.follow(v.Type)
		if i == 0 {
			all = of.Members
		}
		all = slices.DeleteFunc(slices.Clone(all), func(m model.Member) bool { return !has(of.Members, m) })
	}
	return all
}

func has(list []model.Member, m model.Member) bool {
	return slices.ContainsFunc(list, func(o model.Member) bool { return o.Pos == m.Pos && reflect.DeepEqual(o, m) })
}

// variantName tells one alternative from the others: by a constant member, or by its name.
func (t *table) variantName(v model.Variant, of model.Type) string {
	for _, m := range of.Members {
		if c, _ := t.types.follow(m.Type); c.Kind == model.Const {
			return "when " + m.Name + " is " + string(c.Value)
		}
	}
	if v.Title != "" {
		return "or " + v.Title
	}
	return "or"
}
