package schematree

import "github.com/mcpe-gen/mcpe-gen/internal/pattern"

// Member returns the schemas that apply to a named member of an object, given all schemas that apply to the object.
// Each view contributes its matching schemas in properties and patternProperties or, if none match, its
// additionalProperties.
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

// Element returns the schemas that apply to an element of an array, given all schemas that apply to the array.
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

// Elements returns n's schemas for the first elements and the remaining elements of an array. It reads the keywords of
// both dialects. It returns false if n has no schema for the remaining elements.
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
