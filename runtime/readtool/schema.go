package readtool

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

const (
	cursorText    = "The cursor of the last result; without it reading starts now."
	maxEventsText = "The most occurrences to return."
	waitText      = "How long to wait for an occurrence when there is none; by default the call returns at once."
	quietText     = "When there is an occurrence, collect what follows until nothing has come for so long, within the wait; by default the call returns at once."
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
// InputSchema replaces a top-level $ref with its target. The error is a *[SchemaError].
func InputSchema(input json.RawMessage, n ArgumentNames) (json.RawMessage, error) {
	schema := inlineRoot(parseObject(input))
	for _, k := range mergedKeywords {
		if schema.get(k) != nil {
			return nil, &SchemaError{Keyword: k}
		}
	}
	props := parseObject(schema.get("properties"))
	for i, name := range []string{n.Cursor, n.MaxEvents, n.Wait, n.Quiet, n.Since} {
		if name == "" && i >= 2 {
			continue
		}
		if props.get(name) != nil { // of the type, or a previous one
			return nil, &SchemaError{Argument: name}
		}
		props = append(props, textMember{name, argumentSchemas[i]})
	}
	return schema.withMember("type", json.RawMessage(`"object"`)).withMember("properties", props.bytes()).bytes(), nil
}

// withDescription appends s, as a JSON string, and a closing brace to before.
func withDescription(before, s string) json.RawMessage {
	return append(appendString([]byte(before), s), '}')
}

// maxRefs is the maximum length of a chain of top-level references.
const maxRefs = 100

// inlineRoot replaces a top-level $ref with its target, so that members can be added.
func inlineRoot(schema object) object {
	for range maxRefs {
		ref := schema.get("$ref")
		if ref == nil {
			return schema
		}
		target, ok := resolveReference(schema.bytes(), strings.Trim(string(ref), `"`))
		if !ok {
			return schema
		}
		merged := parseObject(target)
		for _, m := range schema {
			if m.key != "$ref" {
				merged = merged.withMember(m.key, m.value)
			}
		}
		schema = merged
	}
	return schema
}

// resolveReference returns the target of a local reference such as #/$defs/Name.
func resolveReference(doc json.RawMessage, ref string) (json.RawMessage, bool) {
	document, fragment, ok := schematree.Cut(ref)
	tokens, isPointer := wire.SplitPointer(fragment)
	if !ok || !isPointer || document != "" {
		return nil, false
	}
	for _, t := range tokens {
		if doc = parseObject(doc).get(t); doc == nil {
			return nil, false
		}
	}
	return doc, true
}

const dataPointer = "#/properties/events/items/properties/data"

// OutputSchema returns the schema of a read tool's result for a published payloadSchema. A result is a page of
// occurrences with the payload as data, and a notice about the origin of the data. OutputSchema adjusts references in
// the payload schema to its new location.
func OutputSchema(payload json.RawMessage) json.RawMessage {
	data := parseObject(payload)
	dialect := data.get("$schema")
	if data.get("$id") == nil {
		data = parseObject(schematree.Move(data.without("$schema").bytes(), dataPointer))
	}
	var out object
	if dialect != nil {
		out = out.withMember("$schema", dialect)
	}
	occurrence := `{"type":"object","properties":{"eventId":{"type":"string"},"name":{"type":"string"},` +
		`"timestamp":{"type":"string","format":"date-time"},"data":` + string(data.bytes()) +
		`,"_meta":{"type":"object"}},"required":["eventId","name","timestamp","data"]}`
	out = out.withMember("type", json.RawMessage(`"object"`))
	out = out.withMember("properties", json.RawMessage(`{"notice":{"type":"string"},"events":{"type":"array","items":`+occurrence+`},`+
		`"cursor":{"type":["string","null"]},"truncated":{"type":"boolean"},"hasMore":{"type":"boolean"},"nextPollMs":{"type":"integer"}}`))
	return out.withMember("required", json.RawMessage(`["events","cursor","truncated","hasMore"]`)).bytes()
}
