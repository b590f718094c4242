package schemadir

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

// otherFormat returns the format of a document that is not a schema, and a hint. If the format is unknown, it returns
// "".
func otherFormat(root *source.Node, shown string) (what, hint string) {
	if format, _ := schema.Foreign(root); format != "" {
		return "an " + format + " document", "import it by itself: mcpe-gen import " + shown
	}
	if root.Get("version") != nil && (isKind(root, "events", source.Array) || isKind(root, "schemas", source.Object)) {
		return "an event file already", "give it to generate as it is"
	}
	return "", ""
}

// Keywords that identify an object as a schema if their value has the given kind. They do not include annotations,
// because plain data can also have members such as title, description or format.
var (
	objectKeywords = strings.Fields("properties patternProperties $defs definitions additionalProperties items not if propertyNames dependentSchemas")
	arrayKeywords  = strings.Fields("allOf anyOf oneOf prefixItems enum required")
	stringKeywords = strings.Fields("$ref $id $anchor")
)

// isSchema reports whether an object is a JSON Schema. A schema has a keyword with a value of the right kind, or a
// $schema of json-schema.org, and its properties are schemas. Plain data can also have a $schema, which then usually names the schema of the data.
func isSchema(root *source.Node) bool {
	has := func(keywords []string, kind source.Kind) bool {
		return slices.ContainsFunc(keywords, func(k string) bool { return isKind(root, k, kind) })
	}
	if p := root.Get("properties"); p != nil && slices.ContainsFunc(p.Members, func(m source.Member) bool { return m.Value.Kind != source.Object && m.Value.Kind != source.Bool }) {
		return false
	}
	if has(objectKeywords, source.Object) || has(arrayKeywords, source.Array) || has(stringKeywords, source.String) || root.Get("const") != nil {
		return true
	}
	if root.Get("type") != nil && schematree.Declared(root) != 0 {
		return true
	}
	return isKind(root, "$schema", source.String) && strings.Contains(root.Get("$schema").Text, "://json-schema.org/")
}

func isKind(n *source.Node, key string, kind source.Kind) bool {
	v := n.Get(key)
	return v != nil && v.Kind == kind
}
