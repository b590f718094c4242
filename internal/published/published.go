// Package published holds the schemas of event types as they are published. Many event types share definitions: a
// [Schema] keeps each definition apart, once for all schemas that lead to it. Start with Schema; [Of] leads from an
// event type to its schemas.
package published

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// A Schema is a published schema whose definitions are kept apart. The generator makes them of event files, and
// package eventsimpl of mcpe.schemas.json; the schema of an event type that was written by hand has no definitions
// apart.
type Schema struct {
	// Name is that of a definition below $defs, or definitions in draft-07; "" for the schema of an event
	// type or a task.
	Name string
	// Head and Tail are compact JSON, with nothing or all definitions that the schema leads to between them.
	// A definition has no Tail.
	Head, Tail []byte
	// Refs are the definitions that the text itself refers to, in the order in which it does so first.
	Refs []*Schema
}

// A Description is what an events.Info has beside its exported fields.
type Description struct {
	// Input and Payload are the schemas of a generated package; nil for any other description.
	Input, Payload *Schema
	// Err tells why the schemas of a generated package could not be read: its mcpe.schemas.json was changed or does
	// not belong to its Go files. Registering the type returns it.
	Err error
}

// Of returns the Description inside of an *events.Info. Package events sets it.
var Of func(info any) *Description

// Schemas returns the two schemas of an event type whose texts are input and payload: with the definitions apart
// that other event types have too if a generated package describes them.
func (d *Description) Schemas(input, payload json.RawMessage) (in, out *Schema) {
	of := func(described *Schema, text json.RawMessage) *Schema {
		if described != nil && bytes.Equal(described.JSON(), text) {
			return described
		}
		return &Schema{Head: text} // or its holder has changed it
	}
	return of(d.Input, input), of(d.Payload, payload)
}

// Definitions are all definitions that the schema leads to, in the order in which they are published: those
// that it refers to, then those that these refer to, and so on, each once.
func (s *Schema) Definitions() []*Schema {
	if len(s.Refs) == 0 {
		return nil
	}
	all := make([]*Schema, 0, len(s.Refs))
	seen := make(map[*Schema]bool, len(s.Refs))
	add := func(refs []*Schema) {
		for _, r := range refs {
			if !seen[r] {
				seen[r] = true
				all = append(all, r)
			}
		}
	}
	add(s.Refs)
	for i := 0; i < len(all); i++ {
		add(all[i].Refs)
	}
	return all
}

// Short is the schema without the definitions that are kept apart: valid JSON whose references to them lead
// nowhere.
func (s *Schema) Short() json.RawMessage {
	return append(s.Head[:len(s.Head):len(s.Head)], s.Tail...)
}

// JSON is the schema as it is published, with all definitions that it leads to. It is written anew by each call.
func (s *Schema) JSON() json.RawMessage {
	defs := s.Definitions()
	size := len(s.Head) + len(s.Tail)
	for _, d := range defs {
		size += len(d.Name) + len(d.Head) + len(`,"":`)
	}
	out := append(make([]byte, 0, size), s.Head...)
	for _, d := range defs {
		if out[len(out)-1] != '{' {
			out = append(out, ',')
		}
		out = append(appendKey(out, d.Name), d.Head...)
	}
	return append(out, s.Tail...)
}

// appendKey appends a name as a JSON string and a colon, written as the generator writes strings.
func appendKey(out []byte, name string) []byte {
	quoted, err := jsontext.AppendQuote(out, name)
	if err != nil {
		return append(out, `"":`...) // names come out of valid JSON
	}
	return append(quoted, ':')
}
