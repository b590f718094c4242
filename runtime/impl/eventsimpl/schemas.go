package eventsimpl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/runtime/events"
)

// Schemas provides the content of a generated package's mcpe.schemas.json file. The file contains the descriptions of
// the package's event types and their schemas. Shared definitions are stored only once. Generated code calls the
// methods, which return schemas as published, in compact JSON. The first call parses the text.
//
// The format of the file is {"$defs": {KEY: schema}, "refs": {KEY: [definition, …]}, "events": {NAME: {"description":
// …, "fingerprint": …, "inputSchema": …, "payloadSchema": …}}, "tasks": {NAME: {"inputSchema": …, "updateSchema": …,
// "resultSchema": …}}}. An event type also contains those of the following members whose values differ from the
// default: "delivery", "meta", "source", "noReplay", "match" and "mcpe", which are fields of [events.Info], "private",
// which describes the private members, and "tool", which readtool.All reads.
//
// At the top level of a schema, $defs or definitions can be a list. The list contains the definitions to which the
// schema refers, in order. An object with the schema's private definitions can precede them. "refs" lists the
// definitions that each definition refers to. All reachable definitions are published. An item of a list is a KEY, or
// [NAME, KEY] if the definition has a different name in the published schemas.
type Schemas struct {
	read func() (*schemaFile, error)
}

type schemaFile struct {
	Defs   map[string]json.RawMessage `json:"$defs"`
	Refs   map[string]json.RawMessage `json:"refs"`
	Events eventList                  `json:"events"`
	Tasks  map[string]rawMembers      `json:"tasks"`

	mu    sync.Mutex
	known map[[2]string]*published.Schema // definitions by name and key
	tops  map[[3]string]*published.Schema // by kind, name and member
}

// rawMembers maps the names of an object's members to the JSON text of their values.
type rawMembers map[string]json.RawMessage

// An eventList contains the event types and their order.
type eventList struct {
	names  []string
	events map[string]rawMembers
}

// UnmarshalJSON decodes the event types and records their order.
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

// NewSchemas returns the schemas in text, which is the content of a mcpe.schemas.json file.
func NewSchemas(text string) *Schemas {
	return &Schemas{read: sync.OnceValues(func() (*schemaFile, error) {
		f := &schemaFile{known: map[[2]string]*published.Schema{}, tops: map[[3]string]*published.Schema{}}
		if err := json.Unmarshal([]byte(text), f); err != nil {
			return nil, fmt.Errorf("it is not such a file: %w", err)
		}
		return f, nil
	})}
}

// Events returns the names of the event types in the order of the file. It returns nil if the file is damaged. In that
// case, registering an event type returns an error.
func (s *Schemas) Events() []string {
	f, err := s.read()
	if err != nil {
		return nil
	}
	return slices.Clone(f.Events.names)
}

// Describe returns the description of the named event type. If the description is missing or damaged, registering the
// event type returns an error.
func (s *Schemas) Describe(name string) events.Info {
	i := events.Info{Name: name}
	d := published.Of(&i)
	var err error
	if d.Input, err = s.cachedSchema("events", name, "inputSchema"); err == nil {
		d.Payload, err = s.cachedSchema("events", name, "payloadSchema")
	}
	if err != nil {
		*d = published.Description{Err: err}
		return i
	}
	i.InputSchema, i.PayloadSchema = d.Input.JSON(), d.Payload.JSON()
	f, _ := s.read() // cachedSchema has read it
	if err := f.Events.events[name].describe(&i); err != nil {
		d.Err = damaged("description", name, err)
	}
	return i
}

// describe sets all fields of i except the schemas.
func (m rawMembers) describe(i *events.Info) error {
	for _, field := range []struct {
		name string
		to   any
	}{
		{"description", &i.Description}, {"delivery", &i.Delivery}, {"fingerprint", &i.Fingerprint}, {"source", &i.Source},
		{"noReplay", &i.NoReplay}, {"match", &i.Match}, {"mcpe", &i.MCPE}, {"private", &published.Of(i).Private},
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
	// Keep each value as the JSON written by the author.
	var meta rawMembers
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

// Event returns a member of an event type, such as "inputSchema" or "payloadSchema". It returns nil if the file does
// not contain the member. Each call builds the schema.
func (s *Schemas) Event(name, member string) json.RawMessage { return s.text("events", name, member) }

// Task returns a schema of a task. member is "inputSchema", "updateSchema" or "resultSchema". Task returns nil if the
// file does not contain the schema. In that case, registering the task returns an error.
func (s *Schemas) Task(name, member string) json.RawMessage { return s.text("tasks", name, member) }

func (s *Schemas) text(kind, name, member string) json.RawMessage {
	schema, err := s.cachedSchema(kind, name, member)
	if err != nil {
		return nil
	}
	return schema.JSON()
}

func damaged(member, name string, err error) error {
	return fmt.Errorf("mcpe.schemas.json is damaged (generate again): the %s of %s: %w", member, name, err)
}

// cachedSchema returns a schema from the file. It returns the same pointer for the same arguments. An error means that
// the file is damaged.
func (s *Schemas) cachedSchema(kind, name, member string) (*published.Schema, error) {
	f, err := s.read()
	if err != nil {
		return nil, damaged(member, name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	key := [3]string{kind, name, member}
	if schema := f.tops[key]; schema != nil {
		return schema, nil
	}
	raw := f.Events.events[name][member]
	if kind == "tasks" {
		raw = f.Tasks[name][member]
	}
	if len(raw) == 0 {
		return nil, damaged(member, name, errors.New("it is missing"))
	}
	schema, err := f.parseTopLevel(raw)
	if err != nil {
		clear(f.known) // forget definitions that refer to the damaged one
		return nil, damaged(member, name, err)
	}
	f.tops[key] = schema
	return schema, nil
}

// parseTopLevel parses a top-level schema, which belongs to an event type or a task.
func (f *schemaFile) parseTopLevel(raw json.RawMessage) (*published.Schema, error) {
	var out bytes.Buffer
	out.Grow(len(raw))
	s := new(published.Schema)
	if raw[0] != '{' {
		err := json.Compact(&out, raw)
		s.Head = out.Bytes()
		return s, err
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	cut := -1
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
		if cut < 0 && value.Kind() == '[' && (name == `"$defs"` || name == `"definitions"`) {
			var own json.RawMessage
			if s.Refs, own, err = f.parseDefinitions(json.RawMessage(value)); err == nil {
				err = json.Compact(&out, own)
				out.Truncate(out.Len() - len("}"))
				cut = out.Len()
				out.WriteByte('}')
			}
		} else {
			err = json.Compact(&out, value)
		}
		if err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	s.Head = out.Bytes()
	if cut >= 0 {
		s.Head, s.Tail = s.Head[:cut:cut], s.Head[cut:]
	}
	return s, nil
}

// parseDefinitions parses a list of references to definitions, and the object with private definitions that can precede
// them.
func (f *schemaFile) parseDefinitions(raw json.RawMessage) (refs []*published.Schema, own json.RawMessage, err error) {
	var items []json.RawMessage
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, nil, err
	}
	own = json.RawMessage("{}")
	if len(items) > 0 && items[0][0] == '{' {
		own, items = items[0], items[1:]
	}
	for _, item := range items {
		var pair [2]string
		if item[0] == '[' {
			err = json.Unmarshal(item, &pair)
		} else if err = json.Unmarshal(item, &pair[0]); err == nil {
			pair[1] = pair[0]
		}
		if err != nil {
			return nil, nil, err
		}
		d, err := f.definition(pair)
		if err != nil {
			return nil, nil, err
		}
		refs = append(refs, d)
	}
	return refs, own, nil
}

// definition returns the definition with a name and key, together with all definitions to which it refers.
func (f *schemaFile) definition(pair [2]string) (*published.Schema, error) {
	if d := f.known[pair]; d != nil {
		return d, nil
	}
	if f.Defs[pair[1]] == nil {
		return nil, fmt.Errorf("no definition %q", pair[1])
	}
	var text bytes.Buffer
	text.Grow(len(f.Defs[pair[1]]))
	if err := json.Compact(&text, f.Defs[pair[1]]); err != nil {
		return nil, err
	}
	d := &published.Schema{Name: pair[0], Head: text.Bytes()}
	f.known[pair] = d // before its references, which may refer back to it
	if list := f.Refs[pair[1]]; list != nil {
		refs, _, err := f.parseDefinitions(list)
		if err != nil {
			return nil, err
		}
		d.Refs = refs
	}
	return d, nil
}
