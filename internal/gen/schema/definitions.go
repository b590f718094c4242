package schema

import (
	"encoding/json"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/wire"
)

// Definitions collects schemas for a document that contains each schema only once. Every referenced schema becomes an
// entry of the document, and each $ref becomes a pointer to an entry (MODEL-1).
type Definitions struct {
	set   *Set
	names map[*source.Node]string
	taken map[string]bool
	queue []*source.Node
}

// Definitions returns an empty document.
func (s *Set) Definitions() *Definitions {
	return &Definitions{set: s, names: make(map[*source.Node]string), taken: make(map[string]bool)}
}

// Add adds the schema n as an entry of the document. It appends a number to the name if the name is taken.
func (d *Definitions) Add(n *source.Node, name string) {
	d.names[n] = source.UniqueName(name, "_", d.taken)
	d.queue = append(d.queue, n)
}

// Pointer returns the value of a $ref to n. If n is not a schema of the set, it returns "".
func (d *Definitions) Pointer(n *source.Node) string {
	if d.set.places[n] == nil {
		return ""
	}
	b := &bundle{set: d.set}
	unit, name := b.copiedSchema(d.set.places[n].root, n)
	return d.pointer(unit, name, n.PointerFrom(unit))
}

func (d *Definitions) pointer(unit *source.Node, name, rest string) string {
	if d.names[unit] == "" {
		d.Add(unit, name)
	}
	return "#" + escapeFragment(wire.Pointer("$defs", d.names[unit])+rest)
}

// All returns the added schemas and all schemas that they refer to, keyed by name.
func (d *Definitions) All() map[string]json.RawMessage {
	all := make(map[string]json.RawMessage, len(d.queue))
	for i := 0; i < len(d.queue); i++ { // writing a schema appends the schemas that it refers to
		n := d.queue[i]
		all[d.names[n]] = d.text(n)
	}
	return all
}

func (d *Definitions) text(n *source.Node) json.RawMessage {
	p := d.set.places[n]
	if p == nil || n.Kind != source.Object {
		return n.JSON()
	}
	b := &bundle{set: d.set, dialect: p.root.dialect}
	text := b.appendSchema(nil, n, true)
	out := make([]byte, 0, len(text)+64)
	from := 0
	for _, h := range b.holes {
		out = append(out, text[from:h.at]...)
		out = schematree.AppendString(out, d.pointer(h.unit, h.name, h.rest))
		from = h.at
	}
	out = append(out, text[from:]...)
	if b.dialect == schematree.Draft2020 {
		return out
	}
	head := schematree.AppendString([]byte(`{"$schema":`), b.dialect.URI+"#")
	if len(out) > len("{}") {
		head = append(head, ',')
	}
	return append(head, out[1:]...)
}

// Places returns the schemas that describe the payload value at the path of a rule.
func (s *Set) Places(e *Event, rule MatchRule) []*source.Node {
	to, end := s.targetAt(e.Payload, rule.Path)
	if end != nil { // reported when the rule was checked
		return nil
	}
	return to.here
}

// At returns the schemas that describe the value at a JSON Pointer, relative to the schema from. If from does not
// describe such a value, it returns nil.
func (s *Set) At(from *source.Node, tokens []string) []*source.Node {
	here, end := s.schemasAtPath(from, tokens)
	if end != nil {
		return nil
	}
	return here
}
