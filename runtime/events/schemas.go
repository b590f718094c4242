package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Schemas are the schemas of a generated package as its file mcpe.schemas.json holds them: each
// definition once, however many schemas have it. Generated code calls the methods, whose results are the
// compact JSON that is published. The text is read when the first schema is asked for.
//
// The file is {"$defs": {KEY: schema}, "events": {NAME: {"inputSchema": …, "payloadSchema": …}}, "tasks":
// {NAME: {"inputSchema": …, "updateSchema": …, "resultSchema": …}}}. At the top of those schemas $defs and
// definitions may be lists: of keys, and of pairs [NAME, KEY] where a definition has another name.
type Schemas struct {
	read  func() (*schemaFile, error)
	known sync.Map // of what expand has made, by [3]string
}

type schemaFile struct {
	Defs   map[string]json.RawMessage            `json:"$defs"`
	Events map[string]map[string]json.RawMessage `json:"events"`
	Tasks  map[string]map[string]json.RawMessage `json:"tasks"`
}

// NewSchemas returns the schemas that the text of a mcpe.schemas.json holds.
func NewSchemas(text string) *Schemas {
	return &Schemas{read: sync.OnceValues(func() (*schemaFile, error) {
		f := new(schemaFile)
		if err := json.Unmarshal([]byte(text), f); err != nil {
			return nil, fmt.Errorf("it is no such file: %w", err)
		}
		return f, nil
	})}
}

// Describe returns a copy of the description of an event type with the two schemas that the file has under
// its name. Where it has none, [Info.Err] says why.
func (s *Schemas) Describe(t *Info) Info {
	i := *t
	if i.InputSchema, i.err = s.expand("events", i.Name, "inputSchema"); i.err == nil {
		i.PayloadSchema, i.err = s.expand("events", i.Name, "payloadSchema")
	}
	return i
}

// Event returns a schema of an event type: member is "inputSchema" or "payloadSchema". It is nil when the
// file does not have it.
func (s *Schemas) Event(name, member string) json.RawMessage {
	schema, _ := s.expand("events", name, member)
	return schema
}

// Task returns a schema of a task: member is "inputSchema", "updateSchema" or "resultSchema". It is nil
// when the file does not have it, which registering the task reports.
func (s *Schemas) Task(name, member string) json.RawMessage {
	schema, _ := s.expand("tasks", name, member)
	return schema
}

// expand returns a schema that the file has, each time the same. Errors say that the file is damaged.
func (s *Schemas) expand(kind, name, member string) (json.RawMessage, error) {
	key := [3]string{kind, name, member}
	if schema, ok := s.known.Load(key); ok {
		return schema.(json.RawMessage), nil
	}
	damaged := func(err error) error {
		return fmt.Errorf("mcpe.schemas.json is damaged (generate again): the %s of %s: %w", member, name, err)
	}
	f, err := s.read()
	if err != nil {
		return nil, damaged(err)
	}
	raw := f.Events[name][member]
	if kind == "tasks" {
		raw = f.Tasks[name][member]
	}
	if len(raw) == 0 {
		return nil, damaged(errors.New("it is missing"))
	}
	schema, err := f.expand(raw)
	if err != nil {
		return nil, damaged(err)
	}
	s.known.Store(key, schema)
	return schema, nil
}

// expand returns a schema as it is published, the lists at its top replaced by what they name.
func (f *schemaFile) expand(raw json.RawMessage) (json.RawMessage, error) {
	var out bytes.Buffer
	out.Grow(len(raw))
	if len(raw) == 0 || raw[0] != '{' {
		err := json.Compact(&out, raw)
		return out.Bytes(), err
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	out.WriteByte('{')
	for dec.PeekKind() == '"' {
		key, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(key)
		out.WriteByte(':')
		name := string(key)
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		if value.Kind() == '[' && (name == `"$defs"` || name == `"definitions"`) {
			err = f.definitions(&out, value)
		} else {
			err = json.Compact(&out, value)
		}
		if err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// definitions writes the object of the definitions that a list names.
func (f *schemaFile) definitions(out *bytes.Buffer, list []byte) error {
	var items []json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		return err
	}
	out.WriteByte('{')
	for i, item := range items {
		name, text := item, item
		if strings.HasPrefix(string(item), "[") {
			var pair [2]json.RawMessage
			if err := json.Unmarshal(item, &pair); err != nil {
				return err
			}
			name, text = pair[0], pair[1]
		}
		var key string
		if err := json.Unmarshal(text, &key); err != nil {
			return err
		}
		if f.Defs[key] == nil {
			return fmt.Errorf("no definition %q", key)
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(name)
		out.WriteByte(':')
		if err := json.Compact(out, f.Defs[key]); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}
