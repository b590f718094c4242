package schema

import (
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/suggest"
)

// otherFormats lists the formats in the OpenAPI registry. The runtime does not assert them.
var otherFormats = []string{
	"base64url", "binary", "byte", "char", "commonmark", "decimal", "decimal128", "double", "double-int", "float", "html",
	"http-date", "int16", "int32", "int64", "int8", "media-range", "password", "sf-binary", "sf-boolean", "sf-decimal",
	"sf-integer", "sf-string", "sf-token", "uint16", "uint32", "uint64", "uint8", "unixtime",
}

// formatAliases maps format names that other languages and tools use to those of JSON Schema.
var formatAliases = map[string]string{
	"timestamp": "date-time", "iso8601": "date-time", "iso-8601": "date-time", "rfc3339": "date-time", "rfc-3339": "date-time",
	"iso8601-date-time": "date-time", "url": "uri", "guid": "uuid", "ip": "ipv4", "ip-address": "ipv4", "host-name": "hostname",
	"e-mail": "email", "regexp": "regex", "url-template": "uri-template", "uri-ref": "uri-reference", "full-date": "date",
}

// checkFormat warns about formats that are probably misspelled or do not apply to the type of the value. It accepts
// other unknown formats, because JSON Schema allows custom formats.
func (l *loader) checkFormat(r *root, n, v *source.Node) {
	name := v.Text
	l.set.Formats[name] = true
	if slices.Contains(l.o.Formats, name) {
		return
	}
	if slices.Contains(schematree.Formats, name) {
		if types := schematree.Declared(n); types != 0 && types&schematree.String == 0 {
			l.fail(r, source.New("MCPE131", v.Range, "format %s is for strings and has no effect on values of type %s", name, types).
				WithHint("leave it out, or write type: string"))
		}
		return
	}
	if slices.Contains(otherFormats, name) {
		return
	}
	if near := NearFormat(name, schematree.Formats); near != "" {
		l.fail(r, source.New("MCPE131", v.Range, "format %q is not known and checks nothing", name).
			WithHint("did you mean %q?", near))
	}
}

// NearFormat returns the one of the formats that the author probably meant by name, or "".
func NearFormat(name string, formats []string) string {
	plain := strings.NewReplacer("_", "-", " ", "-").Replace(strings.ToLower(name))
	if known := formatAliases[plain]; slices.Contains(formats, known) {
		return known
	}
	bare := strings.ReplaceAll(plain, "-", "")
	for _, f := range formats {
		if strings.ReplaceAll(f, "-", "") == bare {
			return f
		}
	}
	return suggest.Nearest(plain, formats)
}
