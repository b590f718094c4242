package source

// schemaCodes lists the codes for diagnostics about JSON Schemas, their references and x-match.
var schemaCodes = []Code{
	{ID: "MCPE130", Title: "not a JSON Schema", Explanation: "The schema does not follow the metaschema of its dialect (2020-12, or draft-07 where $schema says so): `type: " +
		"strng`, `required: name` instead of `required: [name]`, a negative minLength. The position is that of the " +
		"invalid value."},
	{ID: "MCPE131", Title: "keyword without effect", Severity: Warning, Explanation: "JSON Schema ignores keywords that it does not know, so a misspelt one checks nothing: `requried: [id]` leaves id " +
		"optional. You get the warning for names close to a known keyword, for keywords of another dialect, for OpenAPI's " +
		"nullable, and for names that cannot be keywords: with a space, or without a value, as when a comma in unquoted " +
		"prose ends it. A member next to `properties` instead of below it has the same effect. The warning is also given for a format " +
		"close to a known one, for a string format on a number, for a pattern between slashes, and for a value that an enum " +
		"lists twice. Keywords and formats of your own are allowed."},
	{ID: "MCPE132", Title: "dialect not supported", Explanation: "`$schema` at the top of an inputSchema, a payloadSchema or an entry of schemas sets the dialect: " +
		"https://json-schema.org/draft/2020-12/schema, which is also the default, or http://json-schema.org/draft-07/schema#. Other " +
		"dialects, and a change of dialect within a schema, are not supported."},
	{ID: "MCPE133", Title: "pattern does not compile", Explanation: "A `pattern`, or a key of patternProperties, is not an ECMA-262 regular expression with the u flag. JSON Schema " +
		"and JavaScript validators read patterns this way, so clients could not compile the published schema. Syntax of " +
		"other engines, such as `(?i)`, `(?P<name>…)`, `\\A` and `[[:alpha:]]`, and syntax that JavaScript " +
		"accepts only without the u flag, such as `\\-` outside a class, has another form; in common cases the hint shows it. Look-ahead, " +
		"look-behind, back references and `\\p{…}` work. In YAML, single quotes keep backslashes as they are: `pattern: " +
		"'^\\d+$'`."},
	{ID: "MCPE134", Title: "default or example is not valid", Severity: Warning, Explanation: "A default or an example does not validate against the schema that it belongs to, for example `{type: string, " +
		"default: 5}`. It has no effect at run time, but misleads readers of the schema. Correct the value or the schema."},
	{ID: "MCPE135", Title: "not an object", Explanation: "The arguments and the payload of an event are JSON objects. An inputSchema and a payloadSchema must have `type: " +
		"object`, directly or through $ref, allOf, or every branch of oneOf or anyOf. Without it a list or a string would " +
		"be valid, and no struct can be generated for those."},
	{ID: "MCPE136", Title: "keyword not supported", Explanation: "$dynamicRef, $dynamicAnchor, $recursiveRef and $recursiveAnchor depend on the path that validation took, so they " +
		"have no Go type. Use $ref and $anchor."},
	{ID: "MCPE137", Title: "bad $id or anchor", Explanation: "An $id is a URI reference without a fragment, and unique within its schema, as an anchor is " +
		"within its $id. An $id is rarely needed in an event file: schemas are found by `#/schemas/NAME`."},
	{ID: "MCPE138", Title: "keyword of another dialect", Severity: Note, Explanation: "Draft-07 calls shared schemas `definitions`; `$defs` came with 2019-09. Validators resolve a $ref into either, " +
		"so you need not change anything. With `definitions` the schema matches its dialect."},
	{ID: "MCPE140", Title: "malformed $ref", Explanation: "A $ref is `#/schemas/NAME` for a schema of this file, `./other.yaml#/schemas/NAME` for one of another " +
		"file (relative to this one), or any other `#…` for a place within the schema that holds it."},
	{ID: "MCPE141", Title: "$ref to nothing", Explanation: "The target of the $ref does not exist: the schema, the anchor, the place, or the file. `#/$defs/X` is looked up " +
		"in the schema that holds the reference (the inputSchema, the payloadSchema, the entry of schemas, or the nearest " +
		"$id), `#/schemas/X` in the file."},
	{ID: "MCPE142", Title: "remote $ref", Explanation: "The generator reads only files, because its output must not depend on a remote server. Copy the schema into a " +
		"file next to the event file and refer to that, or map its URL to a file with `refs` in mcpe.yaml."},
	{ID: "MCPE143", Title: "$ref to something other than a schema", Explanation: "The $ref leads to a place that holds no schema, for example `#/properties` (the map, not a property) or an " +
		"unknown keyword. Shared schemas belong under `schemas:` of the file or under $defs."},
	{ID: "MCPE144", Title: "$ref between dialects", Explanation: "A schema and the schemas that it refers to are published as one document with one dialect. Here one of them is " +
		"2020-12 and the other is draft-07. Give both the same $schema."},
	{ID: "MCPE145", Title: "$ref that leads back to itself", Explanation: "Following the $ref (also through allOf, anyOf, oneOf and the like) comes back to where it began " +
		"without having stepped into a property or an element, as in `A: {$ref: '#/schemas/A'}`. No value can be checked against such " +
		"a schema. Recursion through properties and items is fine."},
	{ID: "MCPE150", Title: "malformed x-match", Explanation: "x-match is a JSON Pointer into the payload, `x-match: /severity`, or an object with the pointer and an " +
		"operator, `x-match: {path: /service, op: glob}`. Operators are equal (the default), in, glob, prefix, lt, lte, gt and gte; min and max are " +
		"older names of gte and lte. `not: true` turns a rule around, and a * in the path stands for every element of an array. An argument has " +
		"one x-match at most."},
	{ID: "MCPE151", Title: "x-match to an unknown member", Explanation: "The pointer of an x-match names a member that the payloadSchema does not describe, so no occurrence could ever " +
		"match. Check the spelling, or describe the member under properties. A pointer that ends at an array matches if any element does. " +
		"It leads through an array by an index, `/lines/0/sku`, or by a * for every element, `/lines/*/sku`."},
	{ID: "MCPE152", Title: "x-match with incompatible types", Explanation: "The argument and its place in the payload have types that the operator cannot compare: equal needs two scalars " +
		"of one type; in needs an array of them as the argument; glob and prefix need strings; lt, lte, gt and gte need two " +
		"numbers or two strings of format date-time. Both schemas must declare their type. If the place is an array, its " +
		"elements are compared."},
	{ID: "MCPE153", Title: "x-match without effect", Explanation: "x-match ties an argument of a subscription to the payload, so it belongs on a top-level property of an " +
		"inputSchema (or of the schema that it refers to). On a payload, on a nested property or within a shared property " +
		"type it would be ignored: move it."},
	{ID: "MCPE160", Title: "malformed x-coalesce", Explanation: "x-coalesce says which events of a type are about the same thing, so that a consumer may join a burst " +
		"of them: `x-coalesce: {key: /pullRequest/number, quietSeconds: 30, maxSeconds: 300, keep: latest}`. The key is a JSON Pointer into the " +
		"payload or a list of at most 8; the times are whole seconds of at most a day, maxSeconds at least quietSeconds; keep is latest (the default) or all. " +
		"It is published in the descriptor's _meta, where it is not written by hand."},
	{ID: "MCPE161", Title: "unusable x-coalesce key", Explanation: "The payloadSchema does not describe a place of the x-coalesce key, or allows values there other than strings, " +
		"numbers and booleans. The key then cannot tell whether two events are about the same thing. Check the spelling, " +
		"or describe the member under properties with its type."},
	{ID: "MCPE162", Title: "argument value that no event has", Severity: Warning, Explanation: "The enum of an argument lists a value that the enum of its place in the payload lacks. The server accepts " +
		"a subscription with the value, and no event ever matches. Correct the value, remove it, or add it to the payload. Refer to one shared schema " +
		"from both places to keep the lists equal."},
	{ID: "MCPE163", Title: "malformed x-actor", Explanation: "x-actor says who caused an event: it is a JSON Pointer into the payload, `x-actor: /sender/login`. " +
		"The type's subscriptions get the argument `notBy`, an array of actors whose events are left out, so the inputSchema must have no " +
		"argument of that name, and describe the arguments by its own properties."},
	{ID: "MCPE164", Title: "x-actor to an unusable place", Explanation: "The pointer of an x-actor names a member that the payloadSchema does not describe, so that no event would " +
		"ever have an actor, or a member that is not a string. The member may be optional or null: an event without it is by nobody."},
	{ID: "MCPE165", Title: "misplaced x-private", Explanation: "`x-private: true` on a named member of a payloadSchema, or on the schema that its $ref names, means that only the " +
		"hook PerPrincipal decides which callers see the member and its content. Otherwise the runtime removes the member, so it must not be " +
		"required. The keyword has no meaning in an inputSchema, in tasks and in the conversation, on the whole payload, on elements of an array, or " +
		"below keywords such as if and not."},
	{ID: "MCPE166", Title: "filter on a private member", Explanation: "An x-match, x-actor, x-coalesce or the id of `from` names a member with x-private, a part of one, or a value that " +
		"contains one. A caller who does not see the member could learn its value from the events that arrive. Name another member, or " +
		"remove x-private."},
}
