package schema

import "github.com/mcpe-gen/mcpe-gen/internal/gen/source"

// TypeKeywords lists the keywords that apply only to values of a single JSON type. The author of a schema with such a
// keyword and no type probably meant that type.
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

// meantType returns the type that a schema without a type probably means, and the keyword that indicates it. It also
// considers the views of n. If it does not find such a keyword, it returns nil.
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
