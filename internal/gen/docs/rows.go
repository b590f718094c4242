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
	// Path is the path of the member in table notation: dots separate names, [] stands for array elements, and * for
	// members with any name. Name is the last name in the path, and Depth is the nesting depth.
	Path, Name string
	Depth      int
	// Variant names the alternative that contains the following members. It is empty for other rows. Within is the
	// alternative that contains the member.
	Variant, Within string
	// Type describes the values.
	Type string
	// Values lists the values of an enum as JSON.
	Values []string
	// Limits describes bounds, patterns and encodings in words.
	Limits      []string
	Required    bool
	Deprecated  bool
	Description string
	// Default is the default value as JSON, or empty without a default.
	Default string
	// Filter describes how the argument filters events. It is empty if the argument does not filter.
	Filter string
}

// maxRows and maxDepth limit the number and depth of the rows for one schema.
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

// follow resolves a chain of references. It returns the final type and the definitions in the chain. The type is
// nullable if any type in the chain is nullable.
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

// rowsOf returns the rows for the members of a type. Members of nested objects follow the member that contains them.
func (all types) rowsOf(of model.Use) []Row {
	t := &table{types: all}
	t.addContent(model.Type{Kind: model.Ref, Ref: of.Type}, "", 0, nil)
	return t.rows
}

type table struct {
	types types
	rows  []Row
	// variant is the alternative that contains the members being added.
	variant string
}

// addContent adds the rows for the members of an object, of array elements, or of each alternative of a union. open
// lists the enclosing definitions.
func (t *table) addContent(of model.Type, path string, depth int, open []*model.Definition) {
	of, way := t.types.follow(of)
	if depth > maxDepth || len(t.rows) > maxRows || slices.ContainsFunc(way, func(d *model.Definition) bool { return slices.Contains(open, d) }) {
		return // or it is described above
	}
	open = append(slices.Clip(open), way...)
	switch of.Kind {
	case model.Array:
		t.addContent(*of.Items, path+"[]", depth, open)
	case model.Any:
		for _, known := range of.Known {
			t.addContent(known, path, depth, open)
		}
	case model.Map:
		t.addUnnamed(of, of.Items, path, depth, open)
	case model.Object:
		for _, m := range of.Members {
			if !describedByChoices(of.Choices, m) {
				t.addMember(m, path, depth, open)
			}
		}
		t.addUnnamed(of, of.Extra, path, depth, open)
		for _, c := range of.Choices {
			t.addVariants(c.Variants, path, depth, open)
		}
	case model.Union:
		t.addVariants(of.Variants, path, depth, open)
	}
}

// describedByChoices reports whether only the choices describe a member.
func describedByChoices(choices []model.Choice, m model.Member) bool {
	if m.Type.Kind != model.Any || len(m.Type.Known) > 0 {
		return false
	}
	return slices.ContainsFunc(choices, func(c model.Choice) bool {
		return slices.ContainsFunc(c.Variants, func(v model.Variant) bool {
			return slices.ContainsFunc(v.Type.Members, func(o model.Member) bool { return o.Name == m.Name })
		})
	})
}

// addUnnamed adds rows for unnamed members if the schema describes them.
func (t *table) addUnnamed(of model.Type, any *model.Type, path string, depth int, open []*model.Definition) {
	for _, p := range of.Patterns {
		name := "*"
		if p.Pattern != "" {
			name = "/" + p.Pattern + "/"
		}
		t.addMember(model.Member{Name: name, Type: p.Type}, path, depth, open)
	}
	if any != nil && any.Kind != model.Any && len(of.Patterns) == 0 {
		t.addMember(model.Member{Name: "*", Type: *any}, path, depth, open)
	}
}

// addMember adds the row for a member and the rows for its content.
func (t *table) addMember(m model.Member, path string, depth int, open []*model.Definition) {
	of, way := t.types.follow(m.Type)
	row := Row{Path: join(path, m.Name), Name: m.Name, Depth: depth, Required: m.Required, Within: t.variant,
		Type: t.types.describe(m.Type, 0), Values: t.types.enumValues(m.Type), Limits: t.types.limits(of),
		Description: m.Description, Deprecated: m.Deprecated, Default: string(m.Default)}
	if m.Private {
		row.Limits = append(row.Limits, "not for all callers")
	}
	for _, d := range way {
		row.Deprecated = row.Deprecated || d.Deprecated
		if row.Description == "" && !slices.Contains(open, d) {
			row.Description = d.Description
		}
	}
	row.Description = strings.TrimSpace(source.Prose(row.Description))
	t.rows = append(t.rows, row)
	t.addContent(m.Type, row.Path, depth+1, open)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// addVariants adds the common members of all variants, followed by the other members of each object variant.
func (t *table) addVariants(variants []model.Variant, path string, depth int, open []*model.Definition) {
	shared := t.inheritedMembers(variants)
	for _, m := range shared {
		t.addMember(m, path, depth, open)
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
			if depth < maxDepth && !containsMember(shared, m) {
				t.addMember(m, path, depth+1, append(slices.Clip(open), way...))
			}
		}
		t.variant = around
	}
}

// inheritedMembers returns the members that all variants inherit from the same schema.
func (t *table) inheritedMembers(variants []model.Variant) []model.Member {
	var all []model.Member
	for i, v := range variants {
		of, _ := t.types.follow(v.Type)
		if i == 0 {
			all = of.Members
		}
		all = slices.DeleteFunc(slices.Clone(all), func(m model.Member) bool { return !containsMember(of.Members, m) })
	}
	return all
}

func containsMember(list []model.Member, m model.Member) bool {
	return slices.ContainsFunc(list, func(o model.Member) bool { return o.Pos == m.Pos && reflect.DeepEqual(o, m) })
}

// variantName returns a name for an alternative. It uses the value of a constant member, or otherwise the title.
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
