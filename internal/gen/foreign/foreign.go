// Package foreign reads third-party documents that describe events, in AsyncAPI or OpenAPI format.
//
// Start with [Read]. For a directory of JSON Schema files, use package schemadir.
package foreign

import (
	"github.com/mcpe-gen/mcpe-gen/internal/gen/asyncapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/importer"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/openapi"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/schema"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

// Options configures [Read]. Of [schema.Options], only ReadFile, Refs and Overrides are used.
type Options struct {
	schema.Options
	// RefRoot is the directory that must contain all referenced files. The default is the directory of the document. A
	// file in Refs can be in any directory. That directory must contain the files to which it refers.
	RefRoot string
	// Components lists [path.Match] patterns. Component schemas of an OpenAPI document whose names match also become
	// event types.
	Components []string
}

// Read returns the event types of an AsyncAPI or OpenAPI document. It also reads the files that the document refers to.
// For other documents, it returns an error diagnostic (MCPE510, or a syntax error) with advice.
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
		found = append(found, collectFiles(doc, path, []openapi.Root{{Node: doc}}, o)...)
		out, more = asyncapi.ReadDocument(doc)
	case has("openapi", "swagger"):
		found = append(found, collectFiles(doc, path, openapi.Roots(doc, o.Components...), o)...)
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
