package published

import (
	"maps"
	"slices"
	"strings"
)

// Private describes the private members of a payload. Each element describes an object or an array, and the first one
// describes the payload. An element maps the names of members to [Remove], to [Keep], or to the index of the element that
// describes the member's value.
type Private []map[string]int

// Keys and values of the elements of a [Private].
const (
	// Named is the prefix of a member's name. Unnamed stands for all elements of an array, and for the members of an
	// object that are not listed.
	Named, Unnamed = "/", "*"
	// Remove stands for a private member, and Keep for a value without private members. No value has the index 0,
	// because it belongs to the payload.
	Remove, Keep = -1, 0
)

// RemoveFrom removes the private members from a decoded payload.
func (p Private) RemoveFrom(payload any) { p.remove(payload, 0) }

// remove removes the private members from a value that an element describes. It panics if the element is missing, so that
// a damaged description discloses nothing.
func (p Private) remove(value any, element int) {
	members := p[element]
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			next, listed := members[Named+name]
			if !listed {
				next = members[Unnamed]
			}
			if next == Remove {
				delete(v, name)
			} else if next != Keep {
				p.remove(inner, next)
			}
		}
	case []any:
		for _, inner := range v {
			if next := members[Unnamed]; next != Keep {
				p.remove(inner, next)
			}
		}
	}
}

// Names returns the sorted names of the private members.
func (p Private) Names() []string {
	names := map[string]bool{}
	for _, element := range p {
		for key, next := range element {
			if next == Remove {
				names[strings.TrimPrefix(key, Named)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
