package golang

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// declareReadTools declares the function that lists all read tools of the package.
func (f *file) declareReadTools(p *ir.Package) {
	list := jen.Nil()
	if len(toolEvents(p)) > 0 {
		list = jen.Qual(readtoolPath, "All").Call(jen.Id(schemasVar))
	}
	f.addDoc("ReadTools returns the package's read tools, for server.Server.AddReadTools.")
	f.Func().Id("ReadTools").Params().Index().Qual(readtoolPath, "Tool").Block(jen.Return(list))
}

func toolEvents(p *ir.Package) []*ir.Event {
	var events []*ir.Event
	for _, f := range p.Files {
		for _, e := range f.Events {
			if e.Tool != nil {
				events = append(events, e)
			}
		}
	}
	return events
}

// toolsJSON returns the read tools in the format of tools/list, but with shared definitions: {"$defs": …, "tools":
// […]}. Schemas refer to a shared definition as #/$defs/NAME. A schema that cannot share its definitions contains them.
func toolsJSON(p *ir.Package, o Options) ([]byte, error) {
	if !o.Tools {
		return nil, nil
	}
	shared := &toolDefs{texts: map[string]string{}, moved: map[movedKey]movedDefinition{}}
	var list []byte
	for i, e := range toolEvents(p) {
		if i > 0 {
			list = append(list, ',')
		}
		names := e.Tool.ArgumentNames()
		t := readtool.NewNamed(events.Info{Name: e.Schema.Name, Description: e.Schema.Description}, e.Tool.Name, names).Tool
		list = source.AppendString(append(list, `{"name":`...), t.Name)
		list = source.AppendString(append(list, `,"description":`...), t.Description)
		list = append(append(list, `,"inputSchema":`...), shared.input(e.InputSchema, names)...)
		list = append(append(list, `,"outputSchema":`...), shared.output(e.PayloadSchema)...)
		list = append(list, `,"annotations":{"readOnlyHint":true}}`...)
	}
	out := []byte(`{"$defs":{`)
	for i, name := range shared.order {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(source.AppendString(out, name), ':'), shared.texts[name]...)
	}
	out = append(append(append(out, `},"tools":[`...), list...), "]}"...)
	return indentJSON(out), nil
}

// dataPointer is a pointer to the payloadSchema within the outputSchema of a read tool.
const dataPointer = "#/properties/events/items/properties/data"

// toolDefs collects the shared definitions of tools.json.
type toolDefs struct {
	texts map[string]string
	order []string
	moved map[movedKey]movedDefinition
}

// A movedKey identifies a definition in the schema of a tool. base is a pointer to the published schema with the
// definition.
type movedKey struct {
	d    *published.Schema
	base string
}

// A movedDefinition is a definition whose references are rewritten for tools.json. unshareable reports whether the
// definition must remain in the schema.
type movedDefinition struct {
	text        string
	unshareable bool
}

func (d *toolDefs) input(s *published.Schema, n readtool.ArgumentNames) []byte {
	of := func(schema json.RawMessage) json.RawMessage {
		out, _ := readtool.InputSchema(schema, n) // validated by the model
		return out
	}
	if bytes.HasPrefix(s.Head, []byte(`{"$ref"`)) || bytes.Contains(s.Head, []byte(`,"$ref":`)) {
		// The target may be needed and may be a definition.
		return d.shareDefinitions(&published.Schema{Head: of(s.JSON())}, func(schema json.RawMessage) json.RawMessage { return schema }, "#")
	}
	return d.shareDefinitions(s, of, "#")
}

func (d *toolDefs) output(s *published.Schema) []byte {
	return d.shareDefinitions(s, readtool.OutputSchema, dataPointer)
}

// shareDefinitions returns the schema of a tool and moves its definitions to the document. of derives the schema from a
// published schema, which is at base in the result. The definitions remain in the schema if moving them would change
// the meaning of a reference, or if the document has a different definition with the same name.
func (d *toolDefs) shareDefinitions(s *published.Schema, of func(json.RawMessage) json.RawMessage, base string) []byte {
	short, own, ok := withoutDefinitions(s.Short())
	if !ok {
		return of(s.JSON())
	}
	rest, stays := rewriteReferences(of(short), base, func(ref string) string { return ref })
	here := map[string]string{}
	var names []string
	add := func(name string, m movedDefinition) {
		// A name may occur in both $defs and definitions.
		for _, taken := range []map[string]string{d.texts, here} {
			if text, known := taken[name]; known && text != m.text {
				stays = true
			}
		}
		stays = stays || m.unshareable
		here[name] = m.text
		names = append(names, name)
	}
	for _, m := range own {
		add(m.name, moveDefinition(m.value, base))
	}
	for _, def := range s.Definitions() {
		m, known := d.moved[movedKey{def, base}]
		if !known {
			m = moveDefinition(def.Head, base)
			d.moved[movedKey{def, base}] = m
		}
		add(def.Name, m)
	}
	if stays {
		return of(s.JSON())
	}
	for _, name := range names {
		if _, known := d.texts[name]; !known {
			d.texts[name] = here[name]
			d.order = append(d.order, name)
		}
	}
	return rest
}

// moveDefinition rewrites the references in a definition whose schema is at base in the result.
func moveDefinition(definition []byte, base string) movedDefinition {
	text, stays := rewriteReferences(definition, base, func(ref string) string { return schematree.Moved(ref, base) })
	return movedDefinition{string(text), stays}
}

// rewriteReferences makes the references in a schema refer to definitions of the document. at adapts a reference to the
// schema's location at base. stays reports whether a reference cannot be rewritten.
func rewriteReferences(schema []byte, base string, at func(ref string) string) (moved []byte, stays bool) {
	if bytes.Contains(schema, []byte(`"$id":`)) {
		return schema, true
	}
	moved = schematree.Copy(schema, func(ref string) string {
		ref = at(ref)
		rest, local := strings.CutPrefix(ref, base+"/")
		if !local {
			return ref
		}
		for _, k := range definitionKeys {
			if name, ok := strings.CutPrefix(rest, k+"/"); ok {
				return "#/$defs/" + name
			}
			stays = stays || rest == k
		}
		stays = stays || strings.HasPrefix(rest, "%") // another spelling
		return ref
	})
	return moved, stays
}

var definitionKeys = []string{"$defs", "definitions"}

// withoutDefinitions splits a schema into the remaining schema and its definitions. It returns false if the schema
// cannot be parsed.
func withoutDefinitions(schema []byte) (rest []byte, own []jsonMember, ok bool) {
	if !bytes.Contains(schema, []byte(`"$defs":`)) && !bytes.Contains(schema, []byte(`"definitions":`)) {
		return schema, nil, true
	}
	members, err := membersOf(schema)
	if err != nil || members == nil {
		return schema, nil, err == nil
	}
	rest = append(make([]byte, 0, len(schema)), '{')
	for _, m := range members {
		if slices.Contains(definitionKeys, m.name) && m.value[0] == '{' {
			defs, err := membersOf(m.value)
			if err != nil {
				return schema, nil, false
			}
			own = append(own, defs...)
			continue
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, m.key...), ':'), m.value...)
	}
	return append(rest, '}'), own, true
}
