package schematree

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Holds describes how the value of a keyword contains schemas.
type Holds int

// The ways in which a value can contain schemas.
const (
	Nothing        Holds = iota // no schema
	Schema                      // a schema
	List                        // an array of schemas
	Map                         // an object whose members are schemas
	SchemaOrList                // a schema or an array of schemas
	SchemasOrNames              // an object whose members are schemas or arrays of names
)

// A Role is the effect of a keyword on the set of valid values.
type Role int

// The roles of keywords.
const (
	// Describes is the role of a keyword that defines the form of values.
	Describes Role = iota
	// Narrows is the role of a keyword that excludes values without changing the form of the rest.
	Narrows
	// Annotates is the role of a keyword that excludes nothing. Its value may contain schemas that are targets of
	// references.
	Annotates
	// Identifies is the role of a keyword that names the schema or its dialect.
	Identifies
)

// A Keyword describes a keyword of JSON Schema.
type Keyword struct {
	Holds Holds
	Role  Role
	// InPlace is set if the subschemas apply to the same value as the schema itself.
	InPlace bool
	// Refers is set if the value is a reference to a schema that applies to the same value.
	Refers bool
	// Checks is the set of JSON types whose values the keyword checks. The keyword accepts all values of other types.
	Checks Types
}

// A Dialect is a version of JSON Schema.
type Dialect struct {
	// Name and URI identify the dialect. A $schema may have a # after the URI.
	Name, URI string
	// Definitions is the keyword for shared definitions.
	Definitions string
	// RefAlone is set if the siblings of a $ref are ignored.
	RefAlone bool
	keywords map[string]Keyword
}

// Keyword returns the description of a keyword, or false if the dialect does not have it.
func (d *Dialect) Keyword(name string) (Keyword, bool) {
	k, known := d.keywords[name]
	return k, known
}

// Keywords returns the sorted names of the dialect's keywords.
func (d *Dialect) Keywords() []string { return slices.Sorted(maps.Keys(d.keywords)) }

// Draft07URI is the usual $schema of draft-07.
const Draft07URI = "http://json-schema.org/draft-07/schema#"

var (
	// Draft2020 is draft 2020-12.
	Draft2020 = newDialect("2020-12", "https://json-schema.org/draft/2020-12/schema", "$defs", false, draft2020Keywords)
	// Draft07 is draft-07.
	Draft07 = newDialect("draft-07", strings.TrimSuffix(Draft07URI, "#"), "definitions", true, draft07Keywords)
	// Any has the keywords of all dialects. It is for callers that do not depend on the dialect.
	Any = newDialect("", "", "$defs", false, draft2020Keywords, draft07Keywords, map[string]Keyword{"$recursiveRef": {Refers: true}})
)

// DefinitionKeywords lists the keywords for shared definitions.
var DefinitionKeywords = []string{Draft2020.Definitions, Draft07.Definitions}

// DialectOf returns the dialect that a $schema identifies, or nil if it is not supported.
func DialectOf(uri string) *Dialect {
	switch strings.TrimSuffix(uri, "#") {
	case Draft2020.URI:
		return Draft2020
	case Draft07.URI, strings.Replace(Draft07.URI, "http:", "https:", 1):
		return Draft07
	}
	return nil
}

// Bounds lists the keywords for the lower and the upper bound of a value, type by type.
var Bounds = [][2]string{{"minimum", "maximum"}, {"minLength", "maxLength"}, {"minItems", "maxItems"}, {"minProperties", "maxProperties"}}

// Formats lists the formats of JSON Schema. The runtime checks strings against them. Any other format accepts all values.
var Formats = []string{
	"date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri", "iri-reference",
	"json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template", "uuid",
}

// commonKeywords holds the keywords that all dialects share.
var commonKeywords = mergeKeywords(map[string]Keyword{
	"$ref":                 {Refers: true},
	"type":                 {},
	"enum":                 {},
	"const":                {},
	"format":               {Checks: String},
	"contentEncoding":      {Checks: String},
	"properties":           {Holds: Map, Checks: Object},
	"patternProperties":    {Holds: Map, Checks: Object},
	"additionalProperties": {Holds: Schema, Checks: Object},
	"allOf":                {Holds: List, InPlace: true},
	"anyOf":                {Holds: List, InPlace: true},
	"oneOf":                {Holds: List, InPlace: true},
	"if":                   {Holds: Schema, InPlace: true},
	"then":                 {Holds: Schema, InPlace: true},
	"else":                 {Holds: Schema, InPlace: true},
	"dependencies":         {Holds: SchemasOrNames, InPlace: true, Checks: Object},
	"not":                  {Holds: Schema, InPlace: true, Role: Narrows},
	"contains":             {Holds: Schema, Role: Narrows, Checks: Array},
	"propertyNames":        {Holds: Schema, Role: Narrows, Checks: Object},
	// In draft-07, a $ref can also refer to schemas below $defs.
	"$defs":       {Holds: Map, Role: Annotates},
	"definitions": {Holds: Map, Role: Annotates},
	// OpenAPI's discriminator, the constant names of its generators, and the keywords of this generator.
	"discriminator":   {},
	"x-go-type":       {},
	"x-enum-varnames": {Role: Narrows},
	"x-match":         {Role: Annotates},
	"x-private":       {Role: Annotates},
	"x-go-name":       {Role: Annotates},
},
	keywordsLike(Keyword{Role: Annotates}, "title description $comment default examples deprecated readOnly writeOnly"),
	keywordsLike(Keyword{Role: Identifies}, "$schema $id"),
	keywordsLike(Keyword{Role: Narrows, Checks: Number}, "multipleOf maximum exclusiveMaximum minimum exclusiveMinimum"),
	keywordsLike(Keyword{Role: Narrows, Checks: String}, "maxLength minLength pattern contentMediaType"),
	keywordsLike(Keyword{Role: Narrows, Checks: Array}, "maxItems minItems uniqueItems"),
	keywordsLike(Keyword{Role: Narrows, Checks: Object}, "maxProperties minProperties required"))

// draft2020Keywords holds the keywords of 2020-12 that draft-07 does not have.
var draft2020Keywords = mergeKeywords(map[string]Keyword{
	"$dynamicRef":           {Refers: true},
	"items":                 {Holds: Schema, Checks: Array},
	"prefixItems":           {Holds: List, Checks: Array},
	"unevaluatedItems":      {Holds: Schema, Checks: Array},
	"unevaluatedProperties": {Holds: Schema, Checks: Object},
	"dependentSchemas":      {Holds: Map, InPlace: true, Checks: Object},
	"dependentRequired":     {Role: Narrows, Checks: Object},
	"contentSchema":         {Holds: Schema, Role: Narrows, Checks: String},
},
	keywordsLike(Keyword{Role: Identifies}, "$anchor $dynamicAnchor $vocabulary"),
	keywordsLike(Keyword{Role: Narrows, Checks: Array}, "minContains maxContains"))

// draft07Keywords holds the keywords of draft-07 that 2020-12 does not have.
var draft07Keywords = map[string]Keyword{
	"items":           {Holds: SchemaOrList, Checks: Array},
	"additionalItems": {Holds: Schema, Checks: Array},
}

// keywordsLike returns k for each of the names.
func keywordsLike(k Keyword, names string) map[string]Keyword {
	out := map[string]Keyword{}
	for name := range strings.FieldsSeq(names) {
		out[name] = k
	}
	return out
}

// mergeKeywords merges the keywords. If Checks is not set, it sets it to all types.
func mergeKeywords(all ...map[string]Keyword) map[string]Keyword {
	out := map[string]Keyword{}
	for _, m := range all {
		for name, k := range m {
			k.Checks = cmp.Or(k.Checks, AnyType)
			out[name] = k
		}
	}
	return out
}

func newDialect(name, uri, definitions string, refAlone bool, own ...map[string]Keyword) *Dialect {
	return &Dialect{name, uri, definitions, refAlone, mergeKeywords(append([]map[string]Keyword{commonKeywords}, own...)...)}
}
