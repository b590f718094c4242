package golang

import (
	"bytes"
	"encoding/json"

	"github.com/dave/jennifer/jen"

	"github.com/mcpe-gen/mcpe-gen/gen/ir"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

// readTools writes the list of all read tools of the package.
func (w *writer) readTools(p *ir.Package) {
	var calls []jen.Code
	for _, e := range toolEvents(p) {
		info := jen.Id(typeVar(e)).Call()
		if e.Tool.Custom {
			calls = append(calls, jen.Qual(readtoolPath, "New").Call(info, text(e.Tool.Tool.Name), text(e.Tool.Cursor), text(e.Tool.MaxEvents)))
		} else {
			calls = append(calls, jen.Qual(readtoolPath, "Of").Call(info))
		}
	}
	list := jen.Nil()
	if len(calls) > 0 {
		list = jen.Index().Qual(readtoolPath, "Tool").Add(lines(calls))
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

// toolsJSON is the same list as tools/list would publish it.
func toolsJSON(p *ir.Package) ([]byte, error) {
	compact := []byte{'['}
	for i, e := range toolEvents(p) {
		if i > 0 {
			compact = append(compact, ',')
		}
		t := e.Tool.Tool
		input, _ := t.InputSchema.(json.RawMessage)
		output, _ := t.OutputSchema.(json.RawMessage)
		compact = source.AppendString(append(compact, `{"name":`...), t.Name)
		compact = source.AppendString(append(compact, `,"description":`...), t.Description)
		compact = append(append(compact, `,"inputSchema":`...), input...)
		compact = append(append(compact, `,"outputSchema":`...), output...)
		compact = append(compact, `,"annotations":{"readOnlyHint":true}}`...)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, append(compact, ']'), "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
