// Package foreign reads documents in which others describe events, whichever format they have.
//
// Start with [Read], for a file, or package schemadir, for a directory of JSON Schema files.
package foreign

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/asyncapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/openapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Options say how a document is read; of those of package schema ReadFile, Refs and Overrides count.
type Options struct {
	schema.Options
	// RefRoot is the directory that references to files may not leave; empty for that of the document. Refs may name
	// files elsewhere, which refer to files next to them.
	RefRoot string
	// Components are patterns of [path.Match]: the schemas below components of an OpenAPI document whose names match one
	// become event types as well.
	Components []string
}

// Read returns the event types of an AsyncAPI or OpenAPI document, with the files that these refer to. Anything else gives an error diagnostic (MCPE510, or one of its text) that says
// what to do with it.
func Read(path string, data []byte, o Options) (importer.Document, []source.Diagnostic) {
	doc, found := source.ParseForeign(path, data)
	if source.HasErrors(found) {
		return importer.Document{}, found
	}
	o.Overrides.Apply(path, doc)
	has := func(keys ...string) bool {
		for _, k := range keys {
			if doc.Get(k) != nil {
				return true
			}
		}
		return false
	}
	refuse := func(what, hint string) (importer.Document, []source.Diagnostic) {
		return importer.Document{}, append(found, source.New("MCPE510", doc.Range, "%s", what).WithHint("%s", hint))
	}
	var out importer.Document
	var more []source.Diagnostic
	switch {
	case len(o.Components) > 0 && !has("openapi", "swagger"):
		return refuse("patterns of components are for an OpenAPI document", "import it without --components")
	case has("asyncapi"):
		found = append(found, collect(doc, path, []openapi.Root{{Node: doc}}, o)...)
		out, more = asyncapi.ReadDocument(doc)
	case has("openapi", "swagger"):
		found = append(found, collect(doc, path, openapi.Roots(doc, o.Components...), o)...)
		out, more = openapi.Read(doc, o.Components...)
	case has("version") && has("events", "schemas"):
		return refuse("this is an event file already", "give it to generate as it is")
	case has("$schema", "properties", "$defs", "definitions", "allOf", "oneOf"):
		return refuse("this is one JSON Schema, and does not say of which event", "give the directory that holds it: import DIR --event-from filename")
	default:
		return refuse("this is neither an AsyncAPI nor an OpenAPI document", "its first line would be asyncapi: 3.0.0 or openapi: 3.1.0")
	}
	return out, append(found, more...)
}
