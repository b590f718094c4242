package typescript

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/model"
)

// Contents of files that are the same for all packages except for the header. All of them import events.ts.
var (
	//go:embed static/ai-sdk.ts
	aiSDKText string
	//go:embed static/client.ts
	clientText string
	//go:embed static/follow.ts
	followText string // end of client.ts
	//go:embed static/webhook.ts
	webhookText string
	//go:embed static/schemas.ts
	schemasText string
)

// adapters maps the names of optional files to functions that return their content (TS-2).
var adapters = map[string]func(p *model.Package) []byte{
	"ai-sdk":  static(aiSDKText),
	"client":  static(clientText + followText),
	"webhook": static(webhookText),
	"schemas": schemas,
}

func static(text string) func(p *model.Package) []byte {
	return func(p *model.Package) []byte {
		w := newWriter(p)
		w.out.WriteString(text)
		return w.out.Bytes()
	}
}

const draft2020 = "https://json-schema.org/draft/2020-12/schema"

// schemas returns schemas.ts. The file contains each definition once, and the schemas of each event type refer to
// definitions.
func schemas(p *model.Package) []byte {
	w := newWriter(p)
	w.line("")
	w.line("import type { EventName, Events } from './events.js';")
	w.line("")
	w.line("/** A JSON Schema. */")
	w.line("export type Schema = boolean | { readonly [keyword: string]: unknown };")
	w.line("")
	w.line("/** What the schemas refer to, each once. */")
	w.line("export const definitions: { readonly [name: string]: Schema } = {")
	for _, name := range slices.Sorted(maps.Keys(p.Defs)) {
		w.line("  %s: %s,", valueKey(name), literalValue(p.Defs[name]))
	}
	w.line("};")
	if len(p.Events) > 0 {
		w.line("")
		w.line("function schema(dialect: string, ref: string): Schema {")
		w.line("  return { $schema: dialect, $ref: ref, $defs: definitions };")
		w.line("}")
	}
	var rows []string
	for _, e := range p.Events {
		rows = append(rows, "  "+valueKey(e.Name)+": { arguments: "+w.schema(p, e.Arguments)+", payload: "+w.schema(p, e.Payload)+" },")
	}
	w.out.WriteString(strings.Replace(schemasText, "/* events */", strings.Join(rows, "\n"), 1))
	return w.out.Bytes()
}

// schema returns a call that creates the schema for a use, in the dialect of the definition.
func (w *writer) schema(p *model.Package, u model.Use) string {
	name := strings.TrimPrefix(u.Schema, "#/$defs/")
	var head struct {
		Schema string `json:"$schema"`
	}
	if err := json.Unmarshal(p.Defs[name], &head); err != nil || head.Schema == "" {
		head.Schema = draft2020
	}
	return "schema(" + quote(head.Schema) + ", " + quote(u.Schema) + ")"
}
