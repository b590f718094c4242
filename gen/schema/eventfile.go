package schema

import (
	_ "embed"
	"slices"
)

//go:embed eventfile.schema.json
var eventFileSchema []byte

// EventFileSchema returns the JSON Schema (2020-12) of the event file, for editors. It accepts what
// [Load] accepts and refuses what is wrong with the form of a file; references, patterns and x-match
// are beyond it.
func EventFileSchema() []byte { return slices.Clone(eventFileSchema) }
