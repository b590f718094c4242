package schema

import "github.com/mcpe-gen/mcpe-gen/internal/gen/source"

// TypeKeywords lists the keywords that apply only to values of one JSON type. A schema with one of these keywords and
// no type probably means that type.
type TypeKeywords struct {
	Type, Plural string
	Keywords     []string
}

// KeywordsByType lists the keywords of each type, in the order in which they are tried.
var KeywordsByType = [...]TypeKeywords{
	{"object", "objects", []string{"properties", "additionalProperties", "patternProperties", "required", "minProperties",
		"maxProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"}},
	{"array", "arrays", []string{"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems"}},
	{"string", "strings", []string{"format", "pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType"}},
	{"number", "numbers", []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
}

// AddObject is the MCPE135 hint for an object schema without a type.
const AddObject = "add type: object"

// meantType returns the first entry of KeywordsByType with a keyword of n, and that keyword. It also considers other
// schemas that apply to the same value. It returns nil if it does not find a keyword.
func (s *Set) meantType(n *source.Node) (*TypeKeywords, string) {
	views := s.Views(n)
	for i := range KeywordsByType {
		for _, keyword := range KeywordsByType[i].Keywords {
			for _, v := range views {
				if v.Get(keyword) != nil {
					return &KeywordsByType[i], keyword
				}
			}
		}
	}
	return nil, ""
}
