package events

import (
	"bytes"
	"encoding/json"
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
	read func() (*schemaFile, error)
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
			return nil, fmt.Errorf("mcpe.schemas.json is damaged: %w", err)
		}
		return f, nil
	})}
}

// Event returns a schema of an event type: member is "inputSchema" or "payloadSchema". It is nil when the
// file does not have it, which registering the type reports.
func (s *Schemas) Event(name, member string) json.RawMessage {
	return s.expand(func(f *schemaFile) json.RawMessage { return f.Events[name][member] })
}

// Task returns a schema of a task: member is "inputSchema", "updateSchema" or "resultSchema". It is nil
// when the file does not have it.
func (s *Schemas) Task(name, member string) json.RawMessage {
	return s.expand(func(f *schemaFile) json.RawMessage { return f.Tasks[name][member] })
}

func (s *Schemas) expand(get func(*schemaFile) json.RawMessage) json.RawMessage {
	f, err := s.read()
	if err != nil {
		return nil
	}
	schema, err := f.expand(get(f))
	if err != nil {
		return nil
	}
	return schema
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
