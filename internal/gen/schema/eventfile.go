package schema

import (
	_ "embed"
	"slices"
)

//go:embed eventfile.schema.json
var eventFileSchema []byte

// EventFileSchema returns the JSON Schema (2020-12) of the event file, for editors. It accepts every file that [Load]
// accepts, and rejects files of the wrong form. It does not check references, patterns or x-match.
func EventFileSchema() []byte { return slices.Clone(eventFileSchema) }
