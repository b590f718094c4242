package schema

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// plain reports whether every keyword of a schema has a value of the form that the dialect's metaschema asks for. It
// knows the keywords that most schemas are made of; of any other it says no. The metaschema finds nothing wrong with
// a plain schema, so that only the others are validated, at many times the cost.
func (d *dialect) plain(n *source.Node) bool {
	switch n.Kind {
	case source.Bool:
		return true
	case source.Object:
	default:
		return false
	}
	for _, m := range n.Members {
		k, known := d.keywords[m.Key]
		switch {
		case !known && strings.HasPrefix(m.Key, "$"), !d.plainHolder(k.shape, m.Value):
			return false
		case known && k.shape == data && !plainValue(m.Key, m.Value):
			return false
		}
	}
	return true
}

// plainHolder reports whether the value of a keyword holds plain schemas as the shape says.
func (d *dialect) plainHolder(s shape, v *source.Node) bool {
	switch {
	case s == data:
		return true
	case s == oneSchema, s == schemaOrList && v.Kind != source.Array:
		return d.plain(v)
	case s == schemaList, s == schemaOrList:
		return v.Kind == source.Array && len(v.Items) > 0 && every(v.Items, d.plain)
	}
	return v.Kind == source.Object && !slices.ContainsFunc(v.Members, func(m source.Member) bool {
		return !d.plain(m.Value) && (s == schemaMap || !plainNames(m.Value))
	})
}

// plainValue is about the keywords that hold no schemas.
func plainValue(keyword string, v *source.Node) bool {
	switch keyword {
	case "title", "description", "$comment", "format", "pattern", "contentEncoding", "contentMediaType":
		return v.Kind == source.String
	case "readOnly", "writeOnly", "deprecated", "uniqueItems":
		return v.Kind == source.Bool
	case "maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum":
		return v.Kind == source.Number
	case "maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties":
		return v.Kind == source.Number && strings.Trim(v.Text, "0123456789") == ""
	case "examples":
		return v.Kind == source.Array
	case "enum":
		return v.Kind == source.Array && len(v.Items) > 0 && every(v.Items, isStringOrNull) && distinct(v.Items)
	case "const", "default":
		return true
	case "required":
		return plainNames(v)
	case "type":
		return isTypeName(v) || v.Kind == source.Array && len(v.Items) > 0 && every(v.Items, isTypeName) && distinct(v.Items)
	case "$ref":
		return plainRef(v)
	case "$schema":
		return v.Kind == source.String && dialectOf(v.Text) != nil
	case "discriminator":
		return true
	}
	return strings.HasPrefix(keyword, "x-")
}

// plainNames reports whether v is a list of names, none of them twice.
func plainNames(v *source.Node) bool {
	return v.Kind == source.Array && every(v.Items, isString) && distinct(v.Items)
}

func isString(n *source.Node) bool { return n.Kind == source.String }

func isStringOrNull(n *source.Node) bool { return isString(n) || n.Kind == source.Null }

// plainRef reports whether v is a reference that is as good as it looks: a file's name, a pointer, or both.
func plainRef(v *source.Node) bool {
	odd := func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("/._-$~", c)
	}
	path, fragment, _ := strings.Cut(v.Text, "#")
	return v.Kind == source.String && !strings.HasPrefix(path, "/") && !strings.ContainsFunc(path, odd) && !strings.ContainsFunc(fragment, odd)
}

var typeNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

func isTypeName(n *source.Node) bool {
	return isString(n) && slices.Contains(typeNames, n.Text)
}

// distinct reports whether no two texts are alike; of long lists it says no.
func distinct(list []*source.Node) bool {
	if len(list) > 100 {
		return false
	}
	for i, n := range list {
		if slices.ContainsFunc(list[:i], func(other *source.Node) bool { return other.Text == n.Text }) {
			return false
		}
	}
	return true
}

func every(list []*source.Node, holds func(*source.Node) bool) bool {
	return !slices.ContainsFunc(list, func(n *source.Node) bool { return !holds(n) })
}
