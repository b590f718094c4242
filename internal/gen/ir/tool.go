package ir

import (
	"errors"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
)

// readTool returns the read tool of an event type. If the event type cannot have a read tool, it reports the reason and
// returns nil.
func (b *builder) readTool(e *Event, names scope) *Tool {
	t := &Tool{Names: e.Schema.ToolNames()}
	if !b.checkToolArguments(e, t) {
		return nil
	}
	if full := len("read_") + len(e.Schema.Name); e.Schema.Tool.Name == "" && full > toolschema.MaxDefaultName {
		b.report(source.New("MCPE224", e.Schema.NameRange, "the read tool is called %s: read_ and the event's name have %d characters, and a default name at most %d", t.Name, full, toolschema.MaxDefaultName).
			WithHint("choose a name with x-tool-name"))
	}
	if !b.toolName(e, t.Name, names) {
		return nil
	}
	return t
}

// checkToolArguments adds the tool's arguments to the inputSchema. If this is not possible, it returns false and reports
// a diagnostic.
func (b *builder) checkToolArguments(e *Event, t *Tool) bool {
	var err error
	t.InputSchema, err = toolschema.InputSchema(e.InputSchema.JSON(), t.ArgumentNames)
	var refused *toolschema.SchemaError
	switch {
	case !errors.As(err, &refused):
		return true
	case refused.Argument != "":
		at := e.Schema.NameRange
		if m := e.Schema.Input.Get("properties").Member(refused.Argument); m != nil {
			at = m.KeyRange
		}
		b.report(source.New("MCPE222", at, "%s", refused).
			WithHint("name others in x-tool-args: {cursor: NAME, maxEvents: NAME, waitSeconds: NAME, quietSeconds: NAME, since: NAME}"))
	default:
		b.report(source.New("MCPE223", e.Schema.Input.Range, "%s", refused).
			WithHint("the event type is generated without a read tool and can be read by events_wait; describe the arguments as one object for one"))
	}
	return false
}

func (b *builder) toolName(e *Event, name string, names scope) bool {
	at := e.Schema.NameRange
	if n := e.Schema.Node.Get("x-tool-name"); n != nil {
		at = n.Range
	}
	switch prev, taken := names[name]; {
	case len(name) > toolschema.MaxName:
		b.report(source.New("MCPE221", at, "the read tool's name %s has %d characters, at most %d are allowed", name, len(name), toolschema.MaxName).
			WithHint("set x-tool-name on the event, or leave tools out: --emit server,client"))
		return false
	case !toolschema.ValidName(name):
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
