package ir

import (
	"errors"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/readtool"
)

const maxToolName = 64

// tool names an event type's read tool; nil when something was reported about it.
func (b *builder) tool(e *Event, names scope) *Tool {
	t := &Tool{
		Cursor:    orElse(e.Schema.ToolCursor, readtool.CursorArgument),
		MaxEvents: orElse(e.Schema.ToolMaxEvents, readtool.MaxEventsArgument),
		Wait:      orElse(e.Schema.ToolWait, readtool.WaitArgument),
		Custom: e.Schema.ToolName != "" || e.Schema.ToolCursor != "" || e.Schema.ToolMaxEvents != "" ||
			e.Schema.ToolWait != "",
	}
	name := orElse(e.Schema.ToolName, readtool.Name(e.Schema.Name))
	if !b.toolName(e, name, names) || !b.toolArguments(e, t) {
		return nil
	}
	t.Tool.Name = name
	return t
}

// describeTool completes the descriptor of a read tool that has its name.
func describeTool(e *Event) {
	if t := e.Tool; t != nil {
		t.Tool = readtool.NewNamed(events.Info{
			Name: e.Schema.Name, Description: e.Schema.Description, InputSchema: e.InputSchema, PayloadSchema: e.PayloadSchema,
		}, t.Tool.Name, t.names()).Tool
	}
}

func (t *Tool) names() readtool.ArgumentNames {
	return readtool.ArgumentNames{Cursor: t.Cursor, MaxEvents: t.MaxEvents, Wait: t.Wait}
}

// toolArguments reports an inputSchema that the tool cannot add its own arguments to.
func (b *builder) toolArguments(e *Event, t *Tool) bool {
	_, err := readtool.InputSchema(e.InputSchema, t.names())
	var refused *readtool.SchemaError
	switch {
	case !errors.As(err, &refused):
		return true
	case refused.Argument != "":
		at := e.Schema.NameRange
		if m := e.Schema.Input.Get("properties").Member(refused.Argument); m != nil {
			at = m.KeyRange
		}
		b.report(source.New("MCPE222", at, "%s", refused).
			WithHint("name others in x-tool-args: {cursor: NAME, maxEvents: NAME, waitSeconds: NAME}"))
	default:
		b.report(source.New("MCPE223", e.Schema.Input.Range, "%s", refused).
			WithHint("leave tools out of emit, or describe the arguments as one object"))
	}
	return false
}

func (b *builder) toolName(e *Event, name string, names scope) bool {
	at := e.Schema.NameRange
	if n := e.Schema.Node.Get("x-tool-name"); n != nil {
		at = n.Range
	}
	switch prev, taken := names[name]; {
	case len(name) > maxToolName:
		b.report(source.New("MCPE221", at, "the read tool's name %s has %d characters, at most %d are allowed", name, len(name), maxToolName).
			WithHint("set x-tool-name on the event, or leave tools out: --emit server,client"))
		return false
	case !readtool.ValidName(name):
		b.report(source.New("MCPE221", at, "the read tool's name %q has other characters than letters, digits, _ and -", name).
			WithHint("set x-tool-name on the event, or leave tools out: --emit server,client"))
		return false
	case taken:
		b.report(source.New("MCPE221", at, "%s and the event %s both have the read tool %s", prev.what, e.Schema.Name, name).
			WithRelated(prev.at, "%s is here", prev.what).WithHint("set x-tool-name on one of the events, or leave tools out: --emit server,client"))
		return false
	}
	names[name] = declared{"the event " + e.Schema.Name, at}
	return true
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
