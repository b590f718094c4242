package schema

import (
	_ "embed"
	"slices"
	"sync"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/form"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
)

//go:embed eventfile.schema.json
var eventFileSchema []byte

// EventFileSchema returns a JSON Schema (2020-12) with which editors check event files. It accepts every file that
// [Load] accepts, and rejects files with a wrong structure. It does not check references, patterns or x-match.
func EventFileSchema() []byte { return slices.Clone(eventFileSchema) }

// eventFileForm returns the form of an event file without that of the schemas in it, which the loader checks by their
// dialect.
var eventFileForm = sync.OnceValue(func() *form.Form {
	n, _ := source.Parse("eventfile.schema.json", eventFileSchema)
	for _, pointer := range []string{
		"/if", "/then", "/else", "/$defs/schema/properties", "/$defs/event/properties/inputSchema/properties",
		"/$defs/conversation/properties/structuredContext/properties", "/$defs/conversation/if", "/$defs/conversation/then",
		"/$defs/event/if", "/$defs/event/then", // wire.EventRules
	} {
		n.Lookup(pointer).Detach()
	}
	return form.New(n.JSON(), map[string]int{"schemas": 1, "inputSchema": 0, "payloadSchema": 0, "updateSchema": 0, "resultSchema": 0, "structuredContext": 0})
})
