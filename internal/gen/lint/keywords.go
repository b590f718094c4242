package lint

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// typeKeywords maps keywords to the types that they apply to. A keyword accepts all values of other types.
var typeKeywords = func() map[string][]string {
	types := map[string][]string{}
	for _, of := range []struct {
		types    []string
		keywords string
	}{
		{[]string{"integer", "number"}, "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"},
		{[]string{"string"}, "minLength maxLength pattern contentEncoding"},
		{[]string{"array"}, "items prefixItems additionalItems contains minItems maxItems uniqueItems"},
		{[]string{"object"}, "properties required additionalProperties patternProperties propertyNames minProperties maxProperties dependentRequired"},
	} {
		for keyword := range strings.FieldsSeq(of.keywords) {
			types[keyword] = of.types
		}
	}
	return types
}()

// bounds maps types to the keywords for the lower and upper bound.
var bounds = map[string][2]string{
	"integer": {"minimum", "maximum"}, "number": {"minimum", "maximum"}, "string": {"minLength", "maxLength"},
	"array": {"minItems", "maxItems"}, "object": {"minProperties", "maxProperties"},
}

func keywordWithoutEffect(p *pass) {
	for _, s := range p.sites {
		t := s.node.Get("type")
		if t == nil {
			continue
		}
		var types []string
		for _, v := range append([]*source.Node{t}, t.Items...) {
			if v.Kind == source.String {
				types = append(types, v.Text)
			}
		}
		for _, m := range s.node.Members {
			of := typeKeywords[m.Key]
			if of == nil || slices.ContainsFunc(of, func(t string) bool { return slices.Contains(types, t) }) {
				continue
			}
			hint := "remove it, or correct the type"
			if meant := matchingBound(m.Key, types); meant != "" {
				hint = "write " + meant + ", or correct the type"
			}
			p.addFinding(m.KeyRange, s.event, hint, "%s checks values of type %s only, and this is of type %s: it has no effect", m.Key, of[len(of)-1], strings.Join(types, " or "))
		}
	}
}

// matchingBound returns the counterpart of a bound keyword for the first type with bounds. It returns "" if none of the
// types has bounds.
func matchingBound(keyword string, types []string) string {
	for _, of := range bounds {
		if i := slices.Index(of[:], keyword); i >= 0 {
			for _, t := range types {
				if b, ok := bounds[t]; ok {
					return b[i]
				}
			}
		}
	}
	return ""
}
