// Package readtool describes read tools for clients that do not support events. A read tool is an MCP tool that
// returns the next occurrences of one event type after a cursor. [New] returns the descriptor for one event type,
// [All] the descriptors of a generated package, and server.Server.AddReadTools registers them.
package readtool

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/toolschema"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// A Tool is the descriptor of a read tool, together with the name of its event type.
type Tool struct {
	// Event is the name of the event type.
	Event string
	// CursorArgument and MaxEventsArgument are the names of the tool's additional arguments, usually "cursor" and
	// "maxEvents".
	CursorArgument, MaxEventsArgument string
	// WaitArgument is the name of the argument that makes a call wait for an occurrence, usually "waitSeconds". If it
	// is empty, the tool never waits.
	WaitArgument string
	// QuietArgument is the name of the argument that makes a waiting call collect further occurrences, usually
	// "quietSeconds". SinceArgument is the name of the argument that makes a call start in the past, usually "since".
	// If a name is empty, the tool does not have the argument.
	QuietArgument, SinceArgument string
	// Tool is the descriptor for tools/list. InputSchema is a json.RawMessage. OutputSchema is a json.RawMessage, or an
	// [Output] if payloadSchema shares definitions with other event types. Annotations.ReadOnlyHint is true.
	Tool mcp.Tool
}

// resolveConflicts returns the names with defaults for missing names. It omits an optional argument if the event type
// already uses its default name.
func resolveConflicts(n toolschema.ArgumentNames, input json.RawMessage) toolschema.ArgumentNames {
	all := n.WithDefaults()
	for {
		var refused *toolschema.SchemaError
		_, err := toolschema.InputSchema(input, all)
		if !errors.As(err, &refused) || refused.Argument == "" {
			return all
		}
		switch taken := refused.Argument; {
		case taken == all.Wait && n.Wait == "":
			all.Wait, all.Quiet = "", ""
		case taken == all.Quiet && n.Quiet == "":
			all.Quiet = ""
		case taken == all.Since && n.Since == "":
			all.Since = ""
		default:
			return all
		}
	}
}

// All returns the read tools of a generated package, in the order of its event types. An event type does not have a
// tool if its inputSchema does not allow additional arguments. The generator reports such types. If the description of
// an event type is damaged, its tool does not have schemas, and registering the type returns an error.
func All(s *eventsimpl.Schemas) []Tool {
	var tools []Tool
	for _, event := range s.Events() {
		info := s.Describe(event)
		if !toolschema.IsExtensible(info.InputSchema) {
			continue
		}
		var chosen toolschema.Names
		_ = json.Unmarshal(s.Event(event, "tool"), &chosen) // empty if no names were chosen
		tools = append(tools, newTool(info, cmp.Or(chosen.Name, toolschema.Name(event)), chosen.ArgumentNames))
	}
	return tools
}

// Of returns the read tool for an event type, with default names.
func Of(info events.Info) Tool { return New(info, toolschema.Name(info.Name), "", "") }

// New returns the read tool for an event type, with the given tool name. Its arguments are named cursor, maxEvents,
// waitSeconds, quietSeconds and since. Each of the last three is omitted if the event type has an argument with that
// name. If inputSchema has an argument with the name cursor or maxEvents, or does not allow additional arguments, the
// descriptor does not have an InputSchema and AddReadTools rejects it. The generator reports this earlier.
func New(info events.Info, name, cursor, maxEvents string) Tool {
	return newTool(info, name, toolschema.ArgumentNames{Cursor: cursor, MaxEvents: maxEvents})
}

// newTool returns a tool. Names that are empty have their default, or are omitted if the event type uses it.
func newTool(info events.Info, name string, n toolschema.ArgumentNames) Tool {
	n = resolveConflicts(n, info.InputSchema)
	t := Tool{Event: info.Name, CursorArgument: n.Cursor, MaxEventsArgument: n.MaxEvents, WaitArgument: n.Wait,
		QuietArgument: n.Quiet, SinceArgument: n.Since, Tool: mcp.Tool{
			Name:         name,
			Description:  toolschema.Description(info.Name, info.Description),
			OutputSchema: outputOf(&info),
			Annotations:  &mcp.ToolAnnotations{ReadOnlyHint: true},
		}}
	if input, err := toolschema.InputSchema(info.InputSchema, n); err == nil {
		t.Tool.InputSchema = input
	}
	return t
}

// An Output is an OutputSchema that is built when it is marshaled, because many tools may share its definitions.
type Output struct{ payload *published.Schema }

// MarshalJSON returns the schema.
func (o Output) MarshalJSON() ([]byte, error) { return toolschema.OutputSchema(o.payload.JSON()), nil }

func outputOf(info *events.Info) any {
	if _, payload := published.Of(info).Schemas(info.InputSchema, info.PayloadSchema); len(payload.Refs) > 0 {
		return Output{payload}
	}
	return toolschema.OutputSchema(info.PayloadSchema)
}

// Select returns the tools that read one of the named event types. Use it for a server that does not register all event
// types of a package.
func Select(tools []Tool, events ...string) []Tool {
	var selected []Tool
	for _, t := range tools {
		if slices.Contains(events, t.Event) {
			selected = append(selected, t)
		}
	}
	return selected
}
