package golang

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
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
	shared := &toolDefs{texts: map[string]string{}}
	var list []byte
	for i, e := range toolEvents(p) {
		if i > 0 {
			list = append(list, ',')
		}
		t := e.Tool.Tool
		input, _ := t.InputSchema.(json.RawMessage)
		output, _ := t.OutputSchema.(json.RawMessage)
		list = source.AppendString(append(list, `{"name":`...), t.Name)
		list = source.AppendString(append(list, `,"description":`...), t.Description)
		list = append(append(list, `,"inputSchema":`...), shared.hoist(input, "#")...)
		list = append(append(list, `,"outputSchema":`...), shared.hoist(output, "#"+dataPath, strings.Split(dataPath, "/")[1:]...)...)
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
}

// hoist moves the definitions of the schema at path, whose pointer is base, to those of the document. The
// schema stays as it is where that would change what a reference means, and where a name has another
// definition there already.
func (d *toolDefs) hoist(schema json.RawMessage, base string, path ...string) []byte {
	if bytes.Contains(schema, []byte(`"$id":`)) {
		return schema
	}
	stays := false
	moved := readtool.RewriteRefs(schema, func(ref string) string {
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
	if stays {
		return schema
	}
	var found []jsonMember
	rest, ok := without(moved, &found, path...)
	if !ok {
		return schema
	}
	own := map[string]string{}
	for _, m := range found {
		text := string(m.value)
		if t, taken := d.texts[m.name]; taken && t != text {
			return schema
		}
		if t, taken := own[m.name]; taken && t != text {
			return schema // once in $defs and once in definitions
		}
		own[m.name] = text
	}
	for _, m := range found {
		if _, known := d.texts[m.name]; !known {
			d.texts[m.name] = string(m.value)
			d.order = append(d.order, m.name)
		}
	}
	return rest
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
