package source

// schemaCodes are the findings about JSON Schemas, their references and x-match.
var schemaCodes = []Code{
	{ID: "MCPE130", Title: "not a JSON Schema", Explanation: "The schema does not follow the metaschema of its dialect (2020-12, or draft-07 where " +
		"$schema says so): `type: strng`, `required: name` instead of `required: [name]`, a negative minLength. The place is that of the " +
		"value at fault."},
	{ID: "MCPE131", Title: "keyword without effect", Severity: Warning, Explanation: "JSON Schema ignores keywords that it does not know, so a misspelt one checks " +
		"nothing: `requried: [id]` leaves id optional. The warning comes for names close to a known one, for keywords of another " +
		"dialect, for OpenAPI's nullable, and for what is no keyword at all: a name with a space or without a value, as when a comma in " +
		"unquoted prose ends it. It comes for formats too: one close to a known one, or one for strings on a number. Keywords and formats of " +
		"your own are allowed."},
	{ID: "MCPE132", Title: "dialect not supported", Explanation: "`$schema` at the top of an inputSchema, a payloadSchema or an entry of schemas sets the dialect: " +
		"https://json-schema.org/draft/2020-12/schema, which is also the default, or http://json-schema.org/draft-07/schema#. Other " +
		"dialects, and a change of dialect within a schema, are not supported."},
	{ID: "MCPE133", Title: "pattern does not compile", Explanation: "A `pattern`, or a key of patternProperties, is not a regular expression of ECMA-262 with the " +
		"u flag, which is how JSON Schema and JavaScript's validators read it: clients could not compile the published schema. What other engines " +
		"know, such as `(?i)`, `(?P<name>…)`, `\\A`, `\\z`, `[[:alpha:]]` and `\\Q…\\E`, and what JavaScript takes without the u flag alone, such as `\\-` " +
		"outside a class, has another form there; the hint says which. Look-ahead, look-behind, back references and `\\p{…}` work. In YAML, single quotes keep backslashes as they are: `pattern: '^\\d+$'`."},
	{ID: "MCPE134", Title: "default or example is not valid", Severity: Warning, Explanation: "A default or an example does not validate against the schema that it " +
		"belongs to, for example `{type: string, default: 5}`. It changes nothing at run time, but misleads whoever reads the schema. " +
		"Correct the value or the schema."},
	{ID: "MCPE135", Title: "not an object", Explanation: "The arguments and the payload of an event are JSON objects. An inputSchema and a payloadSchema say so with " +
		"`type: object`, by themselves or through $ref, allOf, or every branch of oneOf or anyOf. Without it a list or a string would be " +
		"valid, for which no struct can be generated."},
	{ID: "MCPE136", Title: "keyword not supported", Explanation: "$dynamicRef, $dynamicAnchor, $recursiveRef and $recursiveAnchor mean something else depending on " +
		"how validation came to them, so no Go type can be made of them. Use $ref and $anchor."},
	{ID: "MCPE137", Title: "bad $id or anchor", Explanation: "An $id is a URI reference without a fragment, and unique within its schema, as an anchor is " +
		"within its $id. An $id is rarely needed in an event file: schemas are found by `#/schemas/NAME`."},
	{ID: "MCPE138", Title: "keyword of another dialect", Severity: Note, Explanation: "Draft-07 calls shared schemas `definitions`; `$defs` came with 2019-09. Validators " +
		"find what a $ref names below either, so nothing has to be done. Written as `definitions`, the schema says what it is in."},
	{ID: "MCPE140", Title: "malformed $ref", Explanation: "A $ref is `#/schemas/NAME` for a schema of this file, `./other.yaml#/schemas/NAME` for one of another " +
		"file (relative to this one), or any other `#…` for a place within the schema that holds it."},
	{ID: "MCPE141", Title: "$ref to nothing", Explanation: "What the $ref names does not exist: the schema, the anchor, the place, or the file. `#/$defs/X` is looked " +
		"up in the schema that holds the reference (the inputSchema, the payloadSchema, the entry of schemas, or the nearest $id), " +
		"`#/schemas/X` in the file."},
	{ID: "MCPE142", Title: "remote $ref", Explanation: "Generation reads files only: its output must not depend on what a server answers today. Copy the schema into a " +
		"file beside the event file and refer to that."},
	{ID: "MCPE143", Title: "$ref to something else than a schema", Explanation: "The $ref leads to a place that holds no schema, for example `#/properties` (the " +
		"map, not a property) or an unknown keyword. Shared schemas stand under `schemas:` of the file or under $defs."},
	{ID: "MCPE144", Title: "$ref between dialects", Explanation: "A schema is published together with what it refers to, as one document, and that has one dialect. Here a " +
		"2020-12 schema and a draft-07 schema are tied together. Give both the same $schema."},
	{ID: "MCPE145", Title: "$ref that leads back to itself", Explanation: "Following the $ref (also through allOf, anyOf, oneOf and the like) comes back to where it began " +
		"without having stepped into a property or an element, as in `A: {$ref: '#/schemas/A'}`. No value can be checked against such " +
		"a schema. Recursion through properties and items is fine."},
	{ID: "MCPE150", Title: "malformed x-match", Explanation: "x-match is a JSON Pointer into the payload, `x-match: /severity`, or an object with the pointer and an " +
		"operator, `x-match: {path: /service, op: glob}`. Operators are equal (the default), in, glob, prefix, min and max. An argument has " +
		"one x-match at most."},
	{ID: "MCPE151", Title: "x-match to nothing", Explanation: "The pointer of an x-match names a member that the payloadSchema does not describe, so no occurrence could ever " +
		"match. Check the spelling, or describe the member under properties. A pointer that ends at an array matches if any element does; " +
		"it does not lead through an array without an index."},
	{ID: "MCPE152", Title: "x-match between unlike types", Explanation: "The argument and its place in the payload have types that the operator cannot compare: equal needs two " +
		"scalars of one type, in an array of them as the argument, glob and prefix strings, min and max two numbers or two strings of " +
		"format date-time. Both schemas must say their type. Where the place is an array, its elements count."},
	{ID: "MCPE153", Title: "x-match without effect", Explanation: "x-match ties an argument of a subscription to the payload, so it belongs to a property at the top of an " +
		"inputSchema (or of what that refers to). On a payload, on a nested property or within a shared property type it would be " +
		"ignored; move it."},
	{ID: "MCPE160", Title: "malformed x-coalesce", Explanation: "x-coalesce says which events of a type are about the same thing, so that a consumer may join a burst " +
		"of them: `x-coalesce: {key: /pullRequest/number, quietSeconds: 30, maxSeconds: 300, keep: latest}`. The key is a JSON Pointer into the " +
		"payload or a list of at most 8; the times are whole seconds of at most a day, maxSeconds at least quietSeconds; keep is latest (the default) or all. " +
		"It is published in the descriptor's _meta, where it is not written by hand."},
	{ID: "MCPE161", Title: "x-coalesce key that tells nothing apart", Explanation: "A place of the key of an x-coalesce is not described by the payloadSchema, or what is there may be " +
		"something else than a string, a number or a boolean, so that no two events could be told to be about the same thing. Check the spelling, or describe the member under properties with its type."},
}
