package schema

import "strings"

// A shape says where a keyword's value holds schemas.
type shape int

const (
	data          shape = iota // no schema inside
	oneSchema                  // a schema
	schemaList                 // an array of schemas
	schemaMap                  // an object whose members are schemas
	schemaOrList               // either
	schemaOrNames              // an object whose members are schemas or arrays of names
)

// A keyword is what the generator knows about one keyword of JSON Schema.
type keyword struct {
	shape shape
	// inPlace tells that the inner schemas apply to the same value as the outer one.
	inPlace bool
}

// A dialect is a version of JSON Schema.
type dialect struct {
	name     string
	uri      string
	keywords map[string]keyword
	names    []string // for suggestions
	// defs is where shared definitions are put.
	defs string
	// refAlone tells that the siblings of a $ref mean nothing.
	refAlone bool
}

var common = map[string]keyword{
	"$id": {}, "$schema": {}, "$ref": {}, "$comment": {},
	"title": {}, "description": {}, "default": {}, "examples": {}, "readOnly": {}, "writeOnly": {}, "deprecated": {},
	"type": {}, "enum": {}, "const": {}, "format": {},
	"multipleOf": {}, "maximum": {}, "exclusiveMaximum": {}, "minimum": {}, "exclusiveMinimum": {},
	"maxLength": {}, "minLength": {}, "pattern": {}, "contentEncoding": {}, "contentMediaType": {},
	"maxItems": {}, "minItems": {}, "uniqueItems": {},
	"maxProperties": {}, "minProperties": {}, "required": {},
	"contains":             {shape: oneSchema},
	"properties":           {shape: schemaMap},
	"patternProperties":    {shape: schemaMap},
	"additionalProperties": {shape: oneSchema},
	"propertyNames":        {shape: oneSchema},
	"definitions":          {shape: schemaMap},
	"allOf":                {shape: schemaList, inPlace: true},
	"anyOf":                {shape: schemaList, inPlace: true},
	"oneOf":                {shape: schemaList, inPlace: true},
	"not":                  {shape: oneSchema, inPlace: true},
	"if":                   {shape: oneSchema, inPlace: true},
	"then":                 {shape: oneSchema, inPlace: true},
	"else":                 {shape: oneSchema, inPlace: true},
	// Known beyond JSON Schema: OpenAPI's discriminator, the names that its generators give to the
	// constants of an enum, and the generator's own.
	"discriminator": {}, "x-enum-varnames": {}, "x-match": {}, "x-go-name": {}, "x-go-type": {},
}

var draft2020 = newDialect("2020-12", "https://json-schema.org/draft/2020-12/schema", "$defs", false, map[string]keyword{
	"$anchor": {}, "$dynamicRef": {}, "$dynamicAnchor": {}, "$vocabulary": {},
	"minContains": {}, "maxContains": {}, "dependentRequired": {},
	"$defs":                 {shape: schemaMap},
	"items":                 {shape: oneSchema},
	"prefixItems":           {shape: schemaList},
	"unevaluatedItems":      {shape: oneSchema},
	"unevaluatedProperties": {shape: oneSchema},
	"dependentSchemas":      {shape: schemaMap, inPlace: true},
	"contentSchema":         {shape: oneSchema},
	"dependencies":          {shape: schemaOrNames, inPlace: true},
})

var draft07 = newDialect("draft-07", "http://json-schema.org/draft-07/schema", "definitions", true, map[string]keyword{
	"items":           {shape: schemaOrList},
	"additionalItems": {shape: oneSchema},
	// Not of draft-07, but a $ref finds what stands there.
	"$defs":        {shape: schemaMap},
	"dependencies": {shape: schemaOrNames, inPlace: true},
})

func newDialect(name, uri, defs string, refAlone bool, own map[string]keyword) *dialect {
	d := &dialect{name: name, uri: uri, defs: defs, refAlone: refAlone, keywords: make(map[string]keyword)}
	for _, m := range []map[string]keyword{common, own} {
		for k, v := range m {
			d.keywords[k] = v
			d.names = append(d.names, k)
		}
	}
	return d
}

// dialectOf returns the dialect that a $schema names.
func dialectOf(uri string) *dialect {
	switch strings.TrimSuffix(uri, "#") {
	case draft2020.uri:
		return draft2020
	case draft07.uri, strings.Replace(draft07.uri, "http:", "https:", 1):
		return draft07
	}
	return nil
}

// unsupported are keywords whose meaning depends on the path that validation took; no type can be
// made of them, and a published schema could not be assembled from its parts.
var unsupported = map[string]string{
	"$dynamicRef":      "$ref",
	"$dynamicAnchor":   "$anchor",
	"$recursiveRef":    "$ref",
	"$recursiveAnchor": "$anchor",
}
