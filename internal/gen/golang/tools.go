package golang

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
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
	return slices.DeleteFunc(p.Events(), func(e *ir.Event) bool { return e.Tool == nil })
}

// toolsJSON returns the read tools in the format of tools/list, but with shared definitions: {"$defs": …, "tools":
// […]}. An outputSchema refers to a shared definition as #/$defs/NAME, or contains its definitions if it cannot share
// them.
func toolsJSON(p *ir.Package, o Options) ([]byte, error) {
	if !o.Tools {
		return nil, nil
	}
	shared := &toolDefs{texts: map[string]string{}, moved: map[*published.Schema]movedDefinition{}}
	var list []byte
	for i, e := range toolEvents(p) {
		if i > 0 {
			list = append(list, ',')
		}
		list = schematree.AppendString(append(list, `{"name":`...), e.Tool.Name)
		list = schematree.AppendString(append(list, `,"description":`...), toolschema.Description(e.Schema.Name, e.Schema.Description))
		list = append(append(list, `,"inputSchema":`...), e.Tool.InputSchema...)
		list = append(append(list, `,"outputSchema":`...), shared.output(e.PayloadSchema)...)
		list = append(list, `,"annotations":{"readOnlyHint":true}}`...)
	}
	out := []byte(`{"$defs":{`)
	for i, name := range shared.order {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(schematree.AppendString(out, name), ':'), shared.texts[name]...)
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
	moved map[*published.Schema]movedDefinition
}

// A movedDefinition is a definition whose references are rewritten for tools.json. unshareable reports whether the
// definition must remain in the schema.
type movedDefinition struct {
	text        string
	unshareable bool
}

// output returns the outputSchema of a tool and moves its definitions to the document. The definitions remain in the
// schema if moving them would change the meaning of a reference, or if the document has a different definition with the
// same name.
func (d *toolDefs) output(s *published.Schema) []byte {
	short, own := withoutDefinitions(s.Short())
	rest, stays := rewriteReferences(toolschema.OutputSchema(short), func(ref string) string { return ref })
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
		add(m.Name, moveDefinition(m.Value))
	}
	for _, def := range s.Definitions() {
		m, known := d.moved[def]
		if !known {
			m = moveDefinition(def.Head)
			d.moved[def] = m
		}
		add(def.Name, m)
	}
	if stays {
		return toolschema.OutputSchema(s.JSON())
	}
	for _, name := range names {
		if _, known := d.texts[name]; !known {
			d.texts[name] = here[name]
			d.order = append(d.order, name)
		}
	}
	return rest
}

// moveDefinition rewrites the references in a definition of a payloadSchema.
func moveDefinition(definition []byte) movedDefinition {
	text, stays := rewriteReferences(definition, func(ref string) string { return schematree.Moved(ref, dataPointer) })
	return movedDefinition{string(text), stays}
}

// rewriteReferences makes the references in a schema refer to definitions of the document. at adapts a reference to the
// location of the payloadSchema. stays reports whether a reference cannot be rewritten.
func rewriteReferences(schema []byte, at func(ref string) string) (moved []byte, stays bool) {
	if bytes.Contains(schema, []byte(`"$id":`)) {
		return schema, true
	}
	moved = schematree.Copy(schema, func(ref string) string {
		ref = at(ref)
		rest, local := strings.CutPrefix(ref, dataPointer+"/")
		if !local {
			return ref
		}
		for _, k := range schematree.DefinitionKeywords {
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

// withoutDefinitions splits a schema into the remaining schema and its definitions.
func withoutDefinitions(schema json.RawMessage) (rest json.RawMessage, own schematree.Members) {
	members := schematree.ParseMembers(schema)
	for _, k := range schematree.DefinitionKeywords {
		own = append(own, schematree.ParseMembers(members.Get(k))...)
		members = members.Without(k)
	}
	return members.JSON(), own
}
