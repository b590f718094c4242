package docs

import (
	"reflect"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// A Row describes one member of the arguments or of a payload.
type Row struct {
	// Path is the path of the member: names joined by dots, [] for the elements of an array, * for members of any
	// name. Name is the last part, and Depth the number of parts before it.
	Path, Name string
	Depth      int
	// Variant is set for a row that introduces the members of an alternative. Within is the alternative of a member.
	Variant, Within string
	// Type describes the values.
	Type string
	// Values lists the values of an enum as JSON.
	Values []string
	// Limits lists bounds, patterns and formats in words.
	Limits      []string
	Required    bool
	Deprecated  bool
	Description string
	// Default is JSON, empty without a default.
	Default string
	// Filter describes how the argument filters, empty if it does not.
	Filter string
}

// maxRows limits the rows for one schema, and maxDepth their depth.
const (
	maxRows  = 400
	maxDepth = 6
)

// types maps the names of a package's types to their definitions.
type types map[string]*model.Definition

func typesOf(p *model.Package) types {
	all := make(types, len(p.Types))
	for i := range p.Types {
		all[p.Types[i].Name] = &p.Types[i]
	}
	return all
}

// follow returns the target of a reference, and the definitions on the path. The result is nullable if any type on
// the path is.
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

// rows lists the members of a type. Members of inner objects follow the member that contains them.
func (all types) rows(of model.Use) []Row {
	t := &table{types: all}
	t.inside(model.Type{Kind: model.Ref, Ref: of.Type}, "", 0, nil)
	return t.rows
}

type table struct {
	types types
	rows  []Row
	// variant is the alternative of the members that are being added.
	variant string
}

// inside adds the content of a type: members of an object, of the elements of an array, or of each alternative of a
// union. open holds the enclosing definitions.
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

// told reports whether only choices describe a member.
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

// others adds the rows of unnamed members, if anything is known about them.
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

// variants adds the members that all variants share, followed by the members of each object variant.
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

// shared returns the members that all variants have in common, from one schema.
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

// variantName returns a name for an alternative: the value of a constant member, or the name of its type.
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
