package schematree

import (
	"cmp"
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Types is a set of JSON types. It distinguishes integers from other numbers.
type Types uint8

// The JSON types.
const (
	Null Types = 1 << iota
	Boolean
	Integer
	Fraction // a number that is not an integer
	String
	Array
	Object

	Number  = Integer | Fraction
	Scalars = Boolean | Number | String
	AnyType = Null | Scalars | Array | Object
)

var typeNames = []struct {
	name  string
	types Types
}{{"null", Null}, {"boolean", Boolean}, {"number", Number}, {"integer", Integer}, {"string", String}, {"array", Array}, {"object", Object}}

// Named returns the types for a name in the keyword type, or 0 if the name is unknown.
func Named(name string) Types {
	for _, t := range typeNames {
		if t.name == name {
			return t.types
		}
	}
	return 0
}

// String returns the types as a list for messages.
func (t Types) String() string {
	if t == Fraction {
		return "non-integer number"
	}
	var names []string
	for _, n := range typeNames {
		if t&n.types == n.types && (n.types != Integer || t&Fraction == 0) {
			names = append(names, n.name)
		}
	}
	return strings.Join(names, " or ")
}

// TypeOf returns the type of a value decoded by encoding/json with UseNumber.
func TypeOf(v any) Types {
	switch v := v.(type) {
	case nil:
		return Null
	case bool:
		return Boolean
	case string:
		return String
	case json.Number:
		if isInteger(string(v)) {
			return Integer
		}
		return Fraction
	case []any:
		return Array
	}
	return Object
}

// isInteger reports whether a JSON number has an integer value, such as 1, 1.0 or 1e2.
func isInteger(text string) bool {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) > 1e20 || f == 0 {
		return f == math.Trunc(f)
	}
	r, ok := new(big.Rat).SetString(text)
	return ok && r.IsInt()
}

// Declared returns the types that the keyword type of n allows. It ignores all other keywords.
func Declared[V Value[V]](n V) Types {
	t, ok := n.Find("type")
	if !ok {
		return AnyType
	}
	if names, isList := t.Elements(); isList {
		var out Types
		for _, name := range names {
			text, _ := name.Value().(string)
			out |= Named(text)
		}
		return out
	}
	text, _ := t.Value().(string)
	return Named(text)
}

// Implied returns the JSON types to which keywords of the schemas of one value are specific. keyword is the first
// keyword that is specific to the first type. The author of schemas without a type probably meant the first type.
func Implied[V Value[V]](schemas []V) (types []Types, keyword string) {
	for _, of := range []Types{Object, Array, String, Number} {
		if first, ok := firstKeyword(schemas, of); ok {
			types, keyword = append(types, of), cmp.Or(keyword, first)
		}
	}
	return types, keyword
}

// firstKeyword returns the first keyword of the schemas that is specific to a type.
func firstKeyword[V Value[V]](schemas []V, of Types) (string, bool) {
	for _, n := range schemas {
		for name := range n.All() {
			if Any.keywords[name].Checks == of {
				return name, true
			}
		}
	}
	return "", false
}
