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

// Default names of a read tool's additional arguments.
const (
	CursorArgument    = "cursor"
	MaxEventsArgument = "maxEvents"
	WaitArgument      = "waitSeconds"
	QuietArgument     = "quietSeconds"
	SinceArgument     = "since"
)

// MaxWaitSeconds is the maximum time for which a call can wait and collect. Clients commonly give up after a minute.
const MaxWaitSeconds = 55

// ArgumentNames contains the names of a read tool's additional arguments. If a name is empty, the default is used.
type ArgumentNames struct {
	Cursor    string `json:"cursor,omitempty"`
	MaxEvents string `json:"maxEvents,omitempty"`
	Wait      string `json:"wait,omitempty"`
	Quiet     string `json:"quiet,omitempty"`
	Since     string `json:"since,omitempty"`
}

// Names contains the names of a read tool and its arguments, which an author can choose. If a name is empty, the
// default is used.
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

// resolveConflicts returns the names with defaults for missing names. It omits an optional argument if the event type
// already uses its default name.
func (n ArgumentNames) resolveConflicts(input json.RawMessage) ArgumentNames {
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

// Maximum lengths of a tool's name in characters, for names that an author chooses and for default names. Clients prefix
// names, such as mcp__github__, and many refuse the result if it has more than 64 characters.
const (
	MaxName        = 64
	MaxDefaultName = 48
)

// Name returns the default name of an event type's read tool. The name is read_ followed by the event's name, with
// characters other than letters, digits, _ and - replaced by _. If the name is longer than MaxDefaultName, it is
// truncated and ends with the first 8 hexadecimal digits of the SHA-256 of the event's name.
func Name(event string) string {
	name := "read_" + strings.Map(toolRune, event)
	if len(name) <= MaxDefaultName {
		return name
	}
	sum := sha256.Sum256([]byte(event))
	end := "_" + hex.EncodeToString(sum[:4])
	return name[:MaxDefaultName-len(end)] + end
}

// ValidName reports whether name consists only of letters, digits, _ and -.
func ValidName(name string) bool { return strings.Map(toolRune, name) == name }

func toolRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '_'
}

// All returns the read tools of a generated package, in the order of its event types. An event type does not have a
// tool if its inputSchema does not allow additional arguments ([SchemaError.Keyword]). The generator reports such
// types. If the description of an event type is damaged, its tool does not have schemas, and registering the type
// returns an error.
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
		tools = append(tools, newTool(info, cmp.Or(chosen.Name, Name(event)), chosen.resolveConflicts(info.InputSchema)))
	}
	return tools
}

func hasNone(info events.Info) bool {
	var refused *SchemaError
	_, err := InputSchema(info.InputSchema, ArgumentNames{}.withDefaults())
	return errors.As(err, &refused) && refused.Keyword != ""
}

// Of returns the read tool for an event type, with default names.
func Of(info events.Info) Tool { return New(info, Name(info.Name), CursorArgument, MaxEventsArgument) }

// New returns the read tool for an event type, with the given tool name. Its arguments are named cursor, maxEvents,
// waitSeconds, quietSeconds and since. Each of the last three is omitted if the event type has an argument with that
// name. See [NewNamed].
func New(info events.Info, name, cursor, maxEvents string) Tool {
	return newTool(info, name, ArgumentNames{Cursor: cursor, MaxEvents: maxEvents}.resolveConflicts(info.InputSchema))
}

// NewNamed is like [New], but also takes the names of the additional arguments. If [InputSchema] returns an error for
// the type, the descriptor does not have an InputSchema and AddReadTools rejects it. The generator reports this
// earlier.
func NewNamed(info events.Info, name string, n ArgumentNames) Tool {
	return newTool(info, name, n.withDefaults())
}

// newTool returns a tool. It omits arguments with an empty name.
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

// An Output is an OutputSchema that is built when it is marshaled, because many tools may share its definitions.
type Output struct{ payload *published.Schema }

// MarshalJSON returns the schema.
func (o Output) MarshalJSON() ([]byte, error) { return OutputSchema(o.payload.JSON()), nil }

func outputOf(info *events.Info) any {
	if _, payload := published.Of(info).Schemas(info.InputSchema, info.PayloadSchema); len(payload.Refs) > 0 {
		return Output{payload}
	}
	return OutputSchema(info.PayloadSchema)
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
