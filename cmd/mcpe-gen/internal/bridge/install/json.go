package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// serversKey is the name of the member that contains the servers.
const serversKey = "mcpServers"

// editJSON adds a bridge to a JSON file.
func editJSON(f *file, e Entry) ([]byte, string, error) {
	command, args := quoted(e.Command), quoted(e.Args)
	if len(bytes.TrimSpace(f.text)) == 0 {
		f = &file{path: f.path, text: []byte("{\n}\n")}
	}
	if err := f.validate(); err != nil {
		return nil, "", err
	}
	root, err := f.parseObject(0, len(f.text), "the configuration")
	if err != nil {
		return nil, "", err
	}
	servers := root.memberWithKey(serversKey)
	if servers == nil {
		entry := newEntry(command, args)
		return f.setMember(root, serversKey, tree{{e.Name, entry}}), preview(serversKey, tree{{e.Name, entry}}), nil
	}
	list, err := f.parseObject(servers.start, servers.end, serversKey)
	if err != nil {
		return nil, "", err
	}
	there := list.memberWithKey(e.Name)
	if there == nil {
		entry := newEntry(command, args)
		return f.setMember(list, e.Name, entry), preview(serversKey, tree{{e.Name, entry}}), nil
	}
	entry, err := f.parseObject(there.start, there.end, e.Name)
	if err != nil {
		return nil, "", err
	}
	had, err := decodeJSON(f.text[entry.start:entry.end])
	if err != nil {
		return nil, "", err
	}
	if !e.isBridge(had) {
		return nil, "", f.errTaken(e.Name)
	}
	// Edit from the end so that earlier offsets remain valid.
	changed := *f
	for _, m := range []struct{ key, value string }{{"args", args}, {"command", command}} {
		entry, err := changed.parseObject(there.start, there.end+len(changed.text)-len(f.text), e.Name)
		if err != nil {
			return nil, "", err
		}
		changed.text = changed.setMember(entry, m.key, m.value)
	}
	return changed.text, preview(serversKey, tree{{e.Name, tree{{"command", command}, {"args", args}}}}), nil
}

// decodeJSON returns the content of a JSON file. White space is an empty object.
func decodeJSON(text []byte) (map[string]any, error) {
	root := map[string]any{}
	if len(bytes.TrimSpace(text)) == 0 {
		return root, nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return root, dec.Decode(&root)
}

func newEntry(command, args string) tree {
	return tree{{"type", quoted("stdio")}, {"command", command}, {"args", args}}
}

// quoted returns v as JSON.
func quoted(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // v has only strings
	}
	return strings.TrimSpace(b.String())
}

// A tree is a JSON object to write. Its members are trees or JSON text.
type tree []branch

type branch struct {
	key   string
	value any // a tree, or a string with JSON
}

// render returns a value with indented lines. If unit is empty, the value is on a single line.
func render(v any, newline, indent, unit string) string {
	t, ok := v.(tree)
	if !ok {
		return v.(string)
	}
	var parts []string
	space := " "
	if unit == "" {
		space = ""
	}
	for _, m := range t {
		parts = append(parts, quoted(m.key)+":"+space+render(m.value, newline, indent+unit, unit))
	}
	if unit == "" {
		return "{" + strings.Join(parts, ",") + "}"
	}
	inner := newline + indent + unit
	return "{" + inner + strings.Join(parts, ","+inner) + newline + indent + "}"
}

// preview formats a change for display.
func preview(key string, v any) string { return quoted(key) + ": " + render(v, "\n", "", "  ") + "\n" }

// An object is a JSON object in a file with the positions of its members.
type object struct {
	start, end int
	members    []member
}

type member struct {
	key string
	// at is the start of the key. start and end delimit the value.
	at, start, end int
}

// memberWithKey returns the member with the given key, or nil.
func (o *object) memberWithKey(key string) *member {
	i := slices.IndexFunc(o.members, func(m member) bool { return m.key == key })
	if i < 0 {
		return nil
	}
	return &o.members[i]
}

// validate returns an error unless the file contains valid JSON.
func (f *file) validate() error {
	var raw json.RawMessage
	err := json.Unmarshal(f.text, &raw)
	bad, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return err
	}
	offset := int(bad.Offset) - 1
	if strings.Contains(bad.Error(), "unexpected end") {
		offset = len(f.text)
	}
	return f.errorAt(offset, "this is not JSON: %v; nothing was written", err)
}

// parseObject parses the object between start and end, which must be valid JSON.
func (f *file) parseObject(start, end int, what string) (*object, error) {
	dec := json.NewDecoder(bytes.NewReader(f.text[start:end]))
	first, err := dec.Token()
	if err != nil {
		return nil, err
	}
	o := &object{start: start + int(dec.InputOffset()) - 1}
	if first != json.Delim('{') {
		return nil, f.errorAt(start, "%s must be a JSON object", what)
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string)
		after := start + int(dec.InputOffset())
		m := member{key: key, at: start + bytes.LastIndexByte(f.text[start:after-1], '"')}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		m.end = start + int(dec.InputOffset())
		m.start = m.end - len(raw)
		if o.memberWithKey(key) != nil {
			return nil, f.errorAt(m.at, "%s has %q twice", what, key)
		}
		o.members = append(o.members, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	o.end = start + int(dec.InputOffset())
	return o, nil
}

// setMember sets a member of an object and preserves the rest of the file.
func (f *file) setMember(o *object, key string, value any) []byte {
	unit, newline := f.indentUnit(), f.newline()
	if m := o.memberWithKey(key); m != nil {
		text := render(value, newline, f.indentOf(m.start), unit)
		if isSameJSON(f.text[m.start:m.end], text) {
			return f.text
		}
		return f.replace(m.start, m.end, text)
	}
	if n := len(o.members); n > 0 {
		last := o.members[n-1]
		// The new member starts a line if the first member does.
		before := f.text[o.start+1 : o.members[0].at]
		lead := newline + f.indentOf(o.members[0].at)
		if !bytes.ContainsRune(before, '\n') {
			lead = " "
			if unit == "" {
				lead = ""
			}
			unit = ""
		}
		return f.replace(last.end, last.end, ","+lead+f.pair(key, value, newline, strings.TrimLeft(lead, "\r\n"), unit))
	}
	indent := f.indentOf(o.start)
	if unit == "" {
		return f.replace(o.start, o.end, "{"+f.pair(key, value, newline, "", "")+"}")
	}
	return f.replace(o.start, o.end, "{"+newline+indent+unit+f.pair(key, value, newline, indent+unit, unit)+newline+indent+"}")
}

func (f *file) pair(key string, value any, newline, indent, unit string) string {
	colon := ": "
	if unit == "" {
		colon = ":"
	}
	return quoted(key) + colon + render(value, newline, indent, unit)
}

func (f *file) replace(start, end int, text string) []byte {
	return slices.Concat(f.text[:start], []byte(text), f.text[end:])
}

// indentOf returns the indentation of the line that contains an offset.
func (f *file) indentOf(offset int) string {
	line := f.text[bytes.LastIndexByte(f.text[:offset], '\n')+1:]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// indentUnit returns the indentation of one level in the file, or "" if the file has only one line.
func (f *file) indentUnit() string {
	if !bytes.ContainsRune(bytes.TrimSpace(f.text), '\n') {
		return ""
	}
	for line := range bytes.Lines(f.text) {
		if rest := bytes.TrimLeft(line, " \t"); len(rest) < len(line) && len(bytes.TrimSpace(rest)) > 0 {
			return string(line[:len(line)-len(rest)])
		}
	}
	return "  "
}

// isSameJSON reports whether two texts encode the same JSON value.
func isSameJSON(a []byte, b string) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal([]byte(b), &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}
