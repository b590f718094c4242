package readtool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	cursorText    = "The cursor of the last result; without it reading starts now."
	maxEventsText = "The most occurrences to return."
	waitText      = "How long to wait for an occurrence when there is none; by default the call returns at once."
	quietText     = "When there is an occurrence, collect what follows until nothing has come for so long, within the wait; by default the call returns at once."
	sinceText     = "Begin in the past: a duration such as 10m or an RFC 3339 date-time. Not with a cursor."
)

// arguments are the schemas of a read tool's own arguments: those of cursor, maxEvents, wait, quiet and since.
var arguments = func() []json.RawMessage {
	const text = `{"type":["string","null"],"description":`
	seconds := `{"type":"integer","minimum":0,"maximum":` + strconv.Itoa(MaxWaitSeconds) + `,"description":`
	return []json.RawMessage{
		described(text, cursorText),
		described(`{"type":"integer","minimum":1,"description":`, maxEventsText),
		described(seconds, waitText),
		described(seconds, quietText),
		described(text, sinceText),
	}
}()

// A SchemaError tells why an event type's inputSchema cannot take the arguments of a read tool.
type SchemaError struct {
	// Argument is the name of an argument that the inputSchema already has.
	Argument string
	// Keyword is a keyword at the top of the inputSchema that would judge the added arguments too.
	Keyword string
}

// Error names the argument or the keyword.
func (e *SchemaError) Error() string {
	if e.Argument != "" {
		return fmt.Sprintf("the read tool's argument %s is taken by inputSchema", e.Argument)
	}
	return fmt.Sprintf("the read tool cannot add its arguments to an inputSchema with %s at its top", e.Keyword)
}

// mergedKeywords at the top of an input schema would judge the added members as well.
var mergedKeywords = []string{
	"oneOf", "anyOf", "allOf", "not", "if", "then", "else", "const", "enum", "maxProperties", "propertyNames", "patternProperties",
	"dependentSchemas", "$dynamicRef",
}

// InputSchema returns an event type's published inputSchema with the arguments of a read tool: a cursor,
// string or null, a number of events, at least 1, and, unless their names are empty, how many seconds to wait, for how
// many nothing may follow, and since when to read. A $ref at its top is replaced by what it names. The error is a
// *[SchemaError].
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
		if props.get(name) != nil { // the type's, or the one before
			return nil, &SchemaError{Argument: name}
		}
		props = append(props, textMember{name, arguments[i]})
	}
	return schema.with("type", json.RawMessage(`"object"`)).with("properties", props.bytes()).bytes(), nil
}

// described appends s as a JSON string and a closing brace.
func described(before, s string) json.RawMessage {
	return append(appendString([]byte(before), s), '}')
}

// maxRefs bounds chains of references at the top of a schema.
const maxRefs = 100

// inlineRoot replaces a $ref at the top by what it names, so that members can be added.
func inlineRoot(schema object) object {
	for range maxRefs {
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

// unescape reads a token of a JSON Pointer in a URI fragment as published schemas write it.
var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// lookup returns the value that a local reference such as #/$defs/Name names.
func lookup(doc json.RawMessage, ref string) (json.RawMessage, bool) {
	pointer, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil, false
	}
	for _, t := range strings.Split(pointer, "/") {
		if doc = parseObject(doc).get(unescape.Replace(t)); doc == nil {
			return nil, false
		}
	}
	return doc, true
}

const dataPointer = "#/properties/events/items/properties/data"

// OutputSchema describes what a read tool returns for a published payloadSchema: a page of
// occurrences, the payload as data, and a notice about whose words that is. References within the payload are moved to its new place.
func OutputSchema(payload json.RawMessage) json.RawMessage {
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
	out = out.with("properties", json.RawMessage(`{"notice":{"type":"string"},"events":{"type":"array","items":`+occurrence+`},`+
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
// dataPointer.
func moveRefs(schema json.RawMessage) json.RawMessage {
	return RewriteRefs(schema, func(ref string) string {
		if ref == "#" || strings.HasPrefix(ref, "#/") {
			return dataPointer + ref[1:]
		}
		return ref
	})
}

// RewriteRefs returns a compact schema with each reference of it, by $ref and in the mapping of a
// discriminator, as to gives it. Data such as the value of const stays, and so does a nested resource with
// an $id of its own. What is not JSON stays as it is. The generator calls it too.
func RewriteRefs(schema json.RawMessage, to func(ref string) string) json.RawMessage {
	if !mayRefer(schema) {
		return schema
	}
	f := refFinder{dec: newDecoder(schema)}
	if f.schema() != nil {
		return schema
	}
	out, from := make([]byte, 0, len(schema)+32*len(f.found)), 0
	for _, r := range f.found {
		if now := to(r.ref); now != r.ref {
			out = appendString(append(out, schema[from:r.start]...), now)
			from = r.end
		}
	}
	if from == 0 {
		return schema
	}
	return append(out, schema[from:]...)
}

// mayRefer reports whether a reference can be in schema, whose names may be written with escapes.
func mayRefer(schema []byte) bool {
	return bytes.Contains(schema, []byte(`"$ref"`)) || bytes.Contains(schema, []byte(`"mapping"`)) || bytes.Contains(schema, []byte(`\u`))
}

// A refFinder walks a schema once and collects its references in the order of the text.
type refFinder struct {
	dec   *jsontext.Decoder
	name  []byte // of the member that was met last, for members
	found []placedRef
}

// A placedRef is a reference and where its JSON string stands.
type placedRef struct {
	ref        string
	start, end int
}

// schema reads a schema or a list of schemas. What else there is has no references.
func (f *refFinder) schema() error {
	if f.dec.PeekKind() == '[' {
		return f.list()
	}
	before, resource := len(f.found), false
	err := f.members(func(name []byte) error {
		switch k := string(name); {
		case k == "$ref":
			return f.ref()
		case k == "$id":
			resource = true
		case k == "discriminator":
			return f.discriminator()
		case slices.Contains(byName, k):
			return f.members(func([]byte) error { return f.schema() })
		case !slices.Contains(plainData, k):
			return f.schema()
		}
		return f.dec.SkipValue()
	})
	if resource {
		f.found = f.found[:before]
	}
	return err
}

func (f *refFinder) list() error {
	if _, err := f.dec.ReadToken(); err != nil {
		return err
	}
	for f.dec.PeekKind() != ']' {
		if err := f.schema(); err != nil {
			return err
		}
	}
	_, err := f.dec.ReadToken()
	return err
}

// members calls read at the value of each member of an object, and passes over any other value. The name is good
// until read reads on.
func (f *refFinder) members(read func(name []byte) error) error {
	if f.dec.PeekKind() != '{' {
		return f.dec.SkipValue()
	}
	if _, err := f.dec.ReadToken(); err != nil {
		return err
	}
	for f.dec.PeekKind() == '"' {
		key, err := f.dec.ReadValue()
		if err != nil {
			return err
		}
		if f.name, err = jsontext.AppendUnquote(f.name[:0], key); err != nil {
			return err
		}
		if err := read(f.name); err != nil {
			return err
		}
	}
	_, err := f.dec.ReadToken()
	return err
}

// discriminator reads OpenAPI's keyword, the values of whose mapping are references.
func (f *refFinder) discriminator() error {
	return f.members(func(name []byte) error {
		if string(name) != "mapping" {
			return f.dec.SkipValue()
		}
		return f.members(func([]byte) error { return f.ref() })
	})
}

// ref reads a reference; what is not a string is none.
func (f *refFinder) ref() error {
	raw, err := f.dec.ReadValue()
	if err != nil || raw.Kind() != '"' {
		return err
	}
	ref, err := jsontext.AppendUnquote(nil, raw)
	end := int(f.dec.InputOffset())
	f.found = append(f.found, placedRef{string(ref), end - len(raw), end})
	return err
}
