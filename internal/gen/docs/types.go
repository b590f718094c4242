package docs

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

// maxNested limits the nesting depth in the description of a type.
const maxNested = 4

// arrayOf is the prefix of the description of an array type.
const arrayOf = "array of "

// describe returns a description of the values of a type. depth is the number of enclosing types.
func (all types) describe(t model.Type, depth int) string {
	if depth > maxNested {
		return "such values"
	}
	t, _ = all.follow(t)
	var names []string
	switch t.Kind {
	case model.Any:
		return "any value"
	case model.Const:
		names = []string{"constant"}
	case model.Enum:
		names = enumTypes(t)
	case model.String:
		names = []string{"string"}
		if t.Format != "" {
			names = []string{t.Format}
		}
	case model.Array:
		names = []string{"array"}
		if t.Items.Kind != model.Any {
			names = []string{arrayOf + all.describe(*t.Items, depth+1)}
		}
	case model.Tuple:
		names = []string{"array"}
	case model.Map:
		names = []string{"object"}
		if t.Items.Kind != model.Any && len(t.Patterns) == 0 {
			names = []string{"map of " + all.describe(*t.Items, depth+1)}
		}
	case model.Union:
		for _, v := range t.Variants {
			if name := all.describe(v.Type, depth+1); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) == 1 && len(t.Variants) > 1 {
			names = []string{"one of several " + names[0] + "s"}
		}
	default:
		names = []string{t.Kind}
	}
	if t.Nullable {
		names = append(names, "null")
	}
	return strings.Join(names, " or ")
}

// enumTypes returns the names of the types of an enum's values.
func enumTypes(t model.Type) []string {
	var names []string
	for _, v := range t.Values {
		name := "integer"
		switch c := v.Value[0]; {
		case c == '"':
			name = "string"
		case c == 't' || c == 'f':
			name = "boolean"
		case c == '{':
			name = "object"
		case c == '[':
			name = "array"
		case t.AnyOther || slices.ContainsFunc(t.Values, func(v model.Value) bool { return isFraction(v.Value) }):
			name = "number"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// isFraction reports whether a value is a number written with a fraction or an exponent.
func isFraction(v json.RawMessage) bool {
	return v[0] != '"' && v[0] != '{' && v[0] != '[' && strings.ContainsAny(string(v), ".eE") && v[0] <= '9'
}

// enumValues returns the values of a const or an enum as JSON, without null.
func (all types) enumValues(t model.Type) []string {
	t, _ = all.follow(t)
	var list []string
	if t.Kind == model.Const {
		list = []string{string(t.Value)}
	}
	for _, v := range t.Values {
		list = append(list, string(v.Value))
	}
	return list
}

// limits returns descriptions of the constraints of a type.
func (all types) limits(t model.Type) []string {
	var list []string
	for _, l := range []struct {
		before string
		value  json.Number
		after  string
	}{
		{"at least ", t.Minimum, ""}, {"above ", t.ExclusiveMinimum, ""}, {"at most ", t.Maximum, ""}, {"below ", t.ExclusiveMaximum, ""},
		{"a multiple of ", t.MultipleOf, ""}, {"at least ", t.MinLength, " characters"}, {"at most ", t.MaxLength, " characters"},
		{"at least ", t.MinItems, " elements"}, {"at most ", t.MaxItems, " elements"},
		{"at least ", t.MinProperties, " members"}, {"at most ", t.MaxProperties, " members"},
	} {
		if l.value == "1" {
			l.after = strings.TrimSuffix(l.after, "s")
		}
		if l.value != "" {
			list = append(list, l.before+string(l.value)+l.after)
		}
	}
	if t.Pattern != "" {
		list = append(list, "matches "+t.Pattern)
	}
	if t.ContentEncoding != "" {
		list = append(list, "encoded as "+t.ContentEncoding)
	}
	for _, known := range t.Known {
		list = append(list, all.limits(known)...)
	}
	if t.AnyOther {
		list = append(list, "others are valid too")
	}
	if t.UniqueItems {
		list = append(list, "no element twice")
	}
	return list
}
