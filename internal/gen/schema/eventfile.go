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
		"/if", "/then", "/else", "/$defs/conversation/if", "/$defs/conversation/then",
		"/$defs/event/if", "/$defs/event/then", // wire.EventRules
	} {
		n.Lookup(pointer).Detach()
	}
	return form.New(n.JSON(), map[string]int{"schemas": 1, "inputSchema": 0, "payloadSchema": 0, "updateSchema": 0, "resultSchema": 0, "structuredContext": 0})
})

// keywordForm returns the form of the keywords of a schema that JSON Schema does not define.
var keywordForm = sync.OnceValue(func() *form.Form { return eventFileForm().Part("/$defs/keywords") })

// keywordFaults returns the faults of the form of a keyword.
func keywordFaults(m *source.Member) []source.Diagnostic {
	return keywordForm().Check(&source.Node{Kind: source.Object, Members: []source.Member{*m}})
}
