package ir

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/mcpe-gen/mcpe-gen/gen/source"
)

const (
	toolPrefix    = "read_"
	maxToolName   = 64
	cursorText    = "Where to read from: the cursor of the last result. Without it reading starts now and the result carries a cursor only."
	maxEventsText = "The most occurrences to return."
)

// tool makes the descriptor of an event type's read tool; nil when one was reported.
func (b *builder) tool(e *Event, names scope) *Tool {
	t := &Tool{
		Name:   e.Schema.ToolName,
		Cursor: orElse(e.Schema.ToolCursor, "cursor"), MaxEvents: orElse(e.Schema.ToolMaxEvents, "maxEvents"),
		Description: strings.TrimSpace("Reads the next occurrences of the event type " + e.Schema.Name + ". " + e.Schema.Description),
	}
	if t.Name == "" {
		t.Name = toolPrefix + strings.Map(toolRune, e.Schema.Name)
	}
	if !b.toolName(e, t.Name, names) {
		return nil
	}
	var ok bool
	if t.InputSchema, ok = b.toolInput(e, t); !ok {
		return nil
	}
	t.OutputSchema = toolOutput(e.PayloadSchema)
	return t
}

func (b *builder) toolName(e *Event, name string, names scope) bool {
	at := e.Schema.NameRange
	if n := e.Schema.Node.Get("x-tool-name"); n != nil {
		at = n.Range
	}
	switch prev, taken := names[name]; {
	case len(name) > maxToolName:
		b.report(source.New("MCPE221", at, "the read tool's name %s has %d characters, at most %d are allowed", name, len(name), maxToolName).
			WithHint("set x-tool-name on the event"))
		return false
	case strings.Map(toolRune, name) != name:
		b.report(source.New("MCPE221", at, "the read tool's name %q has other characters than letters, digits, _ and -", name))
		return false
	case taken:
		b.report(source.New("MCPE221", at, "%s and the event %s both have the read tool %s", prev.what, e.Schema.Name, name).
			WithRelated(prev.at, "%s is here", prev.what).WithHint("set x-tool-name on one of the events"))
		return false
	}
	names[name] = declared{"the event " + e.Schema.Name, at}
	return true
}

func toolRune(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
		return r
	}
	return '_'
}

// mergedKeywords at the top of an input schema would judge the two added members as well.
var mergedKeywords = []string{
	"oneOf", "anyOf", "allOf", "not", "if", "then", "else", "const", "enum", "maxProperties", "propertyNames", "patternProperties",
	"dependentSchemas", "$dynamicRef",
}

// toolInput adds the two arguments of the tool to the published input schema.
func (b *builder) toolInput(e *Event, t *Tool) (json.RawMessage, bool) {
	schema := inlineRoot(parseObject(e.InputSchema))
	for _, k := range mergedKeywords {
		if schema.get(k) != nil {
			b.report(source.New("MCPE223", e.Schema.Input.Range, "the read tool cannot add its arguments to an inputSchema with %s at its top", k).
				WithHint("leave tools out of emit, or describe the arguments as one object"))
			return nil, false
		}
	}
	props := parseObject(schema.get("properties"))
	for _, name := range []string{t.Cursor, t.MaxEvents} {
		if props.get(name) != nil || t.Cursor == t.MaxEvents {
			at := e.Schema.NameRange
			if m := e.Schema.Input.Get("properties").Member(name); m != nil {
				at = m.KeyRange
			}
			b.report(source.New("MCPE222", at, "the read tool's argument %s is taken by inputSchema", name).
				WithHint("name others in x-tool-args: {cursor: NAME, maxEvents: NAME}"))
			return nil, false
		}
	}
	props = props.with(t.Cursor, quoted(`{"type":"string","description":`, cursorText))
	props = props.with(t.MaxEvents, quoted(`{"type":"integer","minimum":1,"description":`, maxEventsText))
	return schema.with("type", json.RawMessage(`"object"`)).with("properties", props.bytes()).bytes(), true
}

// quoted appends s as a JSON string and a closing brace.
func quoted(before, s string) json.RawMessage {
	return append(source.AppendString([]byte(before), s), '}')
}

// inlineRoot replaces a $ref at the top by what it names, so that members can be added.
func inlineRoot(schema object) object {
	for range maxAliases {
		ref := schema.get("$ref")
		if ref == nil {
			return schema
		}
		target, ok := lookup(schema.bytes(), strings.Trim(string(ref), `"`))
		if !ok {
			return schema
		}
		merged := parseObject(target)
		for _, m := range schema {
			if m.key != "$ref" {
				merged = merged.with(m.key, m.value)
			}
		}
		schema = merged
	}
	return schema
}

// lookup returns the value that a local reference such as #/$defs/Name names.
func lookup(doc json.RawMessage, ref string) (json.RawMessage, bool) {
	pointer, ok := strings.CutPrefix(ref, "#")
	tokens, valid := source.SplitPointer(pointer)
	if !ok || !valid {
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

// toolOutput describes what the tool returns: a page of occurrences with the payload as data.
func toolOutput(payload json.RawMessage) json.RawMessage {
	data := parseObject(payload)
	dialect := data.get("$schema")
	if data.get("$id") == nil {
		data = parseObject(moveRefs(data.without("$schema").bytes()))
	}
	var out object
	if dialect != nil {
		out = out.with("$schema", dialect)
	}
	occurrence := `{"type":"object","properties":{"eventId":{"type":"string"},"name":{"type":"string"},` +
		`"timestamp":{"type":"string","format":"date-time"},"data":` + string(data.bytes()) +
		`,"_meta":{"type":"object"}},"required":["eventId","name","timestamp","data"]}`
	out = out.with("type", json.RawMessage(`"object"`))
	out = out.with("properties", json.RawMessage(`{"events":{"type":"array","items":`+occurrence+`},`+
		`"cursor":{"type":["string","null"]},"truncated":{"type":"boolean"},"hasMore":{"type":"boolean"},"nextPollMs":{"type":"integer"}}`))
	return out.with("required", json.RawMessage(`["events","cursor","truncated","hasMore"]`)).bytes()
}

var (
	// byName are the keywords whose members are schemas under names of the author's choice.
	byName = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
	// plainData are the keywords whose values are no schemas.
	plainData = []string{"const", "enum", "default", "examples", "required", "type", "dependentRequired"}
)

// moveRefs rewrites local references for a schema that moves from the top of its document to
// dataPointer. A nested resource with its own $id keeps what it has.
func moveRefs(schema json.RawMessage) json.RawMessage {
	switch {
	case len(schema) > 0 && schema[0] == '[':
		var items []json.RawMessage
		if json.Unmarshal(schema, &items) != nil {
			return schema
		}
		for i := range items {
			items[i] = moveRefs(items[i])
		}
		return join('[', items, ']')
	case len(schema) == 0 || schema[0] != '{':
		return schema
	}
	obj := parseObject(schema)
	if obj.get("$id") != nil {
		return schema
	}
	for i, m := range obj {
		switch {
		case m.key == "$ref":
			var ref string
			if json.Unmarshal(m.value, &ref) == nil && (ref == "#" || strings.HasPrefix(ref, "#/")) {
				obj[i].value = source.AppendString(nil, dataPointer+ref[1:])
			}
		case slices.Contains(plainData, m.key):
		case slices.Contains(byName, m.key):
			named := parseObject(m.value)
			for j := range named {
				named[j].value = moveRefs(named[j].value)
			}
			obj[i].value = named.bytes()
		default:
			obj[i].value = moveRefs(m.value)
		}
	}
	return obj.bytes()
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}
