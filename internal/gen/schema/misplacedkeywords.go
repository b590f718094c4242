package schema

import "github.com/mcpe-gen/mcpe-gen/internal/gen/source"

// TypeKeywords lists the keywords that concern only the values of one JSON type. An author who writes one of them
// without a type probably meant that type.
type TypeKeywords struct {
	Type, Plural string
	Keywords     []string
}

// KeywordsByType lists the types that meant tries, in this order.
var KeywordsByType = [...]TypeKeywords{
	{"object", "objects", []string{"properties", "additionalProperties", "patternProperties", "required", "minProperties",
		"maxProperties", "propertyNames", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties"}},
	{"array", "arrays", []string{"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains", "unevaluatedItems"}},
	{"string", "strings", []string{"format", "pattern", "minLength", "maxLength", "contentEncoding", "contentMediaType"}},
	{"number", "numbers", []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}},
}

// AddObject is the MCPE135 hint for a schema that describes an object except for its type.
const AddObject = "add type: object"

// meant returns the first entry of KeywordsByType with a keyword that n has, or a schema that applies to the same
// value has, and that keyword. Without such a keyword it returns nil.
func (s *Set) meant(n *source.Node) (*TypeKeywords, string) {
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
