// Package readtool describes read tools: one MCP tool for each event type, which returns its next occurrences by cursor
// to clients that do not support events. [New] makes the descriptor of one event type, [All] those of a generated
// package, and server.Server.AddReadTools registers them.
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

// A Tool ties a tool's descriptor to the event type that it reads.
type Tool struct {
	// Event is the name of the event type.
	Event string
	// CursorArgument and MaxEventsArgument name the arguments that the tool has beside the event
	// type's own, usually "cursor" and "maxEvents".
	CursorArgument, MaxEventsArgument string
	// WaitArgument names the argument by which a call waits for an occurrence, usually "waitSeconds";
	// "" for a tool that never waits.
	WaitArgument string
	// QuietArgument names the argument by which a call that waits collects what follows the first
	// occurrence, usually "quietSeconds", and SinceArgument the one by which a call begins in the past,
	// usually "since"; "" for a tool without it.
	QuietArgument, SinceArgument string
	// Tool is the descriptor as tools/list publishes it. InputSchema holds json.RawMessage, and so does
	// OutputSchema, or an [Output] where definitions of payloadSchema are shared with other event types;
	// Annotations.ReadOnlyHint is true.
	Tool mcp.Tool
}

// The names of a read tool's own arguments where the author chooses none.
const (
	CursorArgument    = "cursor"
	MaxEventsArgument = "maxEvents"
	WaitArgument      = "waitSeconds"
	QuietArgument     = "quietSeconds"
	SinceArgument     = "since"
)

// MaxWaitSeconds is the longest that a call may ask to wait, and to collect: clients commonly give up after a minute.
const MaxWaitSeconds = 55

// ArgumentNames are the names of a read tool's own arguments; an empty one is the default.
type ArgumentNames struct {
	Cursor    string `json:"cursor,omitempty"`
	MaxEvents string `json:"maxEvents,omitempty"`
	Wait      string `json:"wait,omitempty"`
	Quiet     string `json:"quiet,omitempty"`
	Since     string `json:"since,omitempty"`
}

// Names are what an author may choose for a read tool; an empty one is the default.
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

// fitting leaves out what nobody has chosen and the event type has an argument of that name for.
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

// MaxName is the most characters that the name of a tool may have.
const MaxName = 64

// Name returns the name that the read tool of an event type has by default: read_ and the event's
// name, other characters than letters, digits, _ and - replaced by _. One that is longer than MaxName is cut, and
// ends in the first 8 hexadecimal digits of the SHA-256 of the event's name.
func Name(event string) string {
	name := "read_" + strings.Map(toolRune, event)
	if len(name) <= MaxName {
		return name
	}
	sum := sha256.Sum256([]byte(event))
	end := "_" + hex.EncodeToString(sum[:4])
	return name[:MaxName-len(end)] + end
}

// ValidName reports whether name is made of letters, digits, _ and - alone.
func ValidName(name string) bool { return strings.Map(toolRune, name) == name }

func toolRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '_'
}

// All returns the read tools of a generated package, in the order of its event types. An event type to whose arguments
// none can be added ([SchemaError.Keyword]) has no tool, as the generator says. Where the description of an event type
// is damaged its tool has no schemas, and registering the type reports it.
func All(s *eventsimpl.Schemas) []Tool {
	var tools []Tool
	for _, event := range s.Events() {
		info := s.Describe(event)
		if hasNone(info) {
			continue
		}
		var chosen Names
		if err := json.Unmarshal(s.Event(event, "tool"), &chosen); err != nil { // there is none
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

// Of returns the read tool of an event type under its default names.
func Of(info events.Info) Tool { return New(info, Name(info.Name), CursorArgument, MaxEventsArgument) }

// New returns the read tool of an event type under the given tool name, with cursor and maxEvents
// as the names of its own arguments. It waits by the argument waitSeconds, collects by quietSeconds and
// begins in the past by since, but for those of which the type has an argument of that name. See [NewNamed].
func New(info events.Info, name, cursor, maxEvents string) Tool {
	return newTool(info, name, ArgumentNames{Cursor: cursor, MaxEvents: maxEvents}.fitting(info.InputSchema))
}

// NewNamed returns the read tool of an event type under the given tool name, with the names of its own
// arguments. Where [InputSchema] refuses the type's arguments the descriptor has no InputSchema, and
// AddReadTools refuses it; the generator reports that earlier.
func NewNamed(info events.Info, name string, n ArgumentNames) Tool {
	return newTool(info, name, n.withDefaults())
}

// newTool adds no argument of which the name is empty.
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

// An Output is an OutputSchema that is written when it is marshalled, because many tools may hold the same
// definitions.
type Output struct{ payload *published.Schema }

// MarshalJSON implements [json.Marshaler].
func (o Output) MarshalJSON() ([]byte, error) { return OutputSchema(o.payload.JSON()), nil }

func outputOf(info *events.Info) any {
	if _, payload := published.Of(info).Schemas(info.InputSchema, info.PayloadSchema); len(payload.Refs) > 0 {
		return Output{payload}
	}
	return OutputSchema(info.PayloadSchema)
}

// Select returns the tools that read one of the named event types, for a server that has not
// registered all types of a package.
func Select(tools []Tool, events ...string) []Tool {
	var selected []Tool
	for _, t := range tools {
		if slices.Contains(events, t.Event) {
			selected = append(selected, t)
		}
	}
	return selected
}
