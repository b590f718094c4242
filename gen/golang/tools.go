package golang

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

// readTools writes the function that lists all read tools of the package.
func (w *writer) readTools(p *ir.Package) {
	list := jen.Nil()
	if len(toolEvents(p)) > 0 {
		list = jen.Qual(readtoolPath, "All").Call(jen.Id(schemasVar))
	}
	w.add(comment("ReadTools returns the package's read tools, for server.Server.AddReadTools."),
		jen.Func().Id("ReadTools").Params().Index().Qual(readtoolPath, "Tool").Block(jen.Return(list)))
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

// toolsJSON is the same list as tools/list would publish it, but for definitions: {"$defs": …, "tools": […]}.
// A schema that has definitions in $defs of the document refers to them as #/$defs/NAME and holds none
// itself; one that cannot share them holds all of its own.
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
	return indented(out), nil
}

// dataPath is where a read tool's outputSchema has the payloadSchema, with its definitions.
const dataPath = "/properties/events/items/properties/data"

// toolDefs are the definitions that the schemas of tools.json share, by name.
type toolDefs struct {
	texts map[string]string
	order []string
	moved map[movedKey]movedDefinition
}

// A movedKey is a definition in the schema of a tool where the pointer of the schema with it is base.
type movedKey struct {
	d    *published.Schema
	base string
}

// A movedDefinition is one as it is among those of the document; stays tells that it cannot be there.
type movedDefinition struct {
	text  string
	stays bool
}

func (d *toolDefs) input(s *published.Schema, n readtool.ArgumentNames) []byte {
	of := func(schema json.RawMessage) json.RawMessage {
		out, _ := readtool.InputSchema(schema, n) // which the model has checked
		return out
	}
	defs := s.Definitions()
	if bytes.HasPrefix(s.Head, []byte(`{"$ref"`)) || bytes.Contains(s.Head, []byte(`,"$ref":`)) {
		s, defs = &published.Schema{Head: s.JSON()}, nil // of which the target may be needed
	}
	return d.hoist(s, defs, of, "#")
}

func (d *toolDefs) output(s *published.Schema) []byte {
	return d.hoist(s, s.Definitions(), readtool.OutputSchema, "#"+dataPath, strings.Split(dataPath, "/")[1:]...)
}

// hoist returns the schema of a tool, as of makes it of a published one. Definitions at path, whose pointer is
// base, become those of the document. They stay where that would change what a reference means, and where a name
// has another definition there already.
func (d *toolDefs) hoist(s *published.Schema, defs []*published.Schema, of func(json.RawMessage) json.RawMessage, base string, path ...string) []byte {
	moved, stays := move(of(s.Short()), base, func(ref string) string { return ref })
	for _, def := range defs {
		m, known := d.moved[movedKey{def, base}]
		if !known {
			// As of moves the schema that they are in.
			text, stay := move(def.Head, base, func(ref string) string {
				if ref == "#" || strings.HasPrefix(ref, "#/") {
					return base + ref[1:]
				}
				return ref
			})
			m = movedDefinition{string(text), stay}
			d.moved[movedKey{def, base}] = m
		}
		stays = stays || m.stays
	}
	var found []jsonMember
	rest, ok := without(moved, &found, path...)
	if stays || !ok {
		return of(s.JSON())
	}
	own := map[string]string{}
	add := func(name, text string) bool {
		if t, taken := d.texts[name]; taken && t != text {
			return false
		}
		if t, taken := own[name]; taken && t != text {
			return false // once in $defs and once in definitions
		}
		own[name] = text
		return true
	}
	var names []string
	for _, m := range found {
		ok = ok && add(m.name, string(m.value))
		names = append(names, m.name)
	}
	for _, def := range defs {
		ok = ok && add(def.Name, d.moved[movedKey{def, base}].text)
		names = append(names, def.Name)
	}
	if !ok {
		return of(s.JSON())
	}
	for _, name := range names {
		if _, known := d.texts[name]; !known {
			d.texts[name] = own[name]
			d.order = append(d.order, name)
		}
	}
	return rest
}

// move leads the references of a schema, as at gives them, to definitions of the document; stays tells that they
// cannot all be led there.
func move(schema []byte, base string, at func(ref string) string) (moved []byte, stays bool) {
	if bytes.Contains(schema, []byte(`"$id":`)) {
		return schema, true
	}
	moved = readtool.RewriteRefs(schema, func(ref string) string {
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

// without returns raw with the definitions of the object at path taken out into found; false where there
// is no such object.
func without(raw []byte, found *[]jsonMember, path ...string) ([]byte, bool) {
	members, err := membersOf(raw)
	if err != nil || members == nil {
		return raw, len(path) == 0 && err == nil
	}
	out, ok := []byte{'{'}, len(path) == 0
	for _, m := range members {
		value := []byte(m.value)
		switch {
		case len(path) > 0 && m.name == path[0]:
			if value, ok = without(value, found, path[1:]...); !ok {
				return raw, false
			}
		case len(path) == 0 && slices.Contains(definitionKeys, m.name) && value[0] == '{':
			defs, err := membersOf(value)
			if err != nil {
				return raw, false
			}
			*found = append(*found, defs...)
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, m.key...), ':'), value...)
	}
	return append(out, '}'), ok
}
