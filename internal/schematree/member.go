package schematree

import "github.com/mcpe-gen/mcpe-gen/internal/pattern"

// Member returns the schemas that apply to a named member if all the views apply to its object. From each view it
// takes the schemas in properties and patternProperties, or otherwise the schema in additionalProperties.
func Member[V Value[V]](views []V, name string) []V {
	var all []V
	for _, view := range views {
		before := len(all)
		if members, ok := view.Find("properties"); ok {
			if m, ok := members.Find(name); ok {
				all = append(all, m)
			}
		}
		if patterns, ok := view.Find("patternProperties"); ok {
			for text, m := range patterns.All() {
				if pattern.Matches(text, name) {
					all = append(all, m)
				}
			}
		}
		if others, ok := view.Find("additionalProperties"); ok && len(all) == before {
			all = append(all, others)
		}
	}
	return all
}

// Element returns the schemas that apply to the element at an index if all the views apply to its array.
func Element[V Value[V]](views []V, index int) []V {
	var all []V
	for _, view := range views {
		prefix, rest, ok := Elements(view)
		switch {
		case index < len(prefix):
			all = append(all, prefix[index])
		case ok:
			all = append(all, rest)
		}
	}
	return all
}

// Elements returns the schemas of the first elements and of the rest of an array to which n applies, in the keywords
// of either dialect. It returns false if n does not describe the rest.
func Elements[V Value[V]](n V) (first []V, rest V, ok bool) {
	rest, ok = n.Find("items")
	if ok {
		if list, isList := rest.Elements(); isList {
			rest, ok = n.Find("additionalItems")
			return list, rest, ok
		}
	}
	if prefix, given := n.Find("prefixItems"); given {
		first, _ = prefix.Elements()
	}
	return first, rest, ok
}
