// Package toolschema makes the names and schemas of read tools, which are MCP tools for clients that do not support
// events (package readtool). The generator and the runtime share it, so it does not import the MCP SDK.
package toolschema

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
)

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

// WithDefaults returns the names with the default for each missing one.
func (n ArgumentNames) WithDefaults() ArgumentNames {
	return ArgumentNames{
		Cursor:    cmp.Or(n.Cursor, CursorArgument),
		MaxEvents: cmp.Or(n.MaxEvents, MaxEventsArgument),
		Wait:      cmp.Or(n.Wait, WaitArgument),
		Quiet:     cmp.Or(n.Quiet, QuietArgument),
		Since:     cmp.Or(n.Since, SinceArgument),
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

// Description returns the description of an event type's read tool.
func Description(event, description string) string {
	return strings.TrimSpace("Reads the next occurrences of the event type " + event + ". " + description)
}

const (
	cursorText    = "The cursor of the last result; without it reading starts now."
	maxEventsText = "The most occurrences to return."
	waitText      = "How long to wait for an occurrence when there is none" + atOnce
	quietText     = "When there is an occurrence, collect what follows until nothing has come for so long, within the wait" + atOnce
	atOnce        = "; by default the call returns at once."
	sinceText     = "Begin in the past: a duration such as 10m or an RFC 3339 date-time. Not with a cursor."
)

// argumentSchemas lists the schemas of a read tool's additional arguments: cursor, maxEvents, wait, quiet and since.
var argumentSchemas = func() []json.RawMessage {
	const text = `{"type":["string","null"],"description":`
	seconds := `{"type":"integer","minimum":0,"maximum":` + strconv.Itoa(MaxWaitSeconds) + `,"description":`
	return []json.RawMessage{
		withDescription(text, cursorText),
		withDescription(`{"type":"integer","minimum":1,"description":`, maxEventsText),
		withDescription(seconds, waitText),
		withDescription(seconds, quietText),
		withDescription(text, sinceText),
	}
}()

// A SchemaError reports why the arguments of a read tool cannot be added to an event type's inputSchema.
type SchemaError struct {
	// Argument is the name of an argument that the inputSchema already has.
	Argument string
	// Keyword is a top-level keyword of the inputSchema that would also affect the added arguments.
	Keyword string
}

// Error returns a message that contains the argument or the keyword.
func (e *SchemaError) Error() string {
	if e.Argument != "" {
		return fmt.Sprintf("the read tool's argument %s is taken by inputSchema", e.Argument)
	}
	return fmt.Sprintf("the read tool cannot add its arguments to an inputSchema with %s at its top", e.Keyword)
}

// mergedKeywords lists the top-level keywords of an input schema that would also affect the added members.
var mergedKeywords = []string{
	"oneOf", "anyOf", "allOf", "not", "if", "then", "else", "const", "enum", "maxProperties", "propertyNames", "patternProperties",
	"dependentSchemas", "$dynamicRef",
}

// InputSchema returns an event type's published inputSchema with the arguments of a read tool added. The arguments are
// the cursor (string or null) and the maximum number of events (at least 1). The other arguments are added unless their
// names are empty. They are the seconds to wait, the quiet seconds that end a collection, and the start in the past.
// The references of inputSchema are replaced by their targets, because some MCP clients do not support them in a tool.
// References within a recursive schema, and those of a schema that would have more than 64 KiB, remain. The error is a
// *[SchemaError].
func InputSchema(input json.RawMessage, n ArgumentNames) (json.RawMessage, error) {
	schema := schematree.ParseMembers(schematree.Inline(input))
	for _, k := range mergedKeywords {
		if schema.Get(k) != nil {
			return nil, &SchemaError{Keyword: k}
		}
	}
	props := schematree.ParseMembers(schema.Get("properties"))
	for i, name := range []string{n.Cursor, n.MaxEvents, n.Wait, n.Quiet, n.Since} {
		if name == "" && i >= 2 {
			continue
		}
		if props.Get(name) != nil { // of the type, or a previous one
			return nil, &SchemaError{Argument: name}
		}
		props = append(props, schematree.Property{Name: name, Value: argumentSchemas[i]})
	}
	return schema.With("type", json.RawMessage(`"object"`)).With("properties", props.JSON()).JSON(), nil
}

// IsExtensible reports whether an inputSchema allows the arguments of a read tool, apart from their names.
func IsExtensible(input json.RawMessage) bool {
	schema := schematree.ParseMembers(schematree.Inline(input))
	return !slices.ContainsFunc(mergedKeywords, func(k string) bool { return schema.Get(k) != nil })
}

// withDescription appends s, as a JSON string, and a closing brace to before.
func withDescription(before, s string) json.RawMessage {
	return append(schematree.AppendString([]byte(before), s), '}')
}

const dataPointer = "#/properties/events/items/properties/data"

// OutputSchema returns the schema of a read tool's result for a published payloadSchema. A result is a page of
// occurrences with the payload as data, and a notice about the origin of the data. OutputSchema adjusts references in
// the payload schema to its new location.
func OutputSchema(payload json.RawMessage) json.RawMessage {
	data := schematree.ParseMembers(payload)
	dialect := data.Get("$schema")
	if data.Get("$id") == nil {
		data = schematree.ParseMembers(schematree.Move(data.Without("$schema").JSON(), dataPointer))
	}
	var out schematree.Members
	if dialect != nil {
		out = out.With("$schema", dialect)
	}
	occurrence := `{"type":"object","properties":{"eventId":{"type":"string"},"name":{"type":"string"},` +
		`"timestamp":{"type":"string","format":"date-time"},"data":` + string(data.JSON()) +
		`,"_meta":{"type":"object"}},"required":["eventId","name","timestamp","data"]}`
	out = out.With("type", json.RawMessage(`"object"`))
	out = out.With("properties", json.RawMessage(`{"notice":{"type":"string"},"events":{"type":"array","items":`+occurrence+`},`+
		`"cursor":{"type":["string","null"]},"truncated":{"type":"boolean"},"hasMore":{"type":"boolean"},"nextPollMs":{"type":"integer"}}`))
	return out.With("required", json.RawMessage(`["events","cursor","truncated","hasMore"]`)).JSON()
}
