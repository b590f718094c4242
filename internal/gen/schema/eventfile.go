package schema

import (
	_ "embed"
	"slices"
)

//go:embed eventfile.schema.json
var eventFileSchema []byte

// EventFileSchema returns a JSON Schema (2020-12) with which editors check event files. It accepts every file that
// [Load] accepts, and rejects files with a wrong structure. It does not check references, patterns or x-match.
func EventFileSchema() []byte { return slices.Clone(eventFileSchema) }
