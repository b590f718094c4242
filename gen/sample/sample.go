// Package sample makes example values of JSON Schemas, for documentation: the same value on every
// run, always valid, and as telling as names, formats and the author's own examples allow.
//
// Start with [Value]. It builds candidates by reading the keywords and keeps the first that the
// runtime's validator accepts; what no candidate satisfies has no example, rather than a wrong one.
//
// The package makes no promise of compatibility.
package sample

import (
	"encoding/json"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/gen/internal/parsed"
	"github.com/mcpe-gen/mcpe-gen/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// attempts is how many candidates are tried. Each looks at the choices of a schema in another way.
const attempts = 48

// maxObjects bounds the schemas that examples are made for, in JSON objects. The work of the validator
// grows with the square of it, and nobody reads an example of so many members.
const maxObjects = 5_000

// Value returns a value that is valid under the published schema, as compact JSON with members in
// the order of the schema; false when none was found, or when the schema has more than 5,000 objects.
func Value(schema json.RawMessage) (json.RawMessage, bool) {
	return new(Maker).Value(&published.Schema{Head: schema})
}

// A Maker makes values of many schemas, for which each definition that they share is read and compiled once. Its
// zero value is ready, for use by one goroutine at a time.
type Maker struct {
	// Parsed are the schemas as nodes.
	Parsed  parsed.Schemas
	library validate.Library
}

// Value is [Value] of a schema whose definitions are apart.
func (m *Maker) Value(s *published.Schema) (json.RawMessage, bool) {
	if values := m.Values(s, 1); len(values) > 0 {
		return values[0], true
	}
	return nil, false
}

// Values returns at most so many different values: that of [Maker.Value], then valid values with the next element of each
// enum, and the other boolean. It returns nil if no valid value was found.
func (m *Maker) Values(s *published.Schema, most int) []json.RawMessage {
	schema, ok := m.Parsed.Of(s)
	if !ok || schema.Objects() > maxObjects {
		return nil
	}
	valid, err := m.library.Compile(s)
	if err != nil {
		return nil
	}
	var values []json.RawMessage
	seen := map[string]bool{}
	for turn := range most {
		v := candidate(schema, valid, turn)
		if v == nil && turn == 0 {
			return nil
		}
		if v != nil && !seen[string(v)] {
			seen[string(v)] = true
			values = append(values, v)
		}
	}
	return values
}

// candidate returns the first valid value among the attempts, or nil. Turn is how far enums and booleans are turned.
func candidate(schema *parsed.Schema, valid *validate.Schema, turn int) json.RawMessage {
	for i := range attempts {
		m := &maker{schema: schema, sparse: i%2 == 1, branch: i / 2, turn: turn, budget: 20_000, open: map[*source.Node]int{}}
		if v, ok := m.value([]*source.Node{schema.Root}, place{}); ok && valid.Validate(v) == nil {
			return v
		}
	}
	return nil
}

// A maker makes one candidate.
type maker struct {
	schema *parsed.Schema
	// sparse leaves out what is optional.
	sparse bool
	// branch turns every choice by that much.
	branch int
	// turn is how far enums and booleans are turned.
	turn int
	// budget bounds the work.
	budget int
	// open are the schemas whose values are in the making.
	open map[*source.Node]int
}

// A place is where a value is needed.
type place struct {
	// name is the member that holds it, depth how many containers are around it, nth its index among
	// its like.
	name  string
	depth int
	nth   int
}

func (p place) inside(name string, nth int) place { return place{name, p.depth + 1, nth} }

const (
	// showDepth is how deep optional members are shown, maxDepth how deep required ones may be.
	showDepth, maxDepth = 5, 30
)

// value makes a value for which all of the schemas hold.
func (m *maker) value(schemas []*source.Node, at place) (json.RawMessage, bool) {
	if m.budget--; m.budget < 0 || at.depth > maxDepth {
		return nil, false
	}
	var views []*source.Node
	seen := map[*source.Node]bool{}
	for _, s := range schemas {
		views = m.flatten(views, s, seen)
	}
	for _, v := range views {
		if v.Kind == source.Bool && !v.True() {
			return nil, false
		}
	}
	if v, ok := m.given(views, at); ok {
		return v, true
	}
	for _, v := range views {
		m.open[v]++
		defer func() { m.open[v]-- }()
	}
	switch m.kind(views) {
	case "object":
		return m.object(views, at)
	case "array":
		return m.array(views, at)
	case "integer", "number":
		return number(views, at, m.kind(views) == "integer")
	case "boolean":
		return json.RawMessage(strconv.FormatBool(m.turn%2 == 0)), true
	case "null":
		return json.RawMessage("null"), true
	}
	s, ok := m.text(views, at)
	return source.AppendString(nil, s), ok
}

// flatten adds s and every schema that applies to the same value: references, allOf, and the chosen
// alternative of each choice.
func (m *maker) flatten(views []*source.Node, s *source.Node, seen map[*source.Node]bool) []*source.Node {
	if s == nil || seen[s] {
		return views
	}
	seen[s] = true
	views = append(views, s)
	if ref := s.Get("$ref"); ref != nil {
		views = m.flatten(views, m.resolve(ref.Text), seen)
	}
	if all := s.Get("allOf"); all != nil {
		for _, part := range all.Items {
			views = m.flatten(views, part, seen)
		}
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if choice := s.Get(key); choice != nil && len(choice.Items) > 0 {
			views = m.flatten(views, m.choose(choice.Items), seen)
		}
	}
	if s.Get("if") != nil {
		if m.branch%2 == 0 {
			views = m.flatten(m.flatten(views, s.Get("if"), seen), s.Get("then"), seen)
		} else {
			views = m.flatten(views, s.Get("else"), seen)
		}
	}
	return views
}

// choose prefers an alternative that is not just null.
func (m *maker) choose(items []*source.Node) *source.Node {
	var telling []*source.Node
	for _, item := range items {
		if t := item.Get("type"); t == nil || t.Text != "null" {
			telling = append(telling, item)
		}
	}
	if len(telling) == 0 || m.branch >= attempts/4 {
		telling = items
	}
	return telling[m.branch%len(telling)]
}

// recurs reports whether one of the schemas is, or refers to, one whose value is in the making.
func (m *maker) recurs(schemas []*source.Node) bool {
	for _, s := range schemas {
		if m.open[s] > 0 {
			return true
		}
		if ref := s.Get("$ref"); ref != nil && m.open[m.resolve(ref.Text)] > 0 {
			return true
		}
	}
	return false
}

// resolve follows a reference within the schema; nil when it is not found.
func (m *maker) resolve(ref string) *source.Node {
	name, ok := fragment(ref)
	switch {
	case !ok:
		return nil
	case name == "" || name[0] == '/':
		return m.schema.Resolve(ref)
	}
	return anchored(m.schema.Root, name)
}

// anchored finds the schema with the anchor.
func anchored(n *source.Node, name string) *source.Node {
	if a := n.Get("$anchor"); a != nil && a.Text == name {
		return n
	}
	if id := n.Get("$id"); id != nil && id.Text == "#"+name {
		return n
	}
	for _, member := range n.Members {
		if found := anchored(member.Value, name); found != nil {
			return found
		}
	}
	for _, item := range n.Items {
		if found := anchored(item, name); found != nil {
			return found
		}
	}
	return nil
}

// given is a value that the schema itself names: const, enum, examples, default.
func (m *maker) given(views []*source.Node, at place) (json.RawMessage, bool) {
	for _, v := range views {
		if c := v.Get("const"); c != nil {
			return c.JSON(), true
		}
	}
	for _, v := range views {
		if e := v.Get("enum"); e != nil && len(e.Items) > 0 {
			return e.Items[(m.branch+m.turn+at.nth)%len(e.Items)].JSON(), true
		}
	}
	if at.nth > 0 || m.branch > 1 {
		return nil, false
	}
	for _, v := range views {
		if e := v.Get("examples"); e != nil && len(e.Items) > 0 {
			return e.Items[0].JSON(), true
		}
	}
	for _, v := range views {
		if d := v.Get("default"); d != nil && d.Kind != source.Null && at.depth > 0 {
			return d.JSON(), true
		}
	}
	return nil, false
}

var implied = []struct{ keyword, kind string }{
	{"properties", "object"}, {"required", "object"}, {"additionalProperties", "object"}, {"patternProperties", "object"}, {"minProperties", "object"},
	{"items", "array"}, {"prefixItems", "array"}, {"minItems", "array"}, {"contains", "array"},
	{"minimum", "number"}, {"maximum", "number"}, {"exclusiveMinimum", "number"}, {"exclusiveMaximum", "number"}, {"multipleOf", "number"},
}

// kind is the JSON type to make: the first that all views allow, null last.
func (m *maker) kind(views []*source.Node) string {
	var allowed []string
	limited := false
	for _, v := range views {
		t := v.Get("type")
		if t == nil {
			continue
		}
		names := []string{t.Text}
		if t.Kind == source.Array {
			names = nil
			for _, item := range t.Items {
				names = append(names, item.Text)
			}
		}
		if !limited {
			allowed, limited = names, true
			continue
		}
		allowed = common(allowed, names)
	}
	if !limited {
		for _, i := range implied {
			for _, v := range views {
				if v.Get(i.keyword) != nil {
					return i.kind
				}
			}
		}
		return "string"
	}
	var telling []string
	for _, name := range allowed {
		if name != "null" {
			telling = append(telling, name)
		}
	}
	if len(telling) == 0 {
		return "null"
	}
	return telling[m.branch%len(telling)]
}

// common is the intersection of two lists of types, in which an integer is a number.
func common(a, b []string) []string {
	var both []string
	for _, x := range a {
		for _, y := range b {
			switch {
			case x == y, x == "integer" && y == "number":
				both = append(both, x)
			case x == "number" && y == "integer":
				both = append(both, y)
			}
		}
	}
	return both
}
