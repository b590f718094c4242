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

// Schemas are what a generated package publishes, as its file mcpe.schemas.json holds it: the descriptions of
// its event types, and the schemas with each definition once, however many of them have it. Generated code
// calls the methods, whose schemas are the compact JSON that is published. The text is read when something is
// asked for first.
//
// The file is {"$defs": {KEY: schema}, "refs": {KEY: [definition, …]}, "events": {NAME: {"description": …,
// "fingerprint": …, "inputSchema": …, "payloadSchema": …}}, "tasks": {NAME: {"inputSchema": …, "updateSchema": …,
// "resultSchema": …}}}. An event type also has what it does not leave at its default of "delivery", "meta", "source",
// "noReplay", "match" and "mcpe", which are the fields of [events.Info], and of "tool", which readtool.All reads.
//
// At the top of a schema $defs or definitions may be a list: of the definitions that the schema itself refers to, in
// that order, behind an object of those that it has of its own, if any. Each definition lists in "refs" those that it
// refers to in turn, unless there are none, and all that are reached so are published. A definition is written as
// its KEY, or as [NAME, KEY] where it has another name in the schemas that are published.
type Schemas struct {
	read func() (*schemaFile, error)
}

type schemaFile struct {
	Defs   map[string]json.RawMessage `json:"$defs"`
	Refs   map[string]json.RawMessage `json:"refs"`
	Events eventList                  `json:"events"`
	Tasks  map[string]members         `json:"tasks"`

	mu    sync.Mutex
	known map[[2]string]*published.Schema // the definitions by name and key
	tops  map[[3]string]*published.Schema // by kind, name and member
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
		f := &schemaFile{known: map[[2]string]*published.Schema{}, tops: map[[3]string]*published.Schema{}}
		if err := json.Unmarshal([]byte(text), f); err != nil {
			return nil, fmt.Errorf("it is not such a file: %w", err)
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

// Describe returns the description of an event type that the file has under its name. Where it has none, registering
// the event type says why.
func (s *Schemas) Describe(name string) events.Info {
	i := events.Info{Name: name}
	d := published.Of(&i)
	var err error
	if d.Input, err = s.shared("events", name, "inputSchema"); err == nil {
		d.Payload, err = s.shared("events", name, "payloadSchema")
	}
	if err != nil {
		*d = published.Description{Err: err}
		return i
	}
	i.InputSchema, i.PayloadSchema = d.Input.JSON(), d.Payload.JSON()
	f, _ := s.read() // shared has read it
	if err := f.Events.events[name].describe(&i); err != nil {
		d.Err = damaged("description", name, err)
	}
	return i
}

// describe sets what is beside the schemas.
func (m members) describe(i *events.Info) error {
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
// does not have it. A schema is written out anew by each call.
func (s *Schemas) Event(name, member string) json.RawMessage { return s.text("events", name, member) }

// Task returns a schema of a task: member is "inputSchema", "updateSchema" or "resultSchema". It is nil
// when the file does not have it, which registering the task reports.
func (s *Schemas) Task(name, member string) json.RawMessage { return s.text("tasks", name, member) }

func (s *Schemas) text(kind, name, member string) json.RawMessage {
	schema, err := s.shared(kind, name, member)
	if err != nil {
		return nil
	}
	return schema.JSON()
}

func damaged(member, name string, err error) error {
	return fmt.Errorf("mcpe.schemas.json is damaged (generate again): the %s of %s: %w", member, name, err)
}

// shared returns a schema that the file has, each time the same. Errors say that the file is damaged.
func (s *Schemas) shared(kind, name, member string) (*published.Schema, error) {
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
	schema, err := f.top(raw)
	if err != nil {
		clear(f.known) // what was read of definitions that lead to the damaged one
		return nil, damaged(member, name, err)
	}
	f.tops[key] = schema
	return schema, nil
}

// top reads a schema of an event type or a task.
func (f *schemaFile) top(raw json.RawMessage) (*published.Schema, error) {
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
			if s.Refs, own, err = f.list(json.RawMessage(value)); err == nil {
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

// list reads a list of definitions, and the object before them.
func (f *schemaFile) list(raw json.RawMessage) (refs []*published.Schema, own json.RawMessage, err error) {
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

// definition returns a definition by its name and key, with all that it leads to.
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
	f.known[pair] = d // before what it refers to, which may refer to it
	if list := f.Refs[pair[1]]; list != nil {
		refs, _, err := f.list(list)
		if err != nil {
			return nil, err
		}
		d.Refs = refs
	}
	return d, nil
}
