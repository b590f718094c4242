package docs

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// maxNested bounds how many types a name is made of.
const maxNested = 4

// typeName says what values of a schema look like; depth is how many types it is inside of.
func (t *table) typeName(views []*source.Node, depth int) string {
	if depth > maxNested {
		return "such values"
	}
	names := typeNames(views)
	null := slices.Contains(names, "null")
	names = slices.DeleteFunc(names, func(s string) bool { return s == "null" })
	if choice := t.choice(views, depth); choice != "" && len(names) == 0 {
		return choice
	}
	switch {
	case first(views, "const") != nil:
		return "constant"
	case len(names) == 0 && first(views, "enum") != nil:
		names = []string{"enum"}
	case len(names) == 0 && first(views, "properties") != nil:
		names = []string{"object"}
	case len(names) == 0 && !null:
		return "any value"
	}
	for i, name := range names {
		switch name {
		case "array":
			if items := first(views, "items"); items != nil && items.Kind == source.Object {
				names[i] = arrayOf + t.typeName(t.views(items), depth+1)
			}
		case "string":
			if f := first(views, "format"); f != nil {
				names[i] = f.Text
			}
		case "object":
			if extra := first(views, "additionalProperties"); extra != nil && extra.Kind == source.Object && first(views, "properties") == nil {
				names[i] = "map of " + t.typeName(t.views(extra), depth+1)
			}
		}
	}
	if null {
		names = append(names, "null")
	}
	return strings.Join(names, " or ")
}

// typeNames are the values of type.
func typeNames(views []*source.Node) []string {
	n := first(views, "type")
	if n == nil {
		return nil
	}
	if n.Kind == source.String {
		return []string{n.Text}
	}
	var names []string
	for _, item := range n.Items {
		names = append(names, item.Text)
	}
	return names
}

// choice describes oneOf and anyOf.
func (t *table) choice(views []*source.Node, depth int) string {
	var names []string
	for _, keyword := range []string{"oneOf", "anyOf"} {
		list := first(views, keyword)
		if list == nil {
			continue
		}
		for _, item := range list.Items {
			if name := t.typeName(t.views(item), depth+1); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) == 1 && len(list.Items) > 1 {
			return "one of several " + names[0] + "s"
		}
		return strings.Join(names, " or ")
	}
	return ""
}

// values are the values of const or enum as JSON.
func values(views []*source.Node) []string {
	if c := first(views, "const"); c != nil {
		return []string{string(c.JSON())}
	}
	var list []string
	if e := first(views, "enum"); e != nil {
		for _, item := range e.Items {
			list = append(list, string(item.JSON()))
		}
	}
	return list
}

// arrayOf begins the type of an array whose elements have one.
const arrayOf = "array of "

// limitWords are the keywords that bound a value, with how they are said.
var limitWords = []struct{ keyword, before, after string }{
	{"minimum", "at least ", ""}, {"exclusiveMinimum", "above ", ""}, {"maximum", "at most ", ""}, {"exclusiveMaximum", "below ", ""},
	{"multipleOf", "a multiple of ", ""}, {"minLength", "at least ", " characters"}, {"maxLength", "at most ", " characters"},
	{"minItems", "at least ", " elements"}, {"maxItems", "at most ", " elements"}, {"minProperties", "at least ", " members"},
	{"maxProperties", "at most ", " members"}, {"pattern", "matches ", ""}, {"contentEncoding", "encoded as ", ""},
}

func limits(views []*source.Node) []string {
	var list []string
	for _, w := range limitWords {
		if n := first(views, w.keyword); n != nil {
			after := w.after
			if n.Text == "1" {
				after = strings.TrimSuffix(after, "s")
			}
			list = append(list, w.before+n.Text+after)
		}
	}
	if first(views, "uniqueItems").True() {
		list = append(list, "no element twice")
	}
	return list
}
