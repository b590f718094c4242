package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// Schemas are what a generated package publishes, as its file mcpe.schemas.json holds it: the descriptions of
// its event types, and the schemas with each definition once, however many of them have it. Generated code
// calls the methods, whose schemas are the compact JSON that is published. The text is read when something is
// asked for first.
//
// The file is {"$defs": {KEY: schema}, "events": {NAME: {"description": …, "fingerprint": …, "inputSchema": …,
// "payloadSchema": …}}, "tasks": {NAME: {"inputSchema": …, "updateSchema": …, "resultSchema": …}}}. An event
// type also has what it does not leave at its default of "delivery", "meta", "source", "noReplay", "match"
// and "mcpe", which are the fields of [Info], and of "tool", which readtool.All reads. At the top of the schemas
// $defs and definitions may be lists: of keys, and of pairs [NAME, KEY] where a definition has another name.
type Schemas struct {
	read  func() (*schemaFile, error)
	known sync.Map // of what expand has made, by [3]string
}

type schemaFile struct {
	Defs   map[string]json.RawMessage `json:"$defs"`
	Events eventList                  `json:"events"`
	Tasks  map[string]members         `json:"tasks"`
}

// members are the texts of an object's members.
type members map[string]json.RawMessage

// An eventList has the event types with their order.
type eventList struct {
	names  []string
	events map[string]members
}

// UnmarshalJSON implements [json.Unmarshaler].
func (l *eventList) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &l.events); err != nil {
		return err
	}
	dec := jsontext.NewDecoder(bytes.NewReader(b))
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		l.names = append(l.names, name.String())
		if err := dec.SkipValue(); err != nil {
			return err
		}
	}
	return nil
}

// NewSchemas returns what the text of a mcpe.schemas.json holds.
func NewSchemas(text string) *Schemas {
	return &Schemas{read: sync.OnceValues(func() (*schemaFile, error) {
		f := new(schemaFile)
		if err := json.Unmarshal([]byte(text), f); err != nil {
			return nil, fmt.Errorf("it is no such file: %w", err)
		}
		return f, nil
	})}
}

// Events returns the names of the event types in the order of the file. It is nil when the file cannot be
// read, which registering an event type reports.
func (s *Schemas) Events() []string {
	f, err := s.read()
	if err != nil {
		return nil
	}
	return slices.Clone(f.Events.names)
}

// Describe returns the description of an event type that the file has under its name. Where it has none,
// [Info.Err] says why.
func (s *Schemas) Describe(name string) Info {
	i := Info{Name: name}
	if i.InputSchema, i.err = s.expand("events", name, "inputSchema"); i.err != nil {
		return i
	}
	if i.PayloadSchema, i.err = s.expand("events", name, "payloadSchema"); i.err != nil {
		return i
	}
	f, _ := s.read() // expand has read it
	if err := f.Events.events[name].describe(&i); err != nil {
		i.err = damaged("description", name, err)
	}
	return i
}

// describe sets what is beside the schemas.
func (m members) describe(i *Info) error {
	for _, field := range []struct {
		name string
		to   any
	}{
		{"description", &i.Description}, {"delivery", &i.Delivery}, {"fingerprint", &i.Fingerprint}, {"source", &i.Source},
		{"noReplay", &i.NoReplay}, {"match", &i.Match}, {"mcpe", &i.MCPE},
	} {
		if raw := m[field.name]; raw != nil {
			if err := json.Unmarshal(raw, field.to); err != nil {
				return fmt.Errorf("%s: %w", field.name, err)
			}
		}
	}
	if i.Fingerprint == "" {
		return errors.New("it has no fingerprint")
	}
	if m["meta"] == nil {
		return nil
	}
	// Each value stays the JSON that the author wrote.
	var meta members
	if err := json.Unmarshal(m["meta"], &meta); err != nil {
		return fmt.Errorf("meta: %w", err)
	}
	i.Meta = make(map[string]any, len(meta))
	for k, v := range meta {
		var b bytes.Buffer
		if err := json.Compact(&b, v); err != nil {
			return fmt.Errorf("meta: %w", err)
		}
		i.Meta[k] = json.RawMessage(b.Bytes())
	}
	return nil
}

// Event returns a member of an event type, such as "inputSchema" or "payloadSchema". It is nil when the file
// does not have it.
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

func damaged(member, name string, err error) error {
	return fmt.Errorf("mcpe.schemas.json is damaged (generate again): the %s of %s: %w", member, name, err)
}

// expand returns a schema that the file has, each time the same. Errors say that the file is damaged.
func (s *Schemas) expand(kind, name, member string) (json.RawMessage, error) {
	key := [3]string{kind, name, member}
	if schema, ok := s.known.Load(key); ok {
		return schema.(json.RawMessage), nil
	}
	f, err := s.read()
	if err != nil {
		return nil, damaged(member, name, err)
	}
	raw := f.Events.events[name][member]
	if kind == "tasks" {
		raw = f.Tasks[name][member]
	}
	if len(raw) == 0 {
		return nil, damaged(member, name, errors.New("it is missing"))
	}
	schema, err := f.expand(raw)
	if err != nil {
		return nil, damaged(member, name, err)
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
