package golang

import (
	"bytes"
	"encoding/json"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

func toolFunc(e *ir.Event) string { return "Read" + e.Prefix + "Tool" }

// readTool writes the function that returns an event type's read tool.
func (w *writer) readTool(e *ir.Event) {
	t := e.Tool
	w.add(
		comment(toolFunc(e)+" describes the tool "+t.Name+", which reads the next occurrences of "+e.Schema.Name+" by cursor."),
		jen.Func().Id(toolFunc(e)).Params().Qual(readtoolPath, "Tool").Block(
			jen.Return(jen.Qual(readtoolPath, "Tool").Add(lines([]jen.Code{
				jen.Id("Event").Op(":").Add(text(e.Schema.Name)),
				jen.Id("CursorArgument").Op(":").Add(text(t.Cursor)),
				jen.Id("MaxEventsArgument").Op(":").Add(text(t.MaxEvents)),
				jen.Id("Tool").Op(":").Qual(mcpPath, "Tool").Add(lines([]jen.Code{
					jen.Id("Name").Op(":").Add(text(t.Name)),
					jen.Id("Description").Op(":").Add(text(t.Description)),
					jen.Id("InputSchema").Op(":").Add(rawJSON(t.InputSchema)),
					jen.Id("OutputSchema").Op(":").Add(rawJSON(t.OutputSchema)),
					jen.Id("Annotations").Op(":").Op("&").Qual(mcpPath, "ToolAnnotations").Values(jen.Id("ReadOnlyHint").Op(":").True()),
				})),
			})))))
}

// readTools writes the list of all read tools of the package.
func (w *writer) readTools(p *ir.Package) {
	var calls []jen.Code
	for _, e := range toolEvents(p) {
		calls = append(calls, jen.Id(toolFunc(e)).Call())
	}
	list := jen.Nil()
	if len(calls) > 0 {
		list = jen.Index().Qual(readtoolPath, "Tool").Add(lines(calls))
	}
	w.add(comment("ReadTools returns the read tools of the package's event types, for server.Server.AddReadTools."),
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

// toolsJSON is the same list as tools/list would publish it.
func toolsJSON(p *ir.Package) ([]byte, error) {
	compact := []byte{'['}
	for i, e := range toolEvents(p) {
		if i > 0 {
			compact = append(compact, ',')
		}
		t := e.Tool
		compact = source.AppendString(append(compact, `{"name":`...), t.Name)
		compact = source.AppendString(append(compact, `,"description":`...), t.Description)
		compact = append(append(compact, `,"inputSchema":`...), t.InputSchema...)
		compact = append(append(compact, `,"outputSchema":`...), t.OutputSchema...)
		compact = append(compact, `,"annotations":{"readOnlyHint":true}}`...)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, append(compact, ']'), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
