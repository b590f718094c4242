// Package published represents the published schemas of event types. Many event types share definitions, so a [Schema]
// stores its definitions separately. All schemas that refer to a definition share it. Start with Schema. [Of] returns
// the schemas of an event type.
package published

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// A Schema is a published schema with separate definitions. The generator builds it from event files, and package
// eventsimpl reads it from mcpe.schemas.json. The schema of a handwritten event type does not have separate
// definitions.
type Schema struct {
	// Name is the name of a definition below $defs, or definitions in draft-07. It is "" for the schema of an event
	// type or a task.
	Name string
	// Head and Tail are compact JSON. Any reachable definitions are inserted between them. A definition has no Tail.
	Head, Tail []byte
	// Refs lists the definitions that the text itself refers to, in order of first reference.
	Refs []*Schema
}

// A Description is the unexported part of an events.Info.
type Description struct {
	// Input and Payload are the schemas of a generated package. They are nil in any other description.
	Input, Payload *Schema
	// Private describes the payload members with x-private, or is nil.
	Private Private
	// Err is the error from reading the schemas of a generated package. It means that mcpe.schemas.json was changed or
	// does not match the Go files. Registering the type returns it.
	Err error
}

// Of returns the Description of an *events.Info. Package events sets it.
var Of func(info any) *Description

// Schemas returns the two schemas of an event type, with the texts input and payload. If they come from a generated
// package, they share definitions with other event types.
func (d *Description) Schemas(input, payload json.RawMessage) (in, out *Schema) {
	of := func(described *Schema, text json.RawMessage) *Schema {
		if described != nil && bytes.Equal(described.JSON(), text) {
			return described
		}
		return &Schema{Head: text} // or the caller changed it
	}
	return of(d.Input, input), of(d.Payload, payload)
}

// Definitions returns all definitions reachable from the schema, without duplicates and in publication order. The order
// is breadth-first: the definitions that the schema refers to, the definitions that those refer to, and so on.
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

// Short returns the schema without its definitions. The result is valid JSON, but its references to definitions do not
// resolve.
func (s *Schema) Short() json.RawMessage {
	return append(s.Head[:len(s.Head):len(s.Head)], s.Tail...)
}

// JSON returns the published schema with all reachable definitions. Each call builds a new value.
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

// appendKey appends a name as a JSON string and a colon, escaped like the generator's output.
func appendKey(out []byte, name string) []byte {
	quoted, err := jsontext.AppendQuote(out, name)
	if err != nil {
		return append(out, `"":`...) // names come from valid JSON
	}
	return append(quoted, ':')
}
