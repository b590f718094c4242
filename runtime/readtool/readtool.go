// Package readtool describes read tools for clients that do not support events. A read tool is an MCP tool that
// returns the next occurrences of one event type after a cursor. [New] returns the descriptor for one event type,
// [All] the descriptors of a generated package, and server.Server.AddReadTools registers them.
package readtool

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
	"github.com/mcpe-gen/mcpe-gen/runtime/impl/eventsimpl"
)

// A Tool is a read tool's descriptor with the event type that it reads.
type Tool struct {
	// Event is the name of the event type.
	Event string
	// CursorArgument and MaxEventsArgument name the tool's additional arguments, usually "cursor" and "maxEvents".
	CursorArgument, MaxEventsArgument string
	// WaitArgument names the argument that makes a call wait for an occurrence, usually "waitSeconds". If it is "",
	// the tool never waits.
	WaitArgument string
	// QuietArgument names the argument with which a waiting call collects further occurrences, usually "quietSeconds".
	// SinceArgument names the argument that makes a call start in the past, usually "since". If one is "", the tool
	// has no such argument.
	QuietArgument, SinceArgument string
	// Tool is the descriptor for tools/list. InputSchema holds a json.RawMessage. OutputSchema holds a
	// json.RawMessage, or an [Output] if payloadSchema shares definitions with other event types.
	// Annotations.ReadOnlyHint is true.
	Tool mcp.Tool
}

// Default names of a read tool's additional arguments.
const (
	CursorArgument    = "cursor"
	MaxEventsArgument = "maxEvents"
	WaitArgument      = "waitSeconds"
	QuietArgument     = "quietSeconds"
	SinceArgument     = "since"
)

// MaxWaitSeconds bounds the time for which a call may wait and collect. Clients commonly give up after a minute.
const MaxWaitSeconds = 55

// ArgumentNames holds the names of a read tool's additional arguments; an empty name means the default.
type ArgumentNames struct {
	Cursor    string `json:"cursor,omitempty"`
	MaxEvents string `json:"maxEvents,omitempty"`
	Wait      string `json:"wait,omitempty"`
	Quiet     string `json:"quiet,omitempty"`
	Since     string `json:"since,omitempty"`
}

// Names holds the names that an author may choose for a read tool; an empty name means the default.
type Names struct {
	Name string `json:"name,omitempty"`
	ArgumentNames
}

func (n ArgumentNames) withDefaults() ArgumentNames {
	return ArgumentNames{
		Cursor:    cmp.Or(n.Cursor, CursorArgument),
		MaxEvents: cmp.Or(n.MaxEvents, MaxEventsArgument),
		Wait:      cmp.Or(n.Wait, WaitArgument),
		Quiet:     cmp.Or(n.Quiet, QuietArgument),
		Since:     cmp.Or(n.Since, SinceArgument),
	}
}

// fitting returns the names with defaults. It omits an optional argument whose default name the event type already
// uses.
func (n ArgumentNames) fitting(input json.RawMessage) ArgumentNames {
	all := n.withDefaults()
	for {
		var refused *SchemaError
		_, err := InputSchema(input, all)
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

// MaxName is the maximum length of a tool's name in characters.
const MaxName = 64

// Name returns the default name of an event type's read tool. The name is read_ followed by the event's name, with
// characters other than letters, digits, _ and - replaced by _. A name longer than MaxName is truncated and ends in
// the first 8 hexadecimal digits of the SHA-256 of the event's name.
func Name(event string) string {
	name := "read_" + strings.Map(toolRune, event)
	if len(name) <= MaxName {
		return name
	}
	sum := sha256.Sum256([]byte(event))
	end := "_" + hex.EncodeToString(sum[:4])
	return name[:MaxName-len(end)] + end
}

// ValidName reports whether name consists only of letters, digits, _ and -.
func ValidName(name string) bool { return strings.Map(toolRune, name) == name }

func toolRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '_'
}

// All returns the read tools of a generated package, in the order of its event types. An event type whose inputSchema
// cannot take further arguments ([SchemaError.Keyword]) has no tool; the generator reports it. If the description of
// an event type is damaged, its tool has no schemas, and registering the type reports the damage.
func All(s *eventsimpl.Schemas) []Tool {
	var tools []Tool
	for _, event := range s.Events() {
		info := s.Describe(event)
		if hasNone(info) {
			continue
		}
		var chosen Names
		if err := json.Unmarshal(s.Event(event, "tool"), &chosen); err != nil { // no names were chosen
			tools = append(tools, Of(info))
			continue
		}
		tools = append(tools, newTool(info, cmp.Or(chosen.Name, Name(event)), chosen.fitting(info.InputSchema)))
	}
	return tools
}

func hasNone(info events.Info) bool {
	var refused *SchemaError
	_, err := InputSchema(info.InputSchema, ArgumentNames{}.withDefaults())
	return errors.As(err, &refused) && refused.Keyword != ""
}

// Of returns the read tool of an event type with default names.
func Of(info events.Info) Tool { return New(info, Name(info.Name), CursorArgument, MaxEventsArgument) }

// New returns the read tool of an event type with the given tool name. The names of its arguments are cursor,
// maxEvents, waitSeconds, quietSeconds and since; it omits each of the last three if the event type has an argument of
// that name. See [NewNamed].
func New(info events.Info, name, cursor, maxEvents string) Tool {
	return newTool(info, name, ArgumentNames{Cursor: cursor, MaxEvents: maxEvents}.fitting(info.InputSchema))
}

// NewNamed is like [New] with names for all additional arguments. If [InputSchema] returns an error for the type, the
// descriptor has no InputSchema and AddReadTools rejects it; the generator reports this earlier.
func NewNamed(info events.Info, name string, n ArgumentNames) Tool {
	return newTool(info, name, n.withDefaults())
}

// newTool returns a tool without the arguments whose names are empty.
func newTool(info events.Info, name string, n ArgumentNames) Tool {
	t := Tool{Event: info.Name, CursorArgument: n.Cursor, MaxEventsArgument: n.MaxEvents, WaitArgument: n.Wait,
		QuietArgument: n.Quiet, SinceArgument: n.Since, Tool: mcp.Tool{
			Name:         name,
			Description:  strings.TrimSpace("Reads the next occurrences of the event type " + info.Name + ". " + info.Description),
			OutputSchema: outputOf(&info),
			Annotations:  &mcp.ToolAnnotations{ReadOnlyHint: true},
		}}
	if input, err := InputSchema(info.InputSchema, n); err == nil {
		t.Tool.InputSchema = input
	}
	return t
}

// An Output is an OutputSchema that is built on marshalling, because many tools may share its definitions.
type Output struct{ payload *published.Schema }

// MarshalJSON returns the schema.
func (o Output) MarshalJSON() ([]byte, error) { return OutputSchema(o.payload.JSON()), nil }

func outputOf(info *events.Info) any {
	if _, payload := published.Of(info).Schemas(info.InputSchema, info.PayloadSchema); len(payload.Refs) > 0 {
		return Output{payload}
	}
	return OutputSchema(info.PayloadSchema)
}

// Select returns the tools that read one of the named event types. Use it for a server that has not registered all
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
