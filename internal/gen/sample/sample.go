// Package sample generates example values of JSON Schemas for documentation. The values are deterministic and valid.
// They are based on names, formats and the author's examples.
//
// Start with [Value]. It generates candidates from the keywords and returns the first candidate that the validator of
// the runtime accepts.
package sample

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/mcpe-gen/mcpe-gen/internal/gen/parsed"
	"github.com/mcpe-gen/mcpe-gen/internal/gen/source"
	"github.com/mcpe-gen/mcpe-gen/internal/published"
	"github.com/mcpe-gen/mcpe-gen/internal/schematree"
	"github.com/mcpe-gen/mcpe-gen/internal/validate"
)

// attempts is the maximum number of candidates. Each candidate is the result of different choices among alternatives
// and optional members.
const attempts = 48

// maxObjects is the maximum number of JSON objects in a schema. The run time of the validator is quadratic in the size
// of the schema, and such long examples are not useful.
const maxObjects = 5_000

// Value returns a valid value for the published schema, as compact JSON with members in schema order. It returns false
// if it does not find a valid value, or if the schema contains more than 5,000 objects.
func Value(schema json.RawMessage) (json.RawMessage, bool) {
	return new(Maker).Value(&published.Schema{Head: schema})
}

// A Maker generates values for many schemas. It parses and compiles each shared definition only once. The zero value is
// ready for use. It is not safe for concurrent use.
type Maker struct {
	// Parsed caches the parsed definitions.
	Parsed  parsed.Schemas
	library validate.Library
}

// Value is like the function [Value], but for a schema with separate definitions.
func (m *Maker) Value(s *published.Schema) (json.RawMessage, bool) {
	if values := m.Values(s, 1); len(values) > 0 {
		return values[0], true
	}
	return nil, false
}

// Values returns at most most distinct valid values. The first is the result of [Maker.Value], and the others have
// different enum elements and booleans. If it does not find a valid value, it returns nil.
func (m *Maker) Values(s *published.Schema, most int) []json.RawMessage {
	schema, valid := m.compile(s)
	if schema == nil {
		return nil
	}
	var values []json.RawMessage
	seen := map[string]bool{}
	for turn := range most {
		v, _ := firstValid(schema, valid, turn)
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

// compile returns the parsed schema and its validator, or nil if the schema is invalid or too large.
func (m *Maker) compile(s *published.Schema) (*parsed.Schema, *validate.Schema) {
	schema, ok := m.Parsed.Of(s)
	if !ok || schema.Objects() > maxObjects {
		return nil, nil
	}
	valid, err := m.library.Compile(s)
	if err != nil {
		return nil, nil
	}
	return schema, valid
}

// firstValid returns the first valid candidate, or nil, and the number of the attempt. turn selects the enum elements
// and booleans.
func firstValid(schema *parsed.Schema, valid *validate.Schema, turn int) (v json.RawMessage, attempt int) {
	for i := range attempts {
		m := maker{sparse: i%2 == 1, branch: i / 2, turn: turn, limit: unlimited}
		if v := m.generate(schema, valid); v != nil {
			return v, i
		}
	}
	return nil, 0
}

// A maker generates one candidate.
type maker struct {
	schema *parsed.Schema
	// sparse omits optional members.
	sparse bool
	// branch selects the alternatives and conditional branches.
	branch int
	// turn selects the enum elements and booleans.
	turn int
	// limit restricts the optional members.
	limit memberLimit
	// budget limits the work.
	budget int
	// inProgress maps a schema to the number of enclosing values that are generated from it.
	inProgress map[*source.Node]int
}

// generate returns the candidate, or nil if the candidate is not valid.
func (m *maker) generate(schema *parsed.Schema, valid *validate.Schema) json.RawMessage {
	m.schema, m.budget, m.inProgress = schema, 20_000, map[*source.Node]int{}
	if v, ok := m.generateValue([]*source.Node{schema.Root}, place{}); ok && valid.Validate(v) == nil {
		return v
	}
	return nil
}

// A place describes the location of a generated value.
type place struct {
	// name is the name of the member. depth is the number of enclosing arrays and objects. nth is the index of the
	// value among sibling values from the same schema.
	name  string
	depth int
	nth   int
}

func (p place) inside(name string, nth int) place { return place{name, p.depth + 1, nth} }

// maxDepth is the maximum nesting depth of a generated value.
const maxDepth = 30

// generateValue returns a value that satisfies all of the schemas.
func (m *maker) generateValue(schemas []*source.Node, at place) (json.RawMessage, bool) {
	if m.budget--; m.budget < 0 || at.depth > maxDepth {
		return nil, false
	}
	var views []*source.Node
	seen := map[*source.Node]bool{}
	for _, s := range schemas {
		views = m.appendViews(views, s, seen)
	}
	if slices.ContainsFunc(views, func(v *source.Node) bool { return v.Kind == source.Bool && !v.True() }) {
		return nil, false
	}
	if v, ok := m.authorValue(views, at); ok {
		return v, true
	}
	for _, v := range views {
		m.inProgress[v]++
		defer func() { m.inProgress[v]-- }()
	}
	switch t := m.chooseType(views); t {
	case schematree.Object:
		return m.object(views, at)
	case schematree.Array:
		return m.array(views, at)
	case schematree.Integer, schematree.Number:
		return numberValue(views, at, t == schematree.Integer)
	case schematree.Boolean:
		return json.RawMessage(strconv.FormatBool(m.turn%2 == 0)), true
	case schematree.Null:
		return json.RawMessage("null"), true
	}
	s, ok := m.stringValue(views, at)
	return schematree.AppendString(nil, s), ok
}

// appendViews appends s and every schema that applies to the same value. These are the targets of references, the
// schemas in allOf, and the chosen alternative of each oneOf and anyOf.
func (m *maker) appendViews(views []*source.Node, s *source.Node, seen map[*source.Node]bool) []*source.Node {
	if s == nil || seen[s] {
		return views
	}
	seen[s] = true
	views = append(views, s)
	schematree.Applied(m.schema, s, func(part *source.Node) { views = m.appendViews(views, part, seen) }, schematree.Unconditional...)
	if s.Get("$ref") != nil && m.schema.RefAlone(s) {
		return views
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		if choice := s.Get(key); choice != nil && len(choice.Items) > 0 {
			views = m.appendViews(views, m.choose(choice.Items), seen)
		}
	}
	switch condition := s.Get("if"); {
	case condition == nil:
		return views
	case m.branch%2 == 0:
		return m.appendViews(m.appendViews(views, condition, seen), s.Get("then"), seen)
	}
	return m.appendViews(views, s.Get("else"), seen)
}

// choose returns an alternative. It avoids alternatives that allow only null.
func (m *maker) choose(items []*source.Node) *source.Node {
	telling := slices.DeleteFunc(slices.Clone(items), func(n *source.Node) bool { return schematree.Declared(n) == schematree.Null })
	if len(telling) == 0 || m.branch >= attempts/4 {
		telling = items
	}
	return telling[m.branch%len(telling)]
}

// isRecursive reports whether an enclosing value is generated from one of the schemas or from the target of its $ref.
func (m *maker) isRecursive(schemas []*source.Node) bool {
	return slices.ContainsFunc(schemas, func(s *source.Node) bool {
		to, ok := m.schema.Target(s, "$ref")
		return m.inProgress[s] > 0 || ok && m.inProgress[to] > 0
	})
}

// keywordValues returns the values of a keyword in the views.
func keywordValues(views []*source.Node, keyword string) []*source.Node {
	var all []*source.Node
	for _, v := range views {
		if n := v.Get(keyword); n != nil {
			all = append(all, n)
		}
	}
	return all
}

// authorValue returns a value from const, enum, examples or default. It returns false if the views do not have such a
// value.
func (m *maker) authorValue(views []*source.Node, at place) (json.RawMessage, bool) {
	if c := keywordValues(views, "const"); len(c) > 0 {
		return c[0].JSON(), true
	}
	if e := keywordValues(views, "enum"); len(e) > 0 && len(e[0].Items) > 0 {
		return e[0].Items[(m.branch+m.turn+at.nth)%len(e[0].Items)].JSON(), true
	}
	if at.nth > 0 || m.branch > 1 {
		return nil, false
	}
	for _, e := range keywordValues(views, "examples") {
		if len(e.Items) > 0 && m.limit.allows(e.Items[0]) {
			return e.Items[0].JSON(), true
		}
	}
	for _, d := range keywordValues(views, "default") {
		if d.Kind != source.Null && at.depth > 0 && m.limit.allows(d) {
			return d.JSON(), true
		}
	}
	return nil, false
}

// chooseType returns the JSON type to generate, which all views allow. It returns null only if the views do not allow
// another type.
func (m *maker) chooseType(views []*source.Node) schematree.Types {
	var first *source.Node // its order is the order of preference
	allowed := schematree.AnyType
	for _, v := range views {
		first = cmp.Or(first, v.Get("type"))
		allowed &= schematree.Declared(v)
	}
	if first == nil {
		meant, _ := schematree.Implied(views)
		for _, t := range meant {
			if t != schematree.String { // a format can be that of a number
				return t
			}
		}
		return schematree.String
	}
	var choices []schematree.Types
	for _, name := range append([]*source.Node{first}, first.Items...) {
		if t := schematree.Named(name.Text) & allowed &^ schematree.Null; t != 0 {
			choices = append(choices, t)
		}
	}
	if len(choices) == 0 {
		return schematree.Null
	}
	return choices[m.branch%len(choices)]
}
