package schema

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// stringFormats are the formats of JSON Schema: what the runtime asserts, of strings alone.
var stringFormats = []string{
	"date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri", "iri-reference",
	"json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference", "uri-template", "uuid",
}

// otherFormats are those of OpenAPI's registry; nothing asserts them.
var otherFormats = []string{
	"base64url", "binary", "byte", "char", "commonmark", "decimal", "decimal128", "double", "double-int", "float", "html",
	"http-date", "int16", "int32", "int64", "int8", "media-range", "password", "sf-binary", "sf-boolean", "sf-decimal",
	"sf-integer", "sf-string", "sf-token", "uint16", "uint32", "uint64", "uint8", "unixtime",
}

// namesakes are formats that other languages and tools know by another name.
var namesakes = map[string]string{
	"timestamp": "date-time", "iso8601": "date-time", "iso-8601": "date-time", "rfc3339": "date-time", "rfc-3339": "date-time",
	"iso8601-date-time": "date-time", "url": "uri", "guid": "uuid", "ip": "ipv4", "ip-address": "ipv4", "host-name": "hostname",
	"e-mail": "email", "regexp": "regex", "url-template": "uri-template", "uri-ref": "uri-reference", "full-date": "date",
}

// format warns of a format that is probably misspelt, and of one that its value cannot have. Others
// are allowed: JSON Schema lets authors have formats of their own.
func (l *loader) format(r *root, n, v *source.Node) {
	name := v.Text
	if slices.Contains(l.o.Formats, name) {
		return
	}
	if slices.Contains(stringFormats, name) {
		if t := n.Get("type"); t != nil && !typed(t, "string") {
			l.fail(r, source.New("MCPE131", v.Range, "format %s is for strings and has no effect on %s", name, typesOf(t)).
				WithHint("leave it out, or write type: string"))
		}
		return
	}
	if slices.Contains(otherFormats, name) {
		return
	}
	if near := nearFormat(name); near != "" {
		l.fail(r, source.New("MCPE131", v.Range, "format %q is not known and checks nothing", name).
			WithHint("did you mean %q?", near))
	}
}

// nearFormat returns the format that a name is a misspelling of, or another name for.
func nearFormat(name string) string {
	plain := strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(name))
	if known := namesakes[plain]; known != "" {
		return known
	}
	bare := strings.ReplaceAll(plain, "-", "")
	for _, f := range stringFormats {
		if strings.ReplaceAll(f, "-", "") == bare {
			return f
		}
	}
	return source.Suggest(plain, stringFormats)
}

// typed reports whether a type names the type, alone or in a list.
func typed(t *source.Node, name string) bool {
	return t.Text == name || slices.ContainsFunc(t.Items, func(item *source.Node) bool { return item.Text == name })
}

func typesOf(t *source.Node) string {
	if t.Kind != source.Array {
		return withArticle(t.Text)
	}
	var words []string
	for _, item := range t.Items {
		words = append(words, withArticle(item.Text))
	}
	return strings.Join(words, " or ")
}
